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
      account: { kind: 'sub-account', operatorIdentityId: '64f0c0ffee64f0c0ffee0001' },
    })
  })

  test('of permanent accounts require an identity, or say that customers have theirs', () => {
    const missing = { BANK_SAFEHAVEN_IDENTITY_ID: '' }
    expect(settings(missing).faults).toEqual([
      expect.stringMatching(
        /^BANK_SAFEHAVEN_IDENTITY_ID is required: .* or set BANK_SAFEHAVEN_IDENTITY=customer/,
      ),
    ])
    const customers = settings({ ...missing, BANK_SAFEHAVEN_IDENTITY: 'customer' })
    expect(customers).toMatchObject({ faults: [], found: { account: { kind: 'sub-account' } } })
  })

  test('take no callback URL without https, except at this machine', () => {
    const fault = (url: string) => settings({ BANK_SAFEHAVEN_CALLBACK_URL: url }).faults
    expect(fault('http://inflow.example/banks/safehaven/notifications')).toEqual([
      'BANK_SAFEHAVEN_CALLBACK_URL must be https, unless it is at this machine',
    ])
    expect(fault('https://inflow.example/banks/safehaven/notifications')).toEqual([])
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
