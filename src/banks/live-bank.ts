import { z } from 'zod'
import { cidrs, createSettingReader, type Faults, integer, onOff } from '../config/settings.ts'
import { NINE_PSB_SETTINGS, NINE_PSB_TRANSFER_SETTINGS } from './9psb/settings.ts'
import type { BankCode } from './bank.ts'
import type { PrepareConnector, PreparedConnector } from './connectors.ts'
import { BANK_HTTP_LIMITS, type BankHttpLimits } from './http/create-bank-http.ts'
import { PALMPAY_SETTINGS, PALMPAY_TRANSFER_SETTINGS } from './palmpay/settings.ts'
import { PROVIDUS_SETTINGS, PROVIDUS_TRANSFER_SETTINGS } from './providus/settings.ts'
import { SAFEHAVEN_GROUPS } from './safehaven/settings.ts'

/** The settings of a live bank. */
export interface LiveBank {
  readonly connector: PreparedConnector
  readonly limits: BankHttpLimits
  /** Whether to requery payments even if a signature covers the notification. */
  readonly requery: boolean
  /** Addresses that may send its notifications; empty: any. */
  readonly allowedCidrs: readonly string[]
}

/** The `BANK_<CODE>_…` settings that every live bank has. */
export const LIVE_BANK_SETTINGS = z.object({
  CONNECT_TIMEOUT_MS: integer(1, 60_000).default(BANK_HTTP_LIMITS.connectTimeoutMs),
  CONCURRENCY: integer(1, 200).default(BANK_HTTP_LIMITS.concurrency),
  REQUERY: onOff,
  ALLOWED_CIDRS: cidrs,
})

/** Reads the common settings and the connector's own; undefined if any is invalid. */
export function readLiveBank(
  code: BankCode,
  prepare: PrepareConnector,
  env: NodeJS.ProcessEnv,
  faults: Faults,
): LiveBank | undefined {
  const read = createSettingReader(env, faults, `BANK_${code}_`)
  const connector = prepare(read)
  const settings = read(LIVE_BANK_SETTINGS)
  if (connector === undefined || settings === undefined) return undefined
  const { requery, connectTimeoutMs, concurrency, allowedCidrs } = settings
  const name = `BANK_${code}_REQUERY`
  if (!requery && !connector.binds) {
    faults.set(name, `${name} must be on: this bank's signature does not cover its notifications`)
  }
  const { timeoutMs } = connector
  const limits = { ...BANK_HTTP_LIMITS, timeoutMs, connectTimeoutMs, concurrency }
  return { connector, requery, limits, allowedCidrs }
}

/** The groups of settings of each live bank, whose names begin with `BANK_<CODE>_`. */
export const CONNECTOR_SETTINGS: Readonly<Record<BankCode, readonly z.ZodObject[]>> = {
  '9PSB': [NINE_PSB_SETTINGS, NINE_PSB_TRANSFER_SETTINGS, LIVE_BANK_SETTINGS],
  SAFEHAVEN: [...SAFEHAVEN_GROUPS, LIVE_BANK_SETTINGS],
  PROVIDUS: [PROVIDUS_SETTINGS, PROVIDUS_TRANSFER_SETTINGS, LIVE_BANK_SETTINGS],
  PALMPAY: [PALMPAY_SETTINGS, PALMPAY_TRANSFER_SETTINGS, LIVE_BANK_SETTINGS],
}
