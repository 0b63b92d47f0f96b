import { isIP } from 'node:net'
import { type BankMode, parseBanks, readLiveBanks } from './bank-settings.ts'
import type { BankCode } from './banks/bank.ts'
import { CONNECTORS, type Connectors } from './banks/connectors.ts'
import type { LiveBank } from './banks/live-bank.ts'
import type { Scope } from './caller.ts'
import { createTimeText } from './clock.ts'
import {
  pairTls,
  parseClientScopes,
  parseConnections,
  parseOrigins,
  parseProxyUrl,
  type TlsFiles,
} from './door-settings.ts'
import { PREVIOUS_MAX } from './key-files.ts'
import { FULL_SECONDS_MAX, type RateLimit } from './token-bucket.ts'
import { createAddressGuard } from './webhooks/address.ts'

/** Everything that the environment decides. Frozen, and read once. */
export interface Config {
  /** A PostgreSQL to use; undefined: the embedded one. */
  readonly databaseUrl: string | undefined
  readonly dataDir: string
  readonly host: string
  readonly httpPort: number
  readonly grpcPort: number
  /** 32 bytes; undefined: generated into the data folder. */
  readonly masterKey: Buffer | undefined
  /** Further keys that open what they encrypted: see KeyRing. */
  readonly masterKeyPrevious: readonly Buffer[]
  readonly adminToken: string | undefined
  readonly banks: Readonly<Record<BankCode, BankMode>>
  /** Ranges of the proxies before the HTTP door, whose word on who calls is taken. */
  readonly trustedProxies: readonly string[]
  /** The settings of those that are live. */
  readonly liveBanks: Readonly<Partial<Record<BankCode, LiveBank>>>
  readonly logLevel: string
  readonly displayTimeZone: string
  readonly grpcReflection: boolean
  readonly eventRetentionDays: number
  /** How long completed webhook deliveries are kept, with their attempts. */
  readonly deliveryRetentionDays: number
  /** How long banks' notifications are kept as they came. */
  readonly notificationRetentionDays: number
  /** When live banks are asked for payments that their notifications did not tell of. */
  readonly reconcile: {
    /** How far back; 0: never. */
    readonly windowMs: number
    /** 0: never. */
    readonly intervalMs: number
    /** What is younger is left to its notification. */
    readonly settleMs: number
  }
  /** Ranges of addresses that webhooks may go to although they are not public: "10.1.0.0/16". */
  readonly webhookAllowedCidrs: readonly string[]
  /** An egress proxy for webhooks, perhaps with its user and password: "http://proxy.example:3128". */
  readonly webhookProxyUrl: string | undefined
  /** How long a webhook that was under way in a process that died waits for another one. */
  readonly webhookLeaseMs: number
  /** Undefined: the doors speak plain text. */
  readonly tls: TlsFiles | undefined
  /** What a client's certificate allows, by the URI in it. */
  readonly tlsClientScopes: ReadonlyMap<string, ReadonlySet<Scope>>
  /** The web pages, by their origin, whose scripts may call the HTTP door from a browser. */
  readonly corsOrigins: readonly string[]
  /** Of each door: connections in all, and of one address. */
  readonly connectionsMax: number
  readonly connectionsPerAddressMax: number
  /** How many processes serve at the same ports. */
  readonly workers: number
  /** How often keys, tokens and addresses may call; undefined: without a limit. */
  readonly rateLimits: Readonly<Record<LimitedBy, RateLimit | undefined>>
}

type LimitedBy = 'key' | 'token' | 'address' | 'failed'
const HOUR_MS = 3_600_000

const WORKERS_MAX = 64

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']

/** The settings that are wrong, one line for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/**
 * Reads the settings. The only reader of the environment.
 *
 * @param connectors to the banks that may be live
 * @throws ConfigError naming every setting at fault
 */
