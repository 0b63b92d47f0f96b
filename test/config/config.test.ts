import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Scope } from '../../src/auth/caller.ts'
import { type Config, ConfigError, readConfig } from '../../src/config/config.ts'

const RECONCILE = { windowMs: 172_800_000, intervalMs: 3_600_000, graceMs: 300_000 }

const KEY = Buffer.alloc(32, 1).toString('base64')
const KEY_2 = Buffer.alloc(32, 2).toString('base64')
const KEY_3 = Buffer.alloc(32, 3).toString('base64')
const DATABASE = 'postgres://user:hidden@db.example:5432/inflow'
const ALL_SANDBOX = {
  '9PSB': 'sandbox',
  SAFEHAVEN: 'sandbox',
  PROVIDUS: 'sandbox',
  PALMPAY: 'sandbox',
}

function faultsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(env)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    return (error as ConfigError).faults
  }
}

test.each(['Pro\nvidus', 'x'.repeat(101)])(
  '%j is refused as the displayed name of a bank',
  (name) => {
    const text = 'BANK_PROVIDUS_NAME must be 1 to 100 printable characters'
    expect(() => readConfig({ BANK_PROVIDUS_NAME: name })).toThrow(text)
  },
)

test('ignores empty and blank settings, and trims the others', () => {
  expect(readConfig({ HTTP_PORT: '', HOST: '  ', BANKS: ' ' })).toEqual(readConfig({}))
  expect(readConfig({ HTTP_PORT: ' 9000 ' }).httpPort).toBe(9000)
})

test('the configuration is frozen', () => {
  expect(Object.isFrozen(readConfig({}))).toBe(true)
})

const READ_URL = 'postgres://user:hidden@standby.example:5432/inflow'
const PROXY = 'http://user:hidden@proxy.example:3128'
const RELAYING = { RELAY_URL: 'nats://user:hid%40den@a:4222,nats://user:hid%40den@b:4223' }
const RELAY = {
  servers: ['a:4222', 'b:4223'],
  tls: false,
  user: 'user',
  password: 'hid@den',
  token: undefined,
  format: 'protobuf' as const,
  replicas: 1,
  credentialsFile: undefined,
  caFile: undefined,
}
const TLS = { cert: '/c', key: '/k', clientCa: undefined }
const OIDC = { OIDC_CLIENT_ID: 'inflow', PUBLIC_URL: 'https://a.example' }
const PROVIDER = { ...OIDC, OIDC_ISSUER: 'https://id.example' }
const PAIR = { TLS_CERT: '/c', TLS_KEY: '/k' }
const limited = (changed: Partial<Config['rateLimits']>): Config['rateLimits'] => {
  return { ...readConfig({}).rateLimits, ...changed }
}

