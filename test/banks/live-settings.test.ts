import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readNinePsbSettings } from '../../src/banks/9psb/settings.ts'
import { BANK_CODES as CODES } from '../../src/banks/bank.ts'
import { mergeFields } from '../../src/banks/bank-fields.ts'
import { readProvidusSettings } from '../../src/banks/providus/settings.ts'
import { type ConfigError, readConfig } from '../../src/config/config.ts'
import { makeFolder } from '../support/folder.ts'
import { ENV as NINE_PSB } from './9psb-fixture.ts'
import { settingsOf } from './fixture.ts'
import { ENV as PROVIDUS } from './providus-fixture.ts'

describe('the settings of 9PSB', () => {
  test('default to the bank’s production values', () => {
    expect(settingsOf(readNinePsbSettings, '9PSB', NINE_PSB)).toMatchObject({
      baseUrl: 'https://baas.9psb.com.ng/iva-api/v1/merchant/virtualaccount',
      publicKey: NINE_PSB.BANK_9PSB_PUBLIC_KEY,
      createPath: 'create',
      confirmPath: 'confirmpayment',
    })
  })

  test('report all errors at once, without secrets', () => {
    const env = {
      BANK_9PSB_BASE_URL: 'https://user:s3cret@bank.example',
      BANK_9PSB_TIMEOUT_MS: '5',
      BANK_9PSB_CREATE_PATH: '/create?x=1',
      BANK_9PSB_CREATE_FIELDS: '["order"]',
      BANK_9PSB_NOTIFICATION_USER: 'a:b',
      BANK_9PSB_PUBLIC_KEY: 's3cret',
    }
    const read = () => settingsOf(readNinePsbSettings, '9PSB', env)
    const names = [...Object.keys(env), 'BANK_9PSB_PRIVATE_KEY', 'BANK_9PSB_NOTIFICATION_PASSWORD']
    for (const name of names.filter((each) => each !== 'BANK_9PSB_PUBLIC_KEY')) {
      expect(read).toThrow(new RegExp(`^${name} `, 'm'))
    }
    expect(read).not.toThrow(/s3cret/)
  })
})

describe('the settings of Providus', () => {
  test('default to the bank’s production values', () => {
    expect(settingsOf(readProvidusSettings, 'PROVIDUS', PROVIDUS)).toMatchObject({
      baseUrl: 'https://vps.providusbank.com/vps/api',
      amountField: 'transactionAmount',
      deniedCode: '03',
      verifySettlementPath: 'PiPverifyTransaction_settlementid',
    })
  })

  test('read the secret from a file', async () => {
    const folder = await makeFolder('settings')
    onTestFinished(() => rm(folder, { recursive: true }))
    const file = join(folder, 'secret')
    await writeFile(file, 'from-a-file\n')
    const { BANK_PROVIDUS_CLIENT_ID } = PROVIDUS
    const env = { BANK_PROVIDUS_CLIENT_ID, BANK_PROVIDUS_CLIENT_SECRET_FILE: file }
    expect(settingsOf(readProvidusSettings, 'PROVIDUS', env).clientSecret).toBe('from-a-file')
  })

  test.each([
    ['BANK_PROVIDUS_AMOUNT_FIELD', 'feeAmount'],
    ['BANK_PROVIDUS_DENIED_CODE', '00'],
    ['BANK_PROVIDUS_CREATE_FIELDS', '{'],
    ['BANK_PROVIDUS_VERIFY_SESSION_PATH', '../x?y'],
    ['BANK_PROVIDUS_CLIENT_ID', 'a b'],
  ])('report an invalid %s', (name, value) => {
    const read = () => settingsOf(readProvidusSettings, 'PROVIDUS', { ...PROVIDUS, [name]: value })
    expect(read).toThrow(new RegExp(`^${name} must be`))
  })
})

test.each([
  ...CODES.map((code) => [`BANK_${code}_BASE_URL`, code]),
  ['BANK_SAFEHAVEN_CALLBACK_URL', 'SAFEHAVEN'],
])('%s over http stops the start, except to this machine', (name, code) => {
  const faultsOf = (value: string) => {
    try {
      readConfig({ BANKS: `${code}=live`, [name]: value })
      return []
    } catch (error) {
      return (error as ConfigError).faults.filter((fault) => fault.startsWith(name))
    }
  }
  expect(faultsOf('http://bank.example')).toEqual([
    `${name} must be https, unless it is at this machine`,
  ])
  expect(faultsOf('http://127.0.0.1:9101')).toEqual([])
})

test('merges extra fields deeply without polluting prototypes', () => {
  const overrides = JSON.parse('{"order":{"amount":5},"__proto__":{"polluted":true},"list":[1]}')
  const merged = mergeFields({ order: { amount: 0, currency: 'NGN' }, list: [2, 3] }, overrides)
  expect(JSON.parse(JSON.stringify(merged))).toEqual(
    JSON.parse('{"order":{"amount":5,"currency":"NGN"},"list":[1],"__proto__":{"polluted":true}}'),
  )
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
})
