import { describe, expect, test } from 'vitest'
import { useSafeHaven } from './fixture.ts'

const haven = useSafeHaven()
const { settings } = haven

describe('settings', () => {
  test('default to production', () => {
    const { found, faults } = settings({ BANK_SAFEHAVEN_BASE_URL: '' })
    expect(faults).toEqual([])
    expect(found).toMatchObject({
      baseUrl: 'https://api.safehavenmfb.com',
      audience: 'https://api.safehavenmfb.com',
      tokenForm: 'form',
      account: { kind: 'sub-account', identityType: 'vID' },
    })
  })

  test('report every error without secrets', () => {
    const { faults } = settings({
      BANK_SAFEHAVEN_ACCOUNT_KIND: 'virtual',
      BANK_SAFEHAVEN_CLIENT_ID: '',
      BANK_SAFEHAVEN_PRIVATE_KEY: 'c2VjcmV0IGtleQ',
      BANK_SAFEHAVEN_CALLBACK_URL: 'https://user:password@example.com',
      BANK_SAFEHAVEN_CALLBACK_SECRET: 'too/short',
      BANK_SAFEHAVEN_SETTLEMENT_ACCOUNT: '1',
      BANK_SAFEHAVEN_POLLS: '0',
    })
    expect(faults.map((fault) => fault.split(' ', 1)[0]).sort()).toEqual([
      'BANK_SAFEHAVEN_CALLBACK_SECRET',
      'BANK_SAFEHAVEN_CALLBACK_URL',
      'BANK_SAFEHAVEN_CLIENT_ID',
      'BANK_SAFEHAVEN_POLLS',
      'BANK_SAFEHAVEN_PRIVATE_KEY',
      'BANK_SAFEHAVEN_SETTLEMENT_ACCOUNT',
    ])
    expect(faults.join()).not.toMatch(/c2VjcmV0IGtleQ|too\/short|password@/)
  })
})
