import { z } from 'zod'
import {
  cidrs,
  createSettingReader,
  type Faults,
  integer,
  onOff,
  type ReadSettings,
} from '../config/settings.ts'
import { createNinePsb } from './9psb/9psb.ts'
import {
  NINE_PSB_SETTINGS,
  NINE_PSB_TRANSFER_SETTINGS,
  readNinePsbSettings,
} from './9psb/settings.ts'
import type { BankCode, LiveConnector } from './bank.ts'
import type { ConnectorOptions, ConnectorParts } from './http/bank-http.ts'
import { BANK_HTTP_LIMITS, type BankHttpLimits } from './http/create-bank-http.ts'
import { createPalmPay } from './palmpay/palmpay.ts'
import {
  PALMPAY_SETTINGS,
  PALMPAY_TRANSFER_SETTINGS,
  readPalmPaySettings,
} from './palmpay/settings.ts'
import { createProvidus } from './providus/providus.ts'
import {
  PROVIDUS_SETTINGS,
  PROVIDUS_TRANSFER_SETTINGS,
  readProvidusSettings,
} from './providus/settings.ts'
import { createSafeHaven } from './safehaven/safehaven.ts'
import { readSafeHavenSettings, SAFEHAVEN_GROUPS } from './safehaven/settings.ts'

/** A connector with valid settings that is not connected yet. */
interface PreparedConnector {
  /** The base URL of its requests. */
  readonly baseUrl: string
  /** The time-out of a whole request. */
  readonly timeoutMs: number
  /** Whether the bank's signature can cover a whole notification, so that REQUERY may be off. */
  readonly binds: boolean
  /** Whether the connector sends payouts. */
  readonly pays: boolean
  connect(parts: ConnectorParts): LiveConnector
}

/**
 * Reads the settings of one connector, whose names begin with `BANK_<CODE>_`. Returns undefined if
 * any is invalid.
 */
export type PrepareConnector = (read: ReadSettings) => PreparedConnector | undefined

export type Connectors = Readonly<Partial<Record<BankCode, PrepareConnector>>>

/** The available connectors to real banks. */
export const CONNECTORS: Connectors = {
  '9PSB': prepare(readNinePsbSettings, createNinePsb, false),
  SAFEHAVEN: prepare(readSafeHavenSettings, createSafeHaven, false),
  PROVIDUS: prepare(readProvidusSettings, createProvidus, false),
  PALMPAY: prepare(readPalmPaySettings, createPalmPay, true),
}

function prepare<
  Settings extends Pick<PreparedConnector, 'baseUrl' | 'timeoutMs'> & {
    readonly transfers?: object | undefined
  },
>(
  readSettings: (read: ReadSettings) => Settings | undefined,
  create: (options: ConnectorOptions<Settings>) => LiveConnector,
  binds: boolean,
): PrepareConnector {
  return (read) => {
    const settings = readSettings(read)
    if (settings === undefined) return undefined
    const { baseUrl, timeoutMs } = settings
    const pays = settings.transfers !== undefined
    return { baseUrl, timeoutMs, binds, pays, connect: (parts) => create({ ...parts, settings }) }
  }
}

/** The settings of a live bank. */
export interface LiveBank {
  readonly connector: PreparedConnector
  readonly limits: BankHttpLimits
  /** Whether to requery payments even if a signature covers the notification. */
  readonly requery: boolean
  /** The addresses that may send the bank's notifications; empty: any address. */
  readonly allowedCidrs: readonly string[]
}

/** The `BANK_<CODE>_…` settings that every live bank has. */
const LIVE_BANK_SETTINGS = z.object({
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