/** A valid value, and what it is read as. */
const RIGHT: [string, string, Partial<Config>, NodeJS.ProcessEnv?][] = [
  ['DATABASE_URL', DATABASE, { databaseUrl: DATABASE }, { MASTER_KEY: KEY }],
  [
    'DATABASE_READ_URLS',
    `${READ_URL}, postgres://h/inflow_ro`,
    { databaseReadUrls: [READ_URL, 'postgres://h/inflow_ro'] },
    { DATABASE_URL: DATABASE, MASTER_KEY: KEY },
  ],
  [
    'DATABASE_POOLING',
    'transaction',
    { pooler: { transactionPooling: true, preparedStatements: true } },
  ],
  [
    'DATABASE_PREPARED_STATEMENTS',
    'off',
    { pooler: { transactionPooling: false, preparedStatements: false } },
  ],
  ['HOST', 'pay.example.com', { host: 'pay.example.com' }],
  ['HTTP_PORT', '65535', { httpPort: 65_535 }],
  ['MASTER_KEY', KEY, { masterKey: Buffer.alloc(32, 1) }],
  [
    'MASTER_KEY_PREVIOUS',
    `${KEY_2}, ${KEY_3}`,
    { masterKeyPrevious: [Buffer.alloc(32, 2), Buffer.alloc(32, 3)] },
    { MASTER_KEY: KEY },
  ],
  ['BANKS', 'PALMPAY=sandbox, 9PSB = sandbox', { banks: ALL_SANDBOX as Config['banks'] }],
  [
    'ALLOW_SIMULATED_LIVE_ACCOUNTS',
    'on',
    { allowSimulatedLiveAccounts: true, simulatesLiveAccounts: true },
  ],
  ['RECONCILE_WINDOW_HOURS', '0', { reconcile: { ...RECONCILE, windowMs: 0 } }],
  ['RECONCILE_GRACE_MINUTES', '7', { reconcile: { ...RECONCILE, graceMs: 420_000 } }],
  [
    'WEBHOOK_ALLOWED_CIDRS',
    '10.0.0.0/8, fd00::/8',
    { webhookAllowedCidrs: ['10.0.0.0/8', 'fd00::/8'] },
  ],
  ['WEBHOOK_PROXY_URL', PROXY, { webhookProxyUrl: PROXY }],
  ['TRUSTED_PROXIES', '10.0.0.0/8,::1/128', { trustedProxies: ['10.0.0.0/8', '::1/128'] }],
  ['RELAY_URL', 'nats://user:hid%40den@a:4222, nats://b:4223', { relay: RELAY }],
  [
    'RELAY_URL',
    'tls://token@[fd00::1]:4222/',
    {
      relay: {
        ...RELAY,
        servers: ['[fd00::1]:4222'],
        tls: true,
        token: 'token',
        user: undefined,
        password: undefined,
      },
    },
  ],
  ['RELAY_FORMAT', 'json', { relay: { ...RELAY, format: 'json' } }, RELAYING],
  [
    'WEBHOOK_PROXY_URL',
    'https://user:p%40ss@proxy.example/',
    { webhookProxyUrl: 'https://user:p%40ss@proxy.example/' },
  ],
  ['TLS_CERT', '/c', { tls: TLS }, { TLS_KEY: '/k' }],
  ['TLS_CLIENT_CA', '/a', { tls: { ...TLS, clientCa: '/a' }, httpInternal: false }, PAIR],
  ['HTTP_INTERNAL', 'off', { httpInternal: false }],
  [
    'HTTP_INTERNAL',
    'on',
    { tls: { ...TLS, clientCa: '/a' }, httpInternal: true },
    { ...PAIR, TLS_CLIENT_CA: '/a' },
  ],
  [
    'TLS_CLIENT_SCOPES',
    'spiffe://a.example/b=read+payments:write, spiffe://a.example/c/d=admin',
    {
      tls: { ...TLS, clientCa: '/a' },
      httpInternal: false,
      tlsClientScopes: new Map<string, ReadonlySet<Scope>>([
        ['spiffe://a.example/b', new Set<Scope>(['read', 'payments:write'])],
        ['spiffe://a.example/c/d', new Set<Scope>(['admin'])],
      ]),
    },
    { ...PAIR, TLS_CLIENT_CA: '/a' },
  ],
  [
    'CORS_ORIGINS',
    'https://a.example, http://localhost:5173',
    { corsOrigins: ['https://a.example', 'http://localhost:5173'] },
  ],
  ['RATE_LIMIT_KEY', '5/7', { rateLimits: limited({ key: { perSecond: 5, burst: 7 } }) }],
  ['RATE_LIMIT_TOKEN', '9', { rateLimits: limited({ token: { perSecond: 9, burst: 18 } }) }],
  ['RATE_LIMIT_ADDRESS', 'off', { rateLimits: limited({ address: undefined }) }],
]

const OF_CONSOLE: [string, string, object, NodeJS.ProcessEnv?][] = [
  ['HTTP_INTERNAL', 'off', { console: { enabled: false } }],
  ['HTTP_INTERNAL', 'on', { console: { enabled: true } }],
  ['SESSION_IDLE_MINUTES', '5', { console: { sessions: { idleMs: 300_000 } } }],
  ['PUBLIC_URL', 'https://a.example/', { console: { publicUrl: new URL('https://a.example') } }],
  [
    'OIDC_ISSUER',
    'https://id.example/realms/a',
    { console: { oidc: { name: 'single sign-on' } } },
    OIDC,
  ],
  ['OIDC_ISSUER', 'http://localhost:5556', { console: { oidc: { clientId: 'inflow' } } }, OIDC],
  [
    'OIDC_ROLES',
    'finance=read, ops=admin+read',
    {
      console: {
        oidc: {
          roles: new Map([
            ['finance', new Set(['read'])],
            ['ops', new Set(['admin', 'read'])],
          ]),
        },
      },
    },
    PROVIDER,
  ],
]

