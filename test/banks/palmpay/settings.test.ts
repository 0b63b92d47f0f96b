import { describe, expect, test } from 'vitest'
import { usePalmPay } from './fixture.ts'

const palm = usePalmPay()
const { settings } = palm

describe('settings', () => {
  test('default to production', () => {
    const { found, faults } = settings({ BANK_PALMPAY_BASE_URL: '' })
    expect(faults).toEqual([])
    expect(found).toMatchObject({
      baseUrl: 'https://open-gw-prod.palmpay-inc.com',
      findBy: 'virtualAccountNo',
      notOpenedCode: '',
      version: 'V2.0',
      countryCode: 'NG',
    })
  })

  test('report every error without keys', () => {
    const { faults } = settings({
      BANK_PALMPAY_APP_ID: '',
      BANK_PALMPAY_PRIVATE_KEY: 'c2VjcmV0IGtleQ',
      BANK_PALMPAY_PUBLIC_KEY: palm.fake.environment['BANK_PALMPAY_PRIVATE_KEY'],
      BANK_PALMPAY_CREATE_FIELDS: '[]',
      BANK_PALMPAY_CREATE_PATH: '/with space',
    })
    expect(faults.map((fault) => fault.split(' ', 1)[0]).sort()).toEqual([
      'BANK_PALMPAY_APP_ID',
      'BANK_PALMPAY_CREATE_FIELDS',
      'BANK_PALMPAY_CREATE_PATH',
      'BANK_PALMPAY_PRIVATE_KEY',
      'BANK_PALMPAY_PUBLIC_KEY',
    ])
    expect(faults.join()).not.toContain('c2VjcmV0IGtleQ')
  })

  test('show no keys when printed', () => {
    expect(JSON.stringify(settings().found)).not.toMatch(/[A-Za-z0-9+/]{60}/)
  })
})
