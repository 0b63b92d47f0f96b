import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { AccountOrder, BankNotification } from '../../../src/banks/bank.ts'
import type { BankHttp } from '../../../src/banks/http/bank-http.ts'
import {
  type FakeSafeHaven,
  type FakeSafeHavenOptions,
  generateSafeHavenCredentials,
  startFakeSafeHaven,
} from '../../../src/banks/safehaven/fake/safehaven.ts'
import { createSafeHaven } from '../../../src/banks/safehaven/safehaven.ts'
import { readSafeHavenSettings } from '../../../src/banks/safehaven/settings.ts'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { accountOrder, connectorParts, readSettingsOf } from '../fixture.ts'

export const SECRET = 'a-secret-of-the-path-0123456789'
export const VIRTUAL = { BANK_SAFEHAVEN_ACCOUNT_KIND: 'virtual', BANK_SAFEHAVEN_POLL_MS: '10' }
export const signal = new AbortController().signal

interface ConnectorOptions {
  readonly bank?: FakeSafeHaven
  readonly timeoutMs?: number
  readonly clock?: Clock
}

/** Making keys takes longer than most tests. */
const credentials = generateSafeHavenCredentials()

/** A fake Safe Haven for the tests of one file, and connectors to it. */
export function useSafeHaven() {
  const fakes: FakeSafeHaven[] = []
  let fake: FakeSafeHaven
  let orders = 0

  const start = async (options: Partial<FakeSafeHavenOptions> = {}) => {
    const started = await startFakeSafeHaven({ port: 0, credentials, ...options })
    fakes.push(started)
    return started
  }

  beforeAll(async () => {
    fake = await start()
  })
  afterAll(async () => {
    await Promise.all(fakes.map((started) => started.close()))
  })
  beforeEach(() => fake.faults.clear())

  function settings(environment: NodeJS.ProcessEnv = {}, bank = fake) {
    const own = {
      BANK_SAFEHAVEN_CALLBACK_URL: 'http://127.0.0.1:9/banks/safehaven/notifications',
      BANK_SAFEHAVEN_CALLBACK_SECRET: SECRET,
    }
    return readSettingsOf(readSafeHavenSettings, 'SAFEHAVEN', {
      ...bank.environment,
      ...own,
      ...environment,
    })
  }

  function connector(environment: NodeJS.ProcessEnv = {}, options: ConnectorOptions = {}) {
    const { bank = fake, timeoutMs = 60_000, clock = systemClock } = options
    const warnings: string[] = []
    const { found, faults } = settings(environment, bank)
    expect(faults).toEqual([])
    const parts = connectorParts(bank.url, timeoutMs)
    const bodies: string[] = []
    const http: BankHttp = {
      send(request) {
        bodies.push(request.body ?? '')
        return parts.http.send(request)
      },
    }
    const warn = (text: string) => void warnings.push(text)
    const created = createSafeHaven({ ...parts, settings: found!, http, clock, warn })
    return { ...created, warnings, bodies }
  }

  function order(overrides: Partial<AccountOrder> = {}): AccountOrder {
    orders += 1
    return accountOrder({
      bank: 'SAFEHAVEN',
      reference: `R-SAFEHAVEN${orders}`,
      ...overrides,
    })
  }

  const opened = (reference: string, bank = fake) =>
    [...bank.accounts.values()].filter((account) => account.reference === reference)

  return {
    get fake() {
      return fake
    },
    credentials,
    start,
    settings,
    connector,
    order,
    opened,
  }
}

export const notificationOf = (body: string, pathSecret = SECRET): BankNotification => ({
  headers: {},
  rawBody: Buffer.from(body),
  pathSecret,
})