test.each([...RIGHT, ...OF_CONSOLE])('%s=%s is read', (name, value, expected, beside = {}) => {
  expect(readConfig({ ...beside, [name]: value })).toMatchObject(expected)
})

const NO_PORT = 'must be a port, 0 to 65535'
const NO_URL = 'must be a URL such as postgres://user:password@host:5432/database'
const NO_KEY = 'must be base64 of 32 bytes (openssl rand -base64 32)'
const NO_TOKEN = 'must be 32 to 200 printable ASCII characters without spaces'
const NO_NATS =
  'must be one or more URLs such as nats://user:password@host:4222, or tls://, with the same user'
const NO_PROXY = 'must be a URL such as http://user:password@proxy.example:3128, without a path'
const NO_ORIGIN = 'must be an origin such as https://pay.example.com, without a path'
const NO_ISSUER =
  'must be an https URL such as https://id.example.com (http is for this machine only)'
const NO_HOST = 'must be an address or a host name such as 127.0.0.1 or ::'

const URI = 'spiffe://example.org/feed'
const noScopes = (pair: string) =>
  `must be like spiffe://example.org/feed=read+events:subscribe, with scopes of admin, payments:write, payments:reverse, splits:write, payouts:write, payouts:approve, webhooks:write, read, events:subscribe, but "${pair}" is not`
const noOrigin = (origin: string) =>
  `must be origins such as https://app.example.com, but "${origin}" is not one`
const NO_LIMIT =
  'must be off, or rate and burst: 1000/2000 (1 to 1000000 requests a second, a burst of up to 60 times the rate)'