export function readConfig(env: NodeJS.ProcessEnv, connectors: Connectors = CONNECTORS): Config {
  const faults: string[] = []
  const read = <T>(name: string, parse: (text: string | undefined) => T): T => {
    try {
      return parse(env[name]?.trim() || undefined)
    } catch (error) {
      faults.push(`${name} ${error instanceof Error ? error.message : String(error)}`)
      return undefined as T
    }
  }
  const databaseUrl = read('DATABASE_URL', parseDatabaseUrl)
  const tlsClientCa = read('TLS_CLIENT_CA', asIs)
  const banks = read('BANKS', (text) => parseBanks(text, connectors))
  // The embedded database is for development, where load comes from the developer's own machine.
  const usual = (limit: string) => (databaseUrl === undefined ? 'off' : limit)
  const config: Config = {
    databaseUrl,
    dataDir: env['DATA_DIR']?.trim() || '.inflow',
    host: read('HOST', parseHost),
    httpPort: read('HTTP_PORT', (text) => parsePort(text, 8080)),
    grpcPort: read('GRPC_PORT', (text) => parsePort(text, 50051)),
    masterKey: read('MASTER_KEY', (text) => parseMasterKey(text, databaseUrl)),
    masterKeyPrevious: read('MASTER_KEY_PREVIOUS', (text) =>
      parsePreviousKeys(text, env['MASTER_KEY']?.trim()),
    ),
    adminToken: read('ADMIN_TOKEN', parseAdminToken),
    trustedProxies: read('TRUSTED_PROXIES', parseCidrs),
    banks,
    liveBanks: readLiveBanks(env, faults, banks, connectors),
    logLevel: read('LOG_LEVEL', (text) => oneOf(text, 'info', LOG_LEVELS)),
    displayTimeZone: read('DISPLAY_TIME_ZONE', parseTimeZone),
    grpcReflection: read('GRPC_REFLECTION', (text) => oneOf(text, 'on', ['on', 'off'])) === 'on',
    eventRetentionDays: read('EVENT_RETENTION_DAYS', (text) => parseDays(text, 90)),
    deliveryRetentionDays: read('DELIVERY_RETENTION_DAYS', (text) => parseDays(text, 30)),
    notificationRetentionDays: read('NOTIFICATION_RETENTION_DAYS', (text) => parseDays(text, 90)),
    reconcile: {
      windowMs: read('RECONCILE_WINDOW_HOURS', (text) => parseCount(text, 48, 720)) * HOUR_MS,
      intervalMs:
        read('RECONCILE_INTERVAL_MINUTES', (text) => parseCount(text, 60, 10_080)) * 60_000,
      settleMs: read('RECONCILE_SETTLE_MINUTES', (text) => parseCount(text, 5, 1_440)) * 60_000,
    },
    webhookAllowedCidrs: read('WEBHOOK_ALLOWED_CIDRS', parseCidrs),
    webhookProxyUrl: read('WEBHOOK_PROXY_URL', parseProxyUrl),
    webhookLeaseMs: read('WEBHOOK_LEASE_SECONDS', (text) => parseLease(text) * 1_000),
    tls: pairTls(read('TLS_CERT', asIs), read('TLS_KEY', asIs), tlsClientCa, faults),
    tlsClientScopes: read('TLS_CLIENT_SCOPES', (text) => parseClientScopes(text, tlsClientCa)),
    corsOrigins: read('CORS_ORIGINS', parseOrigins),
    connectionsMax: read('CONNECTIONS_MAX', (text) => parseConnections(text, 10_000)),
    connectionsPerAddressMax: read('CONNECTIONS_PER_ADDRESS_MAX', (text) =>
      parseConnections(text, databaseUrl === undefined ? 10_000 : 1_000),
    ),
    workers: read('WORKERS', parseWorkers),
    rateLimits: {
      key: read('RATE_LIMIT_KEY', (text) => parseRateLimit(text ?? usual('1000/2000'))),
      token: read('RATE_LIMIT_TOKEN', (text) => parseRateLimit(text ?? 'off')),
      address: read('RATE_LIMIT_ADDRESS', (text) => parseRateLimit(text ?? usual('2000/4000'))),
      failed: read('RATE_LIMIT_FAILED', (text) => parseRateLimit(text ?? '100/5000')),
    },
  }
  if (faults.length > 0) throw new ConfigError([...new Set(faults)])
  return Object.freeze(config)
}

function asIs(text: string | undefined): string | undefined {
  return text
}

function parseDatabaseUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  if (!URL.canParse(text) || !/^postgres(ql)?:$/.test(new URL(text).protocol)) {
    throw new Error('must be a URL such as postgres://user:password@host:5432/database')
  }
  return text
}

