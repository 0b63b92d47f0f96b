import { isIP } from 'node:net'
import { z } from 'zod'
import { FULL_SECONDS_MAX, type RateLimit } from '../auth/rate-limits/token-bucket.ts'
import { createInstitutions, InstitutionsFileError } from '../banks/institutions.ts'
import { createTimeText } from '../core/clock.ts'
import { PREVIOUS_MAX } from '../crypto/key-files.ts'
import { CONSOLE_FIELDS, consoleFaults } from './console-settings.ts'
import {
  choice,
  cidrs,
  integer,
  list,
  offOn,
  onOff,
  parsed,
  type Settings,
  scopesBy,
  secret,
} from './settings.ts'

const KEY = 'base64 of 32 bytes (openssl rand -base64 32)'
const databaseUrl = postgresUrl('must be a URL such as postgres://user:password@host:5432/database')
const port = integer(0, 65_535, 'a port, 0 to 65535')
const days = integer(1, 3_650, '1 to 3650 days')
const connections = integer(1, 999_999, '1 to 999999 connections')
const replicaUrls = list(
  postgresUrl('must be URLs such as postgres://user:password@host:5432/database'),
).superRefine((urls, { addIssue }) => {
  const names = urls.filter((url) => URL.canParse(url)).map(replicaName)
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated !== undefined) addIssue(`names ${repeated} twice`)
})
const rateLimit = parsed(
  parseRateLimit,
  'must be off, or rate and burst: 1000/2000 (1 to 1000000 requests a second, a burst of up to 60 times the rate)',
)

