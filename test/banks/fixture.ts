import { randomBytes } from 'node:crypto'
import { onTestFinished, vi } from 'vitest'
import type { AccountOrder, BankCode, BankNotification, BankPayment } from '../../src/banks/bank.ts'
import type { BankHttp, ConnectorParts } from '../../src/banks/http/bank-http.ts'
import { BANK_HTTP_LIMITS, createBankHttp } from '../../src/banks/http/create-bank-http.ts'
import { createSettingReader, type ReadSettings } from '../../src/config/settings.ts'
import { systemClock } from '../../src/core/clock.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

export const signal = new AbortController().signal

/** The service's HTTP client for a bank at this URL; its circuit breaker never opens. */
export function httpTo(baseUrl: string, timeoutMs = 60_000): BankHttp {
  const breaker = { ...BANK_HTTP_LIMITS.breaker, failureThreshold: 1_000_000 }
  const limits = { ...BANK_HTTP_LIMITS, timeoutMs, breaker }
  const http = createBankHttp({ baseUrl, limits, clock: systemClock, observe: () => {} })
  onTestFinished(() => http.close())
  return http
}

/** The dependencies of a connector to a bank at this URL. */
export function connectorParts(baseUrl: string, timeoutMs?: number): ConnectorParts {
  const apiAt = (url: string) => ({ http: httpTo(url, timeoutMs), onAccess: () => {} })
  return { ...apiAt(baseUrl), apiAt, clock: systemClock, random: randomBytes, warn: () => {} }
}

export function accountOrder(overrides: Partial<AccountOrder> = {}): AccountOrder {
  return {
    bank: '9PSB',
    reference: 'R-ACDEFGHJKMNPQRTWXY34',
    accountName: 'Acme/Ada Obi',
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
    idType: undefined,
    idNumber: undefined,
    attempt: 1,
    repeated: false,
    ...overrides,
  }
}

export function bankPayment(overrides: Partial<BankPayment> = {}): BankPayment {
  return {
    bankKey: '000013261120100000000000000001',
    sessionId: '000013261120100000000000000001',
    accountNumber: '5030000013',
    amountMinor: 12_000n,
    paidAtMs: undefined,
    payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
    narration: '',
    ...overrides,
  }
}

export function bankNotification(
  body: string,
  headers: Readonly<Record<string, string | undefined>>,
): BankNotification {
  return { rawBody: Buffer.from(body), headers, pathSecret: '' }
}

/** Reads the settings of a bank. @returns the settings and the errors */
export function readSettingsOf<T>(
  read: (reader: ReadSettings) => T | undefined,
  code: BankCode,
  env: NodeJS.ProcessEnv,
): { readonly found: T | undefined; readonly faults: readonly string[] } {
  const faults = new Map<string, string>()
  const found = read(createSettingReader(env, faults, `BANK_${code}_`))
  return { found, faults: [...faults.values()] }
}

/** Reads the settings of a bank. @throws Error that lists every error */
export function settingsOf<T>(
  read: (reader: ReadSettings) => T | undefined,
  code: BankCode,
  env: Readonly<Record<string, string>>,
): T {
  const { found, faults } = readSettingsOf(read, code, env)
  if (found === undefined || faults.length > 0) throw new Error(faults.join('\n'))
  return found
}

/** Aborts a call as soon as the bank has received it. */
export async function abortedOnce<T>(
  isReceived: () => boolean,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  const result = call(abort.signal)
  await vi.waitUntil(isReceived, { timeout: WAIT_LIMIT_MS, interval: 5 })
  abort.abort()
  return result
}
