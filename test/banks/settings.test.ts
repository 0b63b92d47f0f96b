import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { readNinePsbSettings } from '../../src/banks/9psb/settings.ts'
import { BANK_CODES } from '../../src/banks/bank.ts'
import type { Connectors, PrepareConnector } from '../../src/banks/connectors.ts'
import { readProvidusSettings } from '../../src/banks/providus/settings.ts'
import { timeoutMs, url } from '../../src/banks/settings.ts'
import { ConfigError, readConfig } from '../../src/config/config.ts'
import { secret } from '../../src/config/settings.ts'
import { settingRisks } from '../../src/config/start-settings.ts'
import { readSettingsOf } from './fixture.ts'
import { usePalmPay } from './palmpay/fixture.ts'
import { useSafeHaven } from './safehaven/fixture.ts'

const palm = usePalmPay()
const haven = useSafeHaven()

const SETTINGS = z.object({
  URL: url.default('https://bank.example/api'),
  TIMEOUT_MS: timeoutMs(8_000, 60_000),
})

const prepare =
  (binds: boolean, pays = false): PrepareConnector =>
  (read) => {
    const settings = read(SETTINGS)
    if (!settings) return undefined
    const connect = () => {
      throw new Error('not connected in this test')
    }
    return { baseUrl: settings.url, timeoutMs: settings.timeoutMs, binds, pays, connect }
  }

const CONNECTORS: Connectors = {
  PROVIDUS: (read) => {
    read(z.object({ KEY: secret(z.string()) }))
    return prepare(false)(read)
  },
  PALMPAY: prepare(true),
}

function faultsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(env, CONNECTORS)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    return (error as ConfigError).faults
  }
}

describe('the settings of banks', () => {
  test('are only read for live banks', () => {
    const invalid = { BANK_PROVIDUS_URL: 'x', BANK_PALMPAY_CONCURRENCY: '0' }
    expect(faultsOf(invalid)).toEqual([])
    expect(readConfig(invalid, CONNECTORS).liveBanks).toEqual({})
    expect(faultsOf({ ...invalid, BANKS: 'PALMPAY=live,PROVIDUS=live' })).toEqual([
      'BANK_PROVIDUS_KEY is required',
      expect.stringContaining('BANK_PROVIDUS_URL must be a URL'),
      'BANK_PALMPAY_CONCURRENCY must be 1 to 200',
    ])
  })

  test('reject REQUERY=off if no signature binds the notifications', () => {
    const env = { BANKS: 'PROVIDUS=live', BANK_PROVIDUS_KEY: 'k', BANK_PROVIDUS_REQUERY: 'off' }
    expect(faultsOf(env)).toEqual([expect.stringContaining('BANK_PROVIDUS_REQUERY must be on')])
  })

  test('warn of a bank that is not requeried', () => {
    const env = { BANKS: 'PALMPAY=live' }
    const off = { ...env, BANK_PALMPAY_REQUERY: 'off' }
    expect(settingRisks(readConfig(env, CONNECTORS))).toEqual([])
    expect(settingRisks(readConfig(off, CONNECTORS))).toEqual([
      {
        found: expect.stringMatching(/^BANK_PALMPAY_REQUERY is off: payments at PALMPAY are/),
        advice: expect.stringContaining('BANK_PALMPAY_REQUERY=on'),
      },
    ])
  })

  test.each([
    ['embedded', true, {}, true],
    ['DATABASE_URL', true, { DATABASE_URL: 'postgres://h/d' }, false],
    [
      'simulated live accounts',
      true,
      { DATABASE_URL: 'postgres://h/d', ALLOW_SIMULATED_LIVE_ACCOUNTS: 'on' },
      true,
    ],
    ['no payouts', false, {}, false],
  ])(
    'warn that simulated money is paid out as real money: %s, payouts %s',
    (_title, pays, env, isWarned) => {
      const masterKey = { MASTER_KEY: Buffer.alloc(32, 1).toString('base64') }
      const given = { ...env, ...masterKey, BANKS: 'PALMPAY=live' }
      const risks = settingRisks(readConfig(given, { PALMPAY: prepare(true, pays) }))
      const found =
        'live accounts at 9PSB, SAFEHAVEN, PROVIDUS are simulated, and PALMPAY pays out: simulated money leaves as real money, and what a simulated bank sends reaches no beneficiary'
      expect(risks.some((risk) => risk.found === found)).toBe(isWarned)
    },
  )

  test('reject a live bank without a connector', () => {
    expect(faultsOf({ BANKS: '9PSB=live' })).toEqual([
      expect.stringContaining('BANKS has 9PSB=live'),
    ])
    expect(faultsOf({ BANKS: 'PALMPAY=alive' })).toEqual([expect.stringContaining('PALMPAY=live')])
  })
})