/** All settings except those of banks. */
export const SERVICE_SETTINGS = z
  .object({
    /** The PostgreSQL server; undefined: the embedded database. */
    DATABASE_URL: secret(databaseUrl.optional()),
    /** A direct connection to the server for LISTEN, if DATABASE_URL is a pooler; undefined: see DATABASE_POOLING. */
    DATABASE_LISTEN_URL: secret(databaseUrl.optional()),
    /** Standbys that run reads. */
    DATABASE_READ_URLS: secret(replicaUrls),
    /** The mode of a pooler such as PgBouncer. */
    DATABASE_POOLING: choice(['session', 'transaction']).default('session'),
    DATABASE_PREPARED_STATEMENTS: onOff,
    /** The connections in the pools of each process; undefined: depends on the number of workers. */
    DATABASE_POOL_SIZE: integer(11, 1_000, '11 to 1000 connections').optional(),
    DATA_DIR: z.string().default('.inflow'),
    HOST: z
      .string()
      .refine(isHost, 'must be an address or a host name such as 127.0.0.1 or ::')
      .default('127.0.0.1'),
    HTTP_PORT: port.default(8080),
    GRPC_PORT: port.default(50_051),
    /** The port of /metrics, /readyz and /healthz; undefined: they are at the HTTP port. */
    OPS_PORT: port.optional(),
    /** Whether methods that need a token are served at the HTTP port; undefined: see `Config`. */
    HTTP_INTERNAL: choice(['on', 'off']).optional(),
    /** Whether the start migrates the schema. */
    MIGRATE: onOff,
    /** How long the service continues to serve after a signal, while it reports that it is not ready. */
    SHUTDOWN_DELAY_SECONDS: integer(0, 300, '0 to 300 seconds').default(0),
    /** How many processes listen on the same ports. */
    WORKERS: integer(1, 64, '1 to 64 processes').default(1),
    /** 32 bytes; undefined: generated into the data folder. */
    MASTER_KEY: secret(parsed(parseKey, `must be ${KEY}`).optional()),
    /** Previous keys, which are used only to decrypt: see KeyRing. */
    MASTER_KEY_PREVIOUS: secret(
      list(parsed(parseKey, `must each be ${KEY}`)).refine(
        (keys) => keys.length <= PREVIOUS_MAX,
        `must be at most ${PREVIOUS_MAX} keys`,
      ),
    ),
    ADMIN_TOKEN: secret(
      z
        .string()
        .regex(
          /^[\x21-\x7e]{32,200}$/,
          'must be 32 to 200 printable ASCII characters without spaces',
        )
        .optional(),
    ),
    LOG_LEVEL: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default(
      'info',
    ),
    DISPLAY_TIME_ZONE: z
      .string()
      .refine(isTimeZone, 'must be an IANA time zone such as Africa/Lagos')
      .default('Africa/Lagos'),
    GRPC_REFLECTION: onOff,
    /** Whether the sandbox opens accounts in live mode although DATABASE_URL is set. */
    ALLOW_SIMULATED_LIVE_ACCOUNTS: offOn,
    EVENT_RETENTION_DAYS: days.default(90),
    /** How long completed webhook deliveries are kept, with their attempts. */
    DELIVERY_RETENTION_DAYS: days.default(30),
    /** How long the raw notifications of banks are kept. */
    NOTIFICATION_RETENTION_DAYS: days.default(90),
    /** Whether payments that tokens record in live mode have to be confirmed by the bank. */
    RECORD_REQUIRES_CONFIRMATION: offOn,
    /** CSV that corrects and extends the known institutions; undefined: none. */
    INSTITUTIONS_FILE: z
      .string()
      .superRefine((path, { addIssue }) => {
        try {
          createInstitutions(path)
        } catch (error) {
          if (!(error instanceof InstitutionsFileError)) throw error
          addIssue(error.message)
        }
      })
      .optional(),
    RECONCILE_WINDOW_HOURS: integer(0, 720).default(48),
    RECONCILE_INTERVAL_MINUTES: integer(0, 10_080).default(60),
    RECONCILE_GRACE_MINUTES: integer(0, 1_440).default(5),
    /** Private address ranges that webhooks may go to. */
    WEBHOOK_ALLOWED_CIDRS: cidrs,
    /** How long a webhook attempt is leased. After that, another process retries a webhook whose sender crashed. */
    WEBHOOK_LEASE_SECONDS: integer(2, 3_600, '2 to 3600 seconds').default(60),
    /** The proxy that sends webhooks; undefined: none. */
    WEBHOOK_PROXY_URL: secret(
      z
        .string()
        .refine(isProxyUrl, {
          error: 'must be a URL such as http://user:password@proxy.example:3128, without a path',
        })
        .optional(),
    ),
    /** The NATS servers of the relay; undefined: no relay. */
    RELAY_URL: secret(
      parsed(
        parseRelayUrl,
        'must be one or more URLs such as nats://user:password@host:4222, or tls://, with the same user',
      ).optional(),
    ),
    /** How the body of a message is encoded. */
    RELAY_FORMAT: choice(['protobuf', 'json']).default('protobuf'),
    /** A file of NATS credentials: a JWT and its key. */
    RELAY_CREDENTIALS: z.string().optional(),
    /** A PEM file with the certificate authority of the NATS servers. */
    RELAY_TLS_CA: z.string().optional(),
    /** The replicas of a new stream. */
    RELAY_REPLICAS: integer(1, 5, '1 to 5 replicas').default(1),
    ...CONSOLE_FIELDS,
    /** Address ranges of reverse proxies whose X-Forwarded-For is trusted. */
    TRUSTED_PROXIES: cidrs,
    /** Whether those proxies name their clients to the gRPC server by the PROXY protocol. */
    PROXY_PROTOCOL: offOn,
    /** The origins whose scripts may call the HTTP server from a browser. */
    CORS_ORIGINS: list(
      z.string().refine(isOrigin, {
        error: ({ input }) =>
          `must be origins such as https://app.example.com, but "${input}" is not one`,
      }),
    ),
    TLS_CERT: z.string().optional(),
    TLS_KEY: z.string().optional(),
    TLS_CLIENT_CA: z.string().optional(),
    /** The scopes of client certificates, by the URI in the certificate. */
    TLS_CLIENT_SCOPES: scopesBy(
      /^(spiffe:\/\/[a-z0-9._-]+(?:\/[\w.-]+)+)=(.+)$/,
      'spiffe://example.org/feed=read+events:subscribe',
    ),
    /** The most connections of each server, in total and per address. */
    CONNECTIONS_MAX: connections.default(10_000),
    CONNECTIONS_PER_ADDRESS_MAX: connections.optional(),
    /** The most streams of a token at each process. */
    STREAMS_PER_TOKEN_MAX: integer(1, 50_000, '1 to 50000 streams').default(2_000),
    RATE_LIMIT_KEY: rateLimit.optional(),
    RATE_LIMIT_TOKEN: rateLimit.optional(),
    RATE_LIMIT_ADDRESS: rateLimit.optional(),
    RATE_LIMIT_FAILED: rateLimit.default({ perSecond: 100, burst: 5_000 }),
  })
  .superRefine(
    (given, { addIssue }) => {
      const rule = (holds: unknown, name: keyof typeof given, message: string): void => {
        if (!holds) addIssue({ code: 'custom', path: [name], message })
      }
      const { MASTER_KEY, MASTER_KEY_PREVIOUS, TLS_CERT, TLS_KEY, TLS_CLIENT_CA } = given
      const previous = MASTER_KEY_PREVIOUS.length > 0
      rule(MASTER_KEY || !given.DATABASE_URL, 'MASTER_KEY', `is required with DATABASE_URL: ${KEY}`)
      rule(
        given.DATABASE_URL || !given.DATABASE_LISTEN_URL,
        'DATABASE_LISTEN_URL',
        'requires DATABASE_URL',
      )
      // Undefined if it is invalid itself.
      const readUrls = (given.DATABASE_READ_URLS as readonly string[] | undefined) ?? []
      rule(
        given.DATABASE_URL || readUrls.length === 0,
        'DATABASE_READ_URLS',
        'requires DATABASE_URL',
      )
      rule(
        !readUrls.includes(given.DATABASE_URL ?? ''),
        'DATABASE_READ_URLS',
        'names the primary, which DATABASE_URL names',
      )
      for (const { name, message } of consoleFaults(given)) rule(false, name, message)
      const internal = given.HTTP_INTERNAL ? given.HTTP_INTERNAL === 'on' : !TLS_CLIENT_CA
      rule(internal || given.CONSOLE !== 'on', 'CONSOLE', 'requires HTTP_INTERNAL=on')
      rule(MASTER_KEY || !previous, 'MASTER_KEY_PREVIOUS', 'requires MASTER_KEY')
      for (const name of ['RELAY_CREDENTIALS', 'RELAY_TLS_CA'] as const) {
        rule(given.RELAY_URL || !given[name], name, 'requires RELAY_URL')
      }
      rule(TLS_KEY || !TLS_CERT, 'TLS_CERT', 'requires TLS_KEY')
      rule(TLS_CERT || !TLS_KEY, 'TLS_KEY', 'requires TLS_CERT')
      rule(
        (TLS_CERT && TLS_KEY) || !TLS_CLIENT_CA,
        'TLS_CLIENT_CA',
        'requires TLS_CERT and TLS_KEY',
      )
      // Undefined if it is invalid itself.
      const proxied = (given.TRUSTED_PROXIES as readonly string[] | undefined)?.length !== 0
      rule(proxied || !given.PROXY_PROTOCOL, 'PROXY_PROTOCOL', 'requires TRUSTED_PROXIES')
      const { OPS_PORT, WORKERS = 1 } = given
      const ports = [given.HTTP_PORT, given.GRPC_PORT]
      const opsPorts = Array.from({ length: WORKERS }, (_, index) => OPS_PORT && OPS_PORT + index)
      rule(
        !OPS_PORT || !ports.some((port) => opsPorts.includes(port)),
        'OPS_PORT',
        WORKERS === 1
          ? 'must differ from HTTP_PORT and GRPC_PORT'
          : 'and the ports after it, one for each of WORKERS, must differ from HTTP_PORT and GRPC_PORT',
      )
      rule(
        !OPS_PORT || OPS_PORT + WORKERS - 1 <= 65_535,
        'OPS_PORT',
        'leaves too few ports for WORKERS',
      )
      const scoped = given.TLS_CLIENT_SCOPES.size !== 0
      rule(TLS_CLIENT_CA || !scoped, 'TLS_CLIENT_SCOPES', 'requires TLS_CLIENT_CA')
    },
    // Always run, so that one start reports all faults. Of a setting that is already invalid, only the first fault is
    // shown.
    { when: () => true },
  )

