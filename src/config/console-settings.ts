import { z } from 'zod'
import { HOUR_MS } from '../core/durations.ts'
import { choice, integer, parsed, type Settings, scopesBy, secret } from './settings.ts'

const hours = integer(1, 168, '1 to 168 hours')
const claim = z.string().regex(/^[\x21-\x7e]{1,100}$/, 'must be the name of a claim')

/** The settings of the console: its sessions, and who signs in. */
export const CONSOLE_FIELDS = {
  /** Undefined: on where methods for tokens are served at the HTTP port. */
  CONSOLE: choice(['on', 'off']).optional(),
  SESSION_IDLE_MINUTES: integer(5, 10_080, '5 to 10080 minutes').default(60),
  SESSION_MAX_HOURS: hours.default(12),
  /** The address that browsers know the HTTP server by. */
  PUBLIC_URL: parsed(
    parsePublicUrl,
    'must be an origin such as https://pay.example.com, without a path',
  ).optional(),
  /** The OpenID Connect provider; undefined: users sign in with tokens only. */
  OIDC_ISSUER: parsed(
    parseIssuer,
    'must be an https URL such as https://id.example.com (http is for this machine only)',
  ).optional(),
  OIDC_CLIENT_ID: z.string().max(500).optional(),
  /** Undefined: a public client. */
  OIDC_CLIENT_SECRET: secret(z.string().max(1_000).optional()),
  /** What the button says. */
  OIDC_NAME: z
    .string()
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,50}$/u, 'must be 1 to 50 printable characters')
    .default('single sign-on'),
  /** The scopes to ask the provider for. */
  OIDC_REQUEST_SCOPES: z
    .string()
    .regex(/^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/, 'must be names, by spaces')
    .refine((text) => text.split(' ').includes('openid'), 'must have openid')
    .default('openid profile email'),
  /** The claim that has the user's scopes, or the roles of OIDC_ROLES. */
  OIDC_SCOPES_CLAIM: claim.default('inflow_scopes'),
  /** The claim that has the businesses a user is restricted to; undefined: no user is restricted. */
  OIDC_BUSINESSES_CLAIM: claim.optional(),
  /** `finance=read,ops=admin`: the scopes of each value of OIDC_SCOPES_CLAIM; empty: the values are scopes. */
  OIDC_ROLES: scopesBy(/^([^=]{1,200})=(.+)$/, 'finance=read+events:subscribe'),
}

/** What the settings of the console require of each other: each fault names the setting to change. */
export function consoleFaults(
  given: Partial<z.output<z.ZodObject<typeof CONSOLE_FIELDS>>>,
): readonly { readonly name: keyof typeof CONSOLE_FIELDS; readonly message: string }[] {
  const { OIDC_ISSUER, OIDC_CLIENT_ID, PUBLIC_URL } = given
  const faults: { name: keyof typeof CONSOLE_FIELDS; message: string }[] = []
  if (OIDC_ISSUER && !OIDC_CLIENT_ID) {
    faults.push({ name: 'OIDC_CLIENT_ID', message: 'is required with OIDC_ISSUER' })
  }
  if (OIDC_ISSUER && !PUBLIC_URL) {
    faults.push({ name: 'PUBLIC_URL', message: 'is required with OIDC_ISSUER' })
  }
  if (OIDC_ISSUER && given.CONSOLE === 'off') {
    faults.push({ name: 'OIDC_ISSUER', message: 'requires CONSOLE=on' })
  }
  const needy = ['OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET', 'OIDC_BUSINESSES_CLAIM'] as const
  for (const name of OIDC_ISSUER ? [] : needy) {
    if (given[name]) faults.push({ name, message: 'requires OIDC_ISSUER' })
  }
  return faults
}

type ConsoleSettings = Settings<z.ZodObject<typeof CONSOLE_FIELDS>>

/** @param httpInternal whether methods for tokens are served at the HTTP port, as the console needs */
export function readConsole(settings: ConsoleSettings, httpInternal: boolean) {
  const { oidcIssuer: issuer, oidcClientId: clientId, publicUrl } = settings
  return {
    /** Whether the console is served. */
    enabled: settings.console === undefined ? httpInternal : settings.console === 'on',
    publicUrl,
    sessions: {
      /** How long a session lasts without being used. */
      idleMs: settings.sessionIdleMinutes * 60_000,
      /** How long a session lasts at most. */
      maxMs: settings.sessionMaxHours * HOUR_MS,
    },
    /** Undefined: users sign in with tokens only. */
    oidc:
      issuer && clientId && publicUrl
        ? {
            issuer,
            clientId,
            publicUrl,
            clientSecret: settings.oidcClientSecret,
            name: settings.oidcName,
            requestScopes: settings.oidcRequestScopes,
            scopesClaim: settings.oidcScopesClaim,
            businessesClaim: settings.oidcBusinessesClaim,
            roles: settings.oidcRoles,
          }
        : undefined,
  }
}

function parsePublicUrl(text: string): URL | undefined {
  if (!/^https?:/.test(text) || !URL.canParse(text)) return undefined
  const url = new URL(text)
  return url.origin === text.replace(/\/$/, '') ? url : undefined
}

function parseIssuer(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = url.search + url.hash + url.username + url.password === ''
  return isPlain && (url.protocol === 'https:' || isLoopbackUrl(url)) ? url : undefined
}

function isLoopbackUrl({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)
}