function parseHost(text: string | undefined): string {
  if (text === undefined) return '127.0.0.1'
  if (isIP(text) === 0 && !/^[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$/.test(text)) {
    throw new Error('must be an address or a host name such as 127.0.0.1 or ::')
  }
  return text
}

function parsePort(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new Error('must be a port, 0 to 65535')
  return Number(text)
}

function parseDays(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  const days = Number(text)
  if (!/^\d{1,4}$/.test(text) || days < 1 || days > 3_650) throw new Error('must be 1 to 3650 days')
  return days
}

function parseCount(text: string | undefined, fallback: number, max: number): number {
  if (text === undefined) return fallback
  const count = Number(text)
  if (!/^\d{1,6}$/.test(text) || count > max) throw new Error(`must be 0 to ${max}`)
  return count
}

function parseWorkers(text: string | undefined): number {
  const count = Number(text ?? 1)
  if (!/^\d{1,2}$/.test(text ?? '1') || count < 1 || count > WORKERS_MAX) {
    throw new Error(`must be 1 to ${WORKERS_MAX} processes`)
  }
  return count
}

function parseCidrs(text: string | undefined): readonly string[] {
  const cidrs = text?.split(',').map((cidr) => cidr.trim()) ?? []
  for (const cidr of cidrs) {
    try {
      createAddressGuard([cidr])
    } catch {
      throw new Error(`must be ranges such as 10.1.0.0/16,fd00:1::/32, and "${cidr}" is none`)
    }
  }
  return cidrs
}

function parseLease(text: string | undefined): number {
  const seconds = Number(text ?? 60)
  if (!/^\d{1,4}$/.test(text ?? '60') || seconds < 2 || seconds > 3_600) {
    throw new Error('must be 2 to 3600 seconds')
  }
  return seconds
}

/** "1000/2000": a second, and at once; "1000": the same; "off": undefined. */
function parseRateLimit(text: string): RateLimit | undefined {
  if (text === 'off') return undefined
  const [, rate, most] = /^(\d{1,7})(?:\/(\d{1,8}))?$/.exec(text) ?? []
  const perSecond = Number(rate ?? 0)
  const burst = Number(most ?? 2 * perSecond)
  const fits = perSecond >= 1 && perSecond <= 1_000_000 && burst >= 1
  if (fits && burst <= FULL_SECONDS_MAX * perSecond) return { perSecond, burst }
  throw new Error(
    'must be off, or requests a second and at once: 1000/2000, the first up to 1000000, the second up to 60 times the first',
  )
}

function parseMasterKey(
  text: string | undefined,
  databaseUrl: string | undefined,
): Buffer | undefined {
  if (text === undefined) {
    if (databaseUrl === undefined) return undefined
    throw new Error('is required with DATABASE_URL: base64 of 32 bytes (openssl rand -base64 32)')
  }
  return parseKey(text) ?? wrongKey()
}

/** @param current what MASTER_KEY is, however wrong */
function parsePreviousKeys(text: string | undefined, current: string | undefined): Buffer[] {
  if (text === undefined) return []
  const keys = text.split(',').map((each) => parseKey(each.trim()) ?? wrongKey('each '))
  if (!current) throw new Error('is of no use without MASTER_KEY')
  if (keys.length > PREVIOUS_MAX) throw new Error(`must be at most ${PREVIOUS_MAX} keys`)
  return keys
}

function parseKey(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

function wrongKey(each = ''): never {
  throw new Error(`must ${each}be base64 of 32 bytes (openssl rand -base64 32)`)
}

function parseAdminToken(text: string | undefined): string | undefined {
  if (text !== undefined && !/^[\x21-\x7e]{16,200}$/.test(text)) {
    throw new Error('must be 16 to 200 printable ASCII characters without spaces')
  }
  return text
}

function parseTimeZone(text: string | undefined): string {
  const zone = text ?? 'Africa/Lagos'
  try {
    createTimeText(zone)
  } catch {
    throw new Error('must be an IANA time zone such as Africa/Lagos')
  }
  return zone
}

function oneOf(text: string | undefined, fallback: string, allowed: readonly string[]): string {
  if (text === undefined) return fallback
  if (!allowed.includes(text)) throw new Error(`must be one of ${allowed.join(', ')}`)
  return text
}
