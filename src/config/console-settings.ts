import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { z } from 'zod'
import { HOUR_MS } from '../core/durations.ts'
import { choice, integer, parsed, type Settings, scopesBy, secret } from './settings.ts'

const hours = integer(1, 168, '1 to 168 hours')
const claim = z.string().regex(/^[\x21-\x7e]{1,100}$/, 'must be the name of a claim')

/** The settings of the console: its sessions, the OpenID Connect provider, and portals. */
export const CONSOLE_FIELDS = {
  /** Undefined: on if methods for tokens are served at the HTTP port. */
  CONSOLE: choice(['on', 'off']).optional(),
  SESSION_IDLE_MINUTES: integer(5, 10_080, '5 to 10080 minutes').default(60),
  SESSION_MAX_HOURS: hours.default(12),
  /** The address of the HTTP server in browsers. */
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
  /** The name of the provider on the sign-in button. */
  OIDC_NAME: z
    .string()
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,50}$/u, 'must be 1 to 50 printable characters')
    .default('single sign-on'),
  /** The scopes to request from the provider. */
  OIDC_REQUEST_SCOPES: z
    .string()
    .regex(/^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/, 'must be names, by spaces')
    .refine((text) => text.split(' ').includes('openid'), 'must have openid')
    .default('openid profile email'),
  /** The claim with the user's scopes, or with roles if OIDC_ROLES is set. */
  OIDC_SCOPES_CLAIM: claim.default('inflow_scopes'),
  /** The claim with the businesses to which a user is restricted; undefined: no user is restricted. */
  OIDC_BUSINESSES_CLAIM: claim.optional(),
  /** `finance=read,ops=admin`: the scopes of each value of OIDC_SCOPES_CLAIM; empty: the values are scopes. */
  OIDC_ROLES: scopesBy(/^([^=]{1,200})=(.+)$/, 'finance=read+events:subscribe'),
  /** The name that portals show instead of "Inflow". */
  PORTAL_NAME: z
    .string()
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,50}$/u, 'must be 1 to 50 printable characters')
    .optional(),
  /** The image that portals show instead of the name. */
  PORTAL_LOGO_FILE: z
    .string()
    .transform((path, { addIssue }): Logo => {
      const logo = readLogo(path)
      if (typeof logo !== 'string') return logo
      addIssue(logo)
      return z.NEVER
    })
    .optional(),
  /** The accent colour of portals. */
  PORTAL_COLOR: z
    .string()
    .regex(/^#[0-9a-f]{6}$/i, 'must be a colour such as #0b6b63')
    .refine((color) => contrastWithWhite(color) >= CONTRAST_MIN, {
      error: ({ input }) =>
        `must be darker: white text on ${input} has a contrast of ${contrastWithWhite(`${input}`).toFixed(1)}, and needs ${CONTRAST_MIN}`,
    })
    .optional(),
}

/** Checks rules over several settings of the console. Each fault names the setting to change. */
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
      /** The longest duration of a session. */
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
    /** The branding of portals. */
    portal: {
      name: settings.portalName,
      logo: settings.portalLogoFile,
      color: settings.portalColor,
    },
  }
}

/** An image that is served to everyone. */
export interface Logo {
  readonly bytes: Buffer
  readonly etag: string
  readonly type: 'image/png' | 'image/svg+xml'
}

const LOGO_BYTES_MAX = 64 * 1_024

const PNG_SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex')

/** Matches an SVG document up to its root element. */
const SVG =
  /^\uFEFF?\s*(<\?xml[^>]*>\s*)?((<!--(?:(?!-->)[\s\S])*-->|<!DOCTYPE[^>[]*(\[[^\]]*\])?[^>]*>)\s*)*<svg[\s>]/

/** @returns the image, or a text that describes the fault of the file */
function readLogo(path: string): Logo | string {
  try {
    const { size } = statSync(path)
    if (size > LOGO_BYTES_MAX)
      return `must name a file of at most 64 KiB: ${path} has ${size} bytes`
    const bytes = readFileSync(path)
    const isPng = bytes.subarray(0, PNG_SIGNATURE.length).equals(PNG_SIGNATURE)
    if (!isPng && !SVG.test(bytes.toString())) {
      return `must name a PNG or an SVG image: ${path} is neither`
    }
    const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`
    return { bytes, etag, type: isPng ? 'image/png' : 'image/svg+xml' }
  } catch (error) {
    return `cannot be read: ${error instanceof Error ? error.message : error}`
  }
}

/** The smallest contrast between text and background, level AA of WCAG 2. */
const CONTRAST_MIN = 4.5

/** The contrast between white and a colour "#rrggbb", from 1 to 21, as WCAG 2 defines it. */
function contrastWithWhite(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(color.slice(at, at + 2), 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
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