test.each([
  ...BANK_CODES.map((code) => [`BANK_${code}_BASE_URL`, code]),
  ['BANK_SAFEHAVEN_CALLBACK_URL', 'SAFEHAVEN'],
])('%s over http stops the start, except to this machine', (name, code) => {
  const faultsAt = (value: string) => {
    try {
      readConfig({ BANKS: `${code}=live`, [name]: value })
      return []
    } catch (error) {
      return (error as ConfigError).faults.filter((fault) => fault.startsWith(name))
    }
  }
  expect(faultsAt('http://bank.example')).toEqual([
    `${name} must be https, unless it is at this machine`,
  ])
  expect(faultsAt('http://127.0.0.1:9101')).toEqual([])
})

test('the settings of a connector report all errors at once, without secrets', () => {
  const wrongUrl = 'https://user:s3cret@bank.example'
  const ninePsb = {
    BASE_URL: wrongUrl,
    TIMEOUT_MS: '5',
    CREATE_PATH: '/create?x=1',
    CREATE_FIELDS: '["order"]',
    NOTIFICATION_USER: 'a:b',
    NOTIFICATION_PASSWORD: '',
    PRIVATE_KEY: '',
  }
  const providus = {
    AMOUNT_FIELD: 'feeAmount',
    DENIED_CODE: '00',
    VERIFY_SESSION_PATH: '../x?y',
    CLIENT_ID: 'a b',
    CLIENT_SECRET: '',
  }
  const safeHaven = {
    ACCOUNT_KIND: 'virtual',
    CLIENT_ID: '',
    PRIVATE_KEY: 's3cretkey',
    CALLBACK_URL: wrongUrl,
    CALLBACK_SECRET: 's3cret/short',
    SETTLEMENT_ACCOUNT: '1',
    POLLS: '0',
  }
  const palmPay = {
    APP_ID: '',
    PRIVATE_KEY: 's3cretkey',
    PUBLIC_KEY: palm.fake.environment['BANK_PALMPAY_PRIVATE_KEY'],
    CREATE_PATH: '/with space',
  }
  for (const [code, wrong, read] of [
    ['9PSB', ninePsb, (env) => readSettingsOf(readNinePsbSettings, '9PSB', env)],
    ['PROVIDUS', providus, (env) => readSettingsOf(readProvidusSettings, 'PROVIDUS', env)],
    ['SAFEHAVEN', safeHaven, haven.settings],
    ['PALMPAY', palmPay, palm.settings],
  ] satisfies [string, object, (env: NodeJS.ProcessEnv) => { faults: readonly string[] }][]) {
    const named = Object.entries(wrong).map(([name, value]) => [`BANK_${code}_${name}`, value])
    const { faults } = read({ BANK_9PSB_PUBLIC_KEY: 's3cret', ...Object.fromEntries(named) })
    const expected = named.map(([name]) => name).filter((name) => !/ACCOUNT_KIND/.test(name!))
    expect(faults.map((fault) => fault.split(' ', 1)[0]).sort()).toEqual(expected.sort())
    expect(faults.join()).not.toContain('s3cret')
  }
})

test('permanent accounts of Safe Haven require an identity, or say that customers have theirs', () => {
  const missing = { BANK_SAFEHAVEN_IDENTITY_ID: '' }
  expect(haven.settings(missing).faults).toEqual([
    expect.stringMatching(
      /^BANK_SAFEHAVEN_IDENTITY_ID is required: .* or set BANK_SAFEHAVEN_IDENTITY=customer/,
    ),
  ])
  expect(haven.settings({ ...missing, BANK_SAFEHAVEN_IDENTITY: 'customer' }).faults).toEqual([])
})

test('the settings of transfers are given together, or not at all', () => {
  const given = { BANK_PROVIDUS_CLIENT_ID: 'id', BANK_PROVIDUS_CLIENT_SECRET: 'secret' }
  const settings = (env: NodeJS.ProcessEnv) =>
    readSettingsOf(readProvidusSettings, 'PROVIDUS', { ...given, ...env })
  expect(settings({})).toMatchObject({ found: { transfers: undefined }, faults: [] })
  expect(settings({ BANK_PROVIDUS_TRANSFER_PASSWORD: 's3cret' }).faults).toEqual([
    'BANK_PROVIDUS_TRANSFER_USERNAME is required',
    'BANK_PROVIDUS_TRANSFER_ACCOUNT is required',
    'BANK_PROVIDUS_TRANSFER_SENDER is required',
  ])
  expect(settings({ BANK_PROVIDUS_TRANSFER_ACCOUNT: '12' })).toEqual({
    found: undefined,
    faults: ['BANK_PROVIDUS_TRANSFER_ACCOUNT must be 10 digits'],
  })
})
