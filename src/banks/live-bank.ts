import type { BankCode } from './bank.ts'
import type { PrepareConnector, PreparedConnector } from './connectors.ts'
import { BANK_HTTP_LIMITS, type BankHttpLimits } from './create-bank-http.ts'
import type { SettingReader } from './settings.ts'

/** How a real bank is served, as the settings have it. */
export interface LiveBank {
  readonly connector: PreparedConnector
  readonly limits: BankHttpLimits
  /** Whether payments are asked for again although a signature binds their notification. */
  readonly requery: boolean
  /** Where its notifications may come from; empty: from anywhere. */
  readonly allowedCidrs: readonly string[]
}

/** The settings that every live bank has, and those of its connector. */
export function readLiveBank(
  code: BankCode,
  prepare: PrepareConnector,
  read: SettingReader,
): LiveBank {
  const connector = prepare(read)
  const count = (rest: string, fallback: number, max: number) =>
    read.count(`BANK_${code}_${rest}`, { fallback, min: 1, max })
  const { connectTimeoutMs, concurrency } = BANK_HTTP_LIMITS
  const requery = read.choice(`BANK_${code}_REQUERY`, ['on', 'off'], 'on') === 'on'
  if (!requery && !connector.binds) {
    read.fault(`BANK_${code}_REQUERY must be on: no signature binds what this bank notifies of`)
  }
  return {
    connector,
    requery,
    limits: {
      ...BANK_HTTP_LIMITS,
      timeoutMs: connector.timeoutMs,
      connectTimeoutMs: count('CONNECT_TIMEOUT_MS', connectTimeoutMs, 60_000),
      concurrency: count('CONCURRENCY', concurrency, 200),
    },
    allowedCidrs: read.cidrs(`BANK_${code}_ALLOWED_CIDRS`),
  }
}