/** An invalid value, and its error. */
const WRONG: [string, string, string, NodeJS.ProcessEnv?][] = [
  ['DATABASE_URL', 'mysql://user:hidden@db.example/inflow', NO_URL, { MASTER_KEY: KEY }],
  ['DATABASE_LISTEN_URL', DATABASE, 'requires DATABASE_URL'],
  ['DATABASE_READ_URLS', READ_URL, 'requires DATABASE_URL'],
  [
    'DATABASE_READ_URLS',
    `${READ_URL},${READ_URL.replace('user', 'other')}`,
    'names standby.example:5432/inflow twice',
    { DATABASE_URL: DATABASE, MASTER_KEY: KEY },
  ],
  [
    'DATABASE_READ_URLS',
    `${READ_URL},${DATABASE}`,
    'names the primary, which DATABASE_URL names',
    { DATABASE_URL: DATABASE, MASTER_KEY: KEY },
  ],
  [
    'DATABASE_READ_URLS',
    `${READ_URL},standby.example`,
    'must be URLs such as postgres://user:password@host:5432/database',
    { DATABASE_URL: DATABASE, MASTER_KEY: KEY },
  ],
  ['DATABASE_POOLING', 'statement', 'must be one of session, transaction'],
  ['DATABASE_POOL_SIZE', '10', 'must be 11 to 1000 connections'],
  ['HOST', 'http://127.0.0.1', NO_HOST],
  ['HTTP_PORT', '65536', NO_PORT],
  ['MASTER_KEY', 'hidden', NO_KEY],
  ['MASTER_KEY', Buffer.alloc(33).toString('base64'), NO_KEY],
  ['MASTER_KEY', KEY.slice(0, -1), NO_KEY],
  ['MASTER_KEY_PREVIOUS', 'hidden', 'must each be base64 of 32 bytes (openssl rand -base64 32)'],
  ['ADMIN_TOKEN', 'hidden', NO_TOKEN],
  ['ADMIN_TOKEN', 'hidden and with spaces, and long enough', NO_TOKEN],
  [
    'BANKS',
    'GTB=sandbox',
    'names an unknown bank "GTB"; known: 9PSB, SAFEHAVEN, PROVIDUS, PALMPAY',
  ],
  ['BANKS', '9PSB=test', 'must be 9PSB=sandbox or 9PSB=live'],
  ['DISPLAY_TIME_ZONE', 'Mars/Base', 'must be an IANA time zone such as Africa/Lagos'],
  ['RECONCILE_WINDOW_HOURS', '721', 'must be 0 to 720'],
  [
    'WEBHOOK_ALLOWED_CIDRS',
    '10.0.0.0/33',
    'must be ranges such as 10.1.0.0/16,fd00:1::/32, but "10.0.0.0/33" is not one',
  ],
  ['CONSOLE', 'on', 'requires HTTP_INTERNAL=on', { HTTP_INTERNAL: 'off' }],
  ['PUBLIC_URL', '', 'is required with OIDC_ISSUER', PROVIDER],
  ['OIDC_ISSUER', 'https://id.example', 'requires CONSOLE=on', { ...OIDC, CONSOLE: 'off' }],
  ['PUBLIC_URL', 'https://a.example/path', NO_ORIGIN],
  ['OIDC_ISSUER', 'http://id.example', NO_ISSUER, OIDC],
  ['OIDC_ISSUER', 'http://127.0.0.1.example', NO_ISSUER, OIDC],
  ['OIDC_CLIENT_ID', '', 'is required with OIDC_ISSUER', PROVIDER],
  ['OIDC_CLIENT_SECRET', 'hidden', 'requires OIDC_ISSUER'],
  ['OIDC_NAME', 'x'.repeat(51), 'must be 1 to 50 printable characters'],
  ['OIDC_SCOPES_CLAIM', 'a b', 'must be the name of a claim'],
  ['OIDC_REQUEST_SCOPES', 'profile', 'must have openid'],
  ['OIDC_ROLES', 'ops=admin,ops=read', 'names ops twice', PROVIDER],
  [
    'OIDC_ROLES',
    'ops=root',
    'must be like finance=read+events:subscribe, with scopes of admin, payments:write, payments:reverse, splits:write, payouts:write, payouts:approve, webhooks:write, read, events:subscribe, but "ops=root" is not',
    PROVIDER,
  ],
  ['PORTAL_NAME', 'x'.repeat(51), 'must be 1 to 50 printable characters'],
  ['PORTAL_COLOR', 'teal', 'must be a colour such as #0b6b63'],
  [
    'PORTAL_COLOR',
    '#2a9d8f',
    'must be darker: white text on #2a9d8f has a contrast of 3.3, and needs 4.5',
  ],
  ['PROXY_PROTOCOL', 'on', 'requires TRUSTED_PROXIES'],
  ['WEBHOOK_PROXY_URL', 'proxy.example:3128', NO_PROXY],
  ['WEBHOOK_PROXY_URL', 'socks5://user:hidden@proxy.example', NO_PROXY],
  ['WEBHOOK_PROXY_URL', 'http://user:hidden@proxy.example/path', NO_PROXY],
  ['WEBHOOK_PROXY_URL', 'http://user:hidden%@proxy.example', NO_PROXY],
  ['RELAY_URL', 'http://user:hidden@host:4222', NO_NATS],
  ['RELAY_URL', 'nats://user:hidden@host:4222/path', NO_NATS],
  ['RELAY_URL', 'nats://user:hidden@a,nats://other:hidden@b', NO_NATS],
  ['RELAY_URL', 'nats://user:hidden%@a', NO_NATS],
  ['RELAY_CREDENTIALS', '/nats.creds', 'requires RELAY_URL'],
  ['RELAY_TLS_CA', '/ca.pem', 'requires RELAY_URL'],
  ['TLS_CERT', '/tls/cert.pem', 'requires TLS_KEY'],
  ['TLS_KEY', '/tls/key.pem', 'requires TLS_CERT'],
  ['OPS_PORT', '8080', 'must differ from HTTP_PORT and GRPC_PORT'],
  ['TLS_CLIENT_CA', '/tls/ca.pem', 'requires TLS_CERT and TLS_KEY'],
  ['TLS_CLIENT_SCOPES', `${URI}=read`, 'requires TLS_CLIENT_CA'],
  ['TLS_CLIENT_SCOPES', `${URI}=read,${URI}=admin`, `names ${URI} twice`],
  ['TLS_CLIENT_SCOPES', `${URI}=write`, noScopes(`${URI}=write`)],
  ['TLS_CLIENT_SCOPES', 'https://example.org/a=read', noScopes('https://example.org/a=read')],
  ['TLS_CLIENT_SCOPES', URI, noScopes(URI)],
  ['CORS_ORIGINS', '*', noOrigin('*')],
  ['CORS_ORIGINS', 'https://a.example/', noOrigin('https://a.example/')],
  ['CORS_ORIGINS', 'https://a.example,null', noOrigin('null')],
  ['RATE_LIMIT_KEY', '0', NO_LIMIT],
  ['RATE_LIMIT_KEY', '10/601', NO_LIMIT],
  ['RATE_LIMIT_FAILED', '10/0', NO_LIMIT],
]