export type ServiceSettings = Settings<typeof SERVICE_SETTINGS>

/** A URL of a PostgreSQL server. @param error the text after the name of the setting */
function postgresUrl(error: string) {
  return z.url({ protocol: /^postgres(ql)?$/, error })
}

/** The name of a replica in logs and metrics: `host:port/database`. */
export function replicaName(url: string): string {
  const { host, pathname } = new URL(url)
  return host + pathname
}

/** "1000/2000": rate per second and burst; "1000": a burst of twice the rate. */
function parseRateLimit(text: string): RateLimit | 'off' | undefined {
  if (text === 'off') return text
  const [, rate, most] = /^(\d{1,7})(?:\/(\d{1,8}))?$/.exec(text) ?? []
  const perSecond = Number(rate ?? 0)
  const burst = Number(most ?? 2 * perSecond)
  const fits = perSecond >= 1 && perSecond <= 1_000_000 && burst >= 1
  return fits && burst <= FULL_SECONDS_MAX * perSecond ? { perSecond, burst } : undefined
}

function parseKey(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

function isHost(text: string): boolean {
  return isIP(text) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$/.test(text)
}

function isProxyUrl(text: string): boolean {
  try {
    const { protocol, pathname, search, hash, username, password } = new URL(text)
    // Throws on invalid escapes, because user and password are decoded for the proxy.
    decodeURIComponent(username + password)
    return /^https?:$/.test(protocol) && pathname + search + hash === '/'
  } catch {
    return false
  }
}

/** The NATS servers of RELAY_URL, and the credentials. */
interface RelayServers {
  /** The servers as `host:port`. */
  readonly servers: readonly string[]
  /** Whether the URL requires TLS; NATS servers may require it too. */
  readonly tls: boolean
  readonly user: string | undefined
  readonly password: string | undefined
  /** A token in place of user and password. */
  readonly token: string | undefined
}

/** `nats://user:password@host:4222,nats://other:4222`, or `nats://token@host` */
function parseRelayUrl(text: string): RelayServers | undefined {
  const urls = text.split(',').map((part) => parseUrl(part.trim()))
  const [first] = urls
  if (first === undefined) return undefined
  const isSame = (url: URL | undefined) =>
    url !== undefined &&
    url.protocol === first.protocol &&
    (url.username + url.password === '' || userOf(url) === userOf(first))
  if (!urls.every(isSame)) return undefined
  const name = decodeURIComponent(first.username) || undefined
  const password = decodeURIComponent(first.password) || undefined
  const isToken = password === undefined
  return {
    servers: urls.map((url) => (url as URL).host),
    tls: first.protocol === 'tls:',
    user: isToken ? undefined : name,
    password,
    token: isToken ? name : undefined,
  }
}

const userOf = ({ username, password }: URL): string => `${username}:${password}`

function parseUrl(text: string): URL | undefined {
  try {
    const url = new URL(text)
    // Throws on invalid escapes.
    decodeURIComponent(url.username + url.password)
    const isPlain = /^\/?$/.test(url.pathname) && url.search + url.hash === ''
    return /^(nats|tls):$/.test(url.protocol) && url.host !== '' && isPlain ? url : undefined
  } catch {
    return undefined
  }
}

/** Whether a text is an origin exactly as browsers write it; wildcards are not supported. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}

function isTimeZone(text: string): boolean {
  try {
    createTimeText(text)
    return true
  } catch {
    return false
  }
}
