import type { ReadSettings } from '../config/settings.ts'
import type { Clock } from '../core/clock.ts'
import { createNinePsb } from './9psb/9psb.ts'
import { readNinePsbSettings } from './9psb/settings.ts'
import type { BankCode, LiveConnector } from './bank.ts'
import type { BankHttp } from './http/bank-http.ts'
import { createPalmPay } from './palmpay/palmpay.ts'
import { readPalmPaySettings } from './palmpay/settings.ts'
import { createProvidus } from './providus/providus.ts'
import { readProvidusSettings } from './providus/settings.ts'
import { createSafeHaven } from './safehaven/safehaven.ts'
import { readSafeHavenSettings } from './safehaven/settings.ts'

/** What a connector is given. */
export interface ConnectorParts {
  readonly http: BankHttp
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  /** Writes to the log: what it tells has nothing secret in it. */
  readonly warn: (text: string) => void
}

/** A connector whose settings were read, and which is not connected yet. */
export interface PreparedConnector {
  /** Where its requests go. */
  readonly baseUrl: string
  /** For one request in all. */
  readonly timeoutMs: number
  /** Whether the bank's signature can bind all of a notification, so that REQUERY may be off. */
  readonly binds: boolean
  connect(parts: ConnectorParts): LiveConnector
}

/**
 * Reads the settings of one connector, whose names begin with `BANK_<CODE>_`. Returns undefined if one
 * is wrong.
 */
export type PrepareConnector = (read: ReadSettings) => PreparedConnector | undefined

export type Connectors = Readonly<Partial<Record<BankCode, PrepareConnector>>>

/** The connectors to real banks that there are. */
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
