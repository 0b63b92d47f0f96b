import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Connectors, PrepareConnector } from '../../src/banks/connectors.ts'
import { timeoutMs, url } from '../../src/banks/settings.ts'
import { ConfigError, readConfig } from '../../src/config/config.ts'
import { settingRisks } from '../../src/config/setting-risks.ts'
import { secret } from '../../src/config/settings.ts'

const SETTINGS = z.object({
  URL: url.default('https://bank.example/api'),
  TIMEOUT_MS: timeoutMs(8_000, 60_000),
})

const prepare =
  (binds: boolean): PrepareConnector =>
  (read) => {
    const settings = read(SETTINGS)
    if (!settings) return undefined
    const connect = () => {
      throw new Error('not connected in this test')
    }
    return { baseUrl: settings.url, timeoutMs: settings.timeoutMs, binds, connect }
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

  test('have defaults that can be overridden', () => {
    const { banks, liveBanks } = readConfig({ BANKS: 'PALMPAY=live' }, CONNECTORS)
    expect(banks).toMatchObject({ PALMPAY: 'live', PROVIDUS: 'sandbox' })
    expect(liveBanks.PALMPAY).toMatchObject({
      requery: true,
      allowedCidrs: [],
      limits: { timeoutMs: 8_000, connectTimeoutMs: 3_000, concurrency: 16 },
      connector: { baseUrl: 'https://bank.example/api' },
    })
    const given = {
      BANKS: 'PALMPAY=live',
      BANK_PALMPAY_TIMEOUT_MS: '500',
      BANK_PALMPAY_CONCURRENCY: '3',
      BANK_PALMPAY_CONNECT_TIMEOUT_MS: '200',
      BANK_PALMPAY_ALLOWED_CIDRS: '10.0.0.0/8, ::1/128',
      BANK_PALMPAY_REQUERY: 'off',
    }
    expect(readConfig(given, CONNECTORS).liveBanks.PALMPAY).toMatchObject({
      requery: false,
      allowedCidrs: ['10.0.0.0/8', '::1/128'],
      limits: { timeoutMs: 500, connectTimeoutMs: 200, concurrency: 3 },
    })
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

  test('reject a live bank without a connector', () => {
    expect(faultsOf({ BANKS: '9PSB=live' })).toEqual([
      expect.stringContaining('BANKS has 9PSB=live'),
    ])
    expect(faultsOf({ BANKS: 'PALMPAY=alive' })).toEqual([expect.stringContaining('PALMPAY=live')])
  })
})
