import { z } from 'zod'
import { cidrs, createSettingReader, type Faults, integer, onOff } from '../config/settings.ts'
import type { BankCode } from './bank.ts'
import type { PrepareConnector, PreparedConnector } from './connectors.ts'
import { BANK_HTTP_LIMITS, type BankHttpLimits } from './http/create-bank-http.ts'

/** How a real bank is served, as the settings have it. */
export interface LiveBank {
  readonly connector: PreparedConnector
  readonly limits: BankHttpLimits
  /** Whether payments are asked for again although a signature binds their notification. */
  readonly requery: boolean
  /** Where its notifications may come from; empty: from anywhere. */
  readonly allowedCidrs: readonly string[]
}

/** `BANK_<CODE>_…` of every live bank. */
const SETTINGS = z.object({
  CONNECT_TIMEOUT_MS: integer(1, 60_000).default(BANK_HTTP_LIMITS.connectTimeoutMs),
  CONCURRENCY: integer(1, 200).default(BANK_HTTP_LIMITS.concurrency),
  REQUERY: onOff,
  ALLOWED_CIDRS: cidrs,
})

/** The settings that every live bank has, and those of its connector; undefined if one is wrong. */
export function readLiveBank(
  code: BankCode,
  prepare: PrepareConnector,
  env: NodeJS.ProcessEnv,
  faults: Faults,
): LiveBank | undefined {
  const read = createSettingReader(env, faults, `BANK_${code}_`)
  const connector = prepare(read)
  const settings = read(SETTINGS)
  if (connector === undefined || settings === undefined) return undefined
  const { requery, connectTimeoutMs, concurrency, allowedCidrs } = settings
  const name = `BANK_${code}_REQUERY`
  if (!requery && !connector.binds) {
    faults.set(name, `${name} must be on: no signature binds what this bank notifies of`)
  }
  const { timeoutMs } = connector
  const limits = { ...BANK_HTTP_LIMITS, timeoutMs, connectTimeoutMs, concurrency }
  return { connector, requery, limits, allowedCidrs }
}
