import type { z } from 'zod'
import { BANK_CODES, BANK_FACTS, type BankCode } from '../banks/bank.ts'
import { CONNECTOR_SETTINGS } from '../banks/connectors.ts'
import { SERVICE_SETTINGS } from './service-settings.ts'
import { isSecret } from './settings.ts'
import { TRACING_SETTINGS } from './tracing-settings.ts'

/** A setting that the service reads. */
export interface Setting {
  readonly name: string
  /** The default as it would be written in the environment, or in words; empty: no default. */
  readonly default: string
  /** Whether the default depends on other settings. */
  readonly dependent: boolean
  /** A secret is never shown, and may come from the file that `<NAME>_FILE` names. */
  readonly secret: boolean
  /** The bank, if only its live connector reads the setting. */
  readonly bank?: BankCode
}

/** Defaults that depend on other settings. */
const DEPENDENT: Readonly<Record<string, string>> = {
  DATABASE_URL: 'none: embedded',
  DATABASE_LISTEN_URL: 'DATABASE_URL',
  DATABASE_POOL_SIZE: '28 divided by WORKERS, at least 11',
  HTTP_INTERNAL: 'on; off with TLS_CLIENT_CA',
  CONSOLE: 'as HTTP_INTERNAL',
  MASTER_KEY: 'embedded: generated into DATA_DIR; else required',
  ADMIN_TOKEN: 'embedded: generated into DATA_DIR',
  ALLOW_SIMULATED_LIVE_ACCOUNTS: 'off; embedded: no effect',
  RATE_LIMIT_KEY: '1000/2000; embedded: off',
  RATE_LIMIT_ADDRESS: '2000/4000; embedded: off',
  RATE_LIMIT_TOKEN: 'off',
  CONNECTIONS_PER_ADDRESS_MAX: '1000 (embedded: 10000)',
}

/** Variables that only the command line reads. */
export const COMMAND_LINE_SETTINGS = [
  'INFLOW_GRPC_URL',
  'INFLOW_TOKEN',
  'INFLOW_TOKEN_FILE',
  'INFLOW_CA',
  'INFLOW_CERT',
  'INFLOW_KEY',
  'INFLOW_PROFILE',
] as const

/** Every setting, derived from the schemas that read them. */
export function listSettings(): readonly Setting[] {
  const shapes = { ...SERVICE_SETTINGS.shape, ...TRACING_SETTINGS.shape }
  const service = Object.entries<z.ZodType>(shapes).map(([name, field]) => describe(name, field))
  const ofBanks = BANK_CODES.flatMap((code) => [
    plain(`BANK_${code}_NAME`, BANK_FACTS[code].name),
    ...CONNECTOR_SETTINGS[code].flatMap((group) =>
      Object.entries<z.ZodType>(group.shape).map(([name, field]) => ({
        ...describe(`BANK_${code}_${name}`, field),
        bank: code,
      })),
    ),
  ])
  return [...service, { ...plain('BANKS', 'all sandbox'), dependent: true }, ...ofBanks]
}

function plain(name: string, otherwise: string): Setting {
  return { name, default: otherwise, dependent: false, secret: false }
}

function describe(name: string, field: z.ZodType): Setting {
  const dependent = DEPENDENT[name] !== undefined
  return {
    ...plain(name, DEPENDENT[name] ?? defaultOf(field)),
    dependent,
    secret: isSecret(field),
  }
}

/** The definition of a schema: Zod keeps the default in a schema that other schemas wrap. */
interface Definition {
  readonly type: string
  readonly defaultValue?: unknown
  readonly innerType?: { readonly def: Definition }
  readonly in?: { readonly def: Definition }
}

function defaultOf({ def }: { readonly def: unknown }): string {
  for (
    let found = def as Definition | undefined;
    found;
    found = (found.innerType ?? found.in)?.def
  ) {
    if (found.type === 'default') return textOf(found.defaultValue)
  }
  return ''
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(',')
  if (typeof value !== 'object' || value === null) return String(value)
  const { perSecond, burst } = value as { perSecond?: number; burst?: number }
  return perSecond === undefined ? '' : `${perSecond}/${burst}`
}
