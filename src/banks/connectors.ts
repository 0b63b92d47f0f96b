import type { ReadSettings } from '../config/settings.ts'
import type { Clock } from '../core/clock.ts'
import { createNinePsb } from './9psb/9psb.ts'
import { readNinePsbSettings } from './9psb/settings.ts'
import type { BankCode, LiveConnector } from './bank.ts'
import type { BankApi } from './http/bank-http.ts'
import { createPalmPay } from './palmpay/palmpay.ts'
import { readPalmPaySettings } from './palmpay/settings.ts'
import { createProvidus } from './providus/providus.ts'
import { readProvidusSettings } from './providus/settings.ts'
import { createSafeHaven } from './safehaven/safehaven.ts'
import { readSafeHavenSettings } from './safehaven/settings.ts'

/** The dependencies of a connector. */
export interface ConnectorParts extends BankApi {
  /** Another API of the same bank, which has its own circuit breaker and may deny access by itself. */
  readonly apiAt: (baseUrl: string) => BankApi
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  /** Logs a warning. The text must not contain secrets. */
  readonly warn: (text: string) => void
}

/** A connector with valid settings that is not connected yet. */
export interface PreparedConnector {
  /** The base URL of its requests. */
  readonly baseUrl: string
  /** For one request in total. */
  readonly timeoutMs: number
  /** Whether the bank's signature can cover a whole notification, so that REQUERY may be off. */
  readonly binds: boolean
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

function prepare<Settings extends Pick<PreparedConnector, 'baseUrl' | 'timeoutMs'>>(
  readSettings: (read: ReadSettings) => Settings | undefined,
  create: (options: ConnectorParts & { readonly settings: Settings }) => LiveConnector,
  binds: boolean,
): PrepareConnector {
  return (read) => {
    const settings = readSettings(read)
    if (settings === undefined) return undefined
    const { baseUrl, timeoutMs } = settings
    return { baseUrl, timeoutMs, binds, connect: (parts) => create({ ...parts, settings }) }
  }
}