describe('an invalid setting', () => {
  test.each(WRONG)('%s=%s is reported in one line', (name, value, text, beside = {}) => {
    expect(faultsOf({ ...beside, [name]: value })).toEqual([`${name} ${text}`])
  })

  test('is reported with all others, and no line shows a secret', () => {
    // Reported only beside a valid value of another setting.
    const halves = [
      'TLS_KEY',
      'RELAY_CREDENTIALS',
      'RELAY_TLS_CA',
      'OIDC_CLIENT_SECRET',
      'DATABASE_LISTEN_URL',
      'OPS_PORT',
    ]
    const settings = Object.fromEntries(WRONG.filter(([name]) => !halves.includes(name)))
    const faults = faultsOf(settings)
    const names = new Set(Object.keys(settings))
    expect(faults.map((fault) => fault.split(' ', 1)[0]).sort()).toEqual([...names].sort())
    for (const fault of faults) {
      expect(fault).not.toContain('\n')
      expect(fault).not.toContain('hidden')
    }
  })

  test('invalid previous master keys are reported without their values', () => {
    const beside = { MASTER_KEY: KEY }
    expect(faultsOf({ ...beside, MASTER_KEY_PREVIOUS: `${KEY_2},hidden` })).toEqual([
      'MASTER_KEY_PREVIOUS must each be base64 of 32 bytes (openssl rand -base64 32)',
    ])
    expect(faultsOf({ MASTER_KEY_PREVIOUS: KEY_2 })).toEqual([
      'MASTER_KEY_PREVIOUS requires MASTER_KEY',
    ])
    expect(faultsOf({ ...beside, MASTER_KEY_PREVIOUS: Array(6).fill(KEY_2).join() })).toEqual([
      'MASTER_KEY_PREVIOUS must be at most 5 keys',
    ])
  })

  test('a missing MASTER_KEY is reported if DATABASE_URL is set', () => {
    expect(faultsOf({ DATABASE_URL: DATABASE })).toEqual([
      'MASTER_KEY is required with DATABASE_URL: base64 of 32 bytes (openssl rand -base64 32)',
    ])
  })
})

describe('the logo of portals', () => {
  const PNG = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(8)])
  const SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>'
  const fileOf = (content: string | Buffer) => {
    const path = join(mkdtempSync(join(tmpdir(), 'inflow-logo-')), 'logo')
    onTestFinished(() => rmSync(dirname(path), { recursive: true, force: true }))
    writeFileSync(path, content)
    return path
  }

  test.each([
    ['image/png', PNG],
    ['image/svg+xml', SVG],
    [
      'image/svg+xml',
      `\uFEFF<?xml version="1.0"?>\n<!-- > --><!DOCTYPE svg [<!ENTITY a "">]><!---->\n${SVG}`,
    ],
  ])('is %s by its content', (type, content) => {
    const { portal } = readConfig({ PORTAL_LOGO_FILE: fileOf(content) }).console
    expect(portal.logo).toMatchObject({ type, bytes: Buffer.from(content) })
  })

  test.each([
    ['<html><svg></svg></html>', 'must name a PNG or an SVG image: PATH is neither'],
    ['', 'must name a PNG or an SVG image: PATH is neither'],
    [
      Buffer.concat([PNG, Buffer.alloc(65_536)]),
      'must name a file of at most 64 KiB: PATH has 65552 bytes',
    ],
  ])('is refused if it is another file', (content, text) => {
    const path = fileOf(content)
    expect(faultsOf({ PORTAL_LOGO_FILE: path })).toEqual([
      `PORTAL_LOGO_FILE ${text.replace('PATH', path)}`,
    ])
  })

  test('is refused if it cannot be read', () => {
    expect(faultsOf({ PORTAL_LOGO_FILE: '/none.png' })).toEqual([
      "PORTAL_LOGO_FILE cannot be read: ENOENT: no such file or directory, stat '/none.png'",
    ])
  })
})
