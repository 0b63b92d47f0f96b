import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { AccountOrder } from '../../../src/banks/bank.ts'
import {
  type FakePalmPay,
  generatePalmPayCredentials,
  startFakePalmPay,
} from '../../../src/banks/palmpay/fake.ts'
import { createPalmPay } from '../../../src/banks/palmpay/palmpay.ts'
import { readPalmPaySettings } from '../../../src/banks/palmpay/settings.ts'
import { accountOrder, bankNotification, connectorParts, readSettingsOf } from '../fixture.ts'

export const signal = new AbortController().signal

/** Making keys takes longer than most tests. */
const credentials = generatePalmPayCredentials()

/** A fake PalmPay for the tests of one file, and connectors to it. */
export function usePalmPay() {
  let fake: FakePalmPay
  let orders = 0

  beforeAll(async () => {
    fake = await startFakePalmPay({ port: 0, credentials, findsReference: true })
  })
  afterAll(() => fake.close())
  beforeEach(() => fake.faults.clear())

  function settings(environment: NodeJS.ProcessEnv = {}) {
    return readSettingsOf(readPalmPaySettings, 'PALMPAY', { ...fake.environment, ...environment })
  }

  function connector(environment: NodeJS.ProcessEnv = {}, url = fake.url, timeoutMs = 60_000) {
    const warnings: string[] = []
    const { found, faults } = settings(environment)
    expect(faults).toEqual([])
    const bank = createPalmPay({
      ...connectorParts(url, timeoutMs),
      settings: found!,
      warn: (text) => warnings.push(text),
    })
    return { ...bank, warnings }
  }

  function order(overrides: Partial<AccountOrder> = {}): AccountOrder {
    orders += 1
    return accountOrder({
      bank: 'PALMPAY',
      reference: `R-PALMPAY${orders}`,
      idType: 'bvn',
      idNumber: '22212345678',
      ...overrides,
    })
  }

  const opened = (reference: string) =>
    [...fake.accounts.values()].filter(({ accountReference }) => accountReference === reference)

  return {
    get fake() {
      return fake
    },
    credentials,
    settings,
    connector,
    order,
    opened,
  }
}

export const notificationOf = (body: string) => bankNotification(body, {})
