import { SCOPES, type Scope } from './caller.ts'

/** Where the certificates are, all of them files of PEM. */
export interface TlsFiles {
  /** The certificate of both doors, followed by those that vouch for it. */
  readonly cert: string
  readonly key: string
  /** Whoever comes to the gRPC door needs a certificate of this authority; absent: none is asked. */
  readonly clientCa: string | undefined
}

/** The files themselves are looked at when the doors open; here only what belongs together is. */
export function pairTls(
  cert: string | undefined,
  key: string | undefined,
  clientCa: string | undefined,
  faults: string[],
): TlsFiles | undefined {
  if (cert !== undefined && key !== undefined) return { cert, key, clientCa }
  if (cert !== undefined) faults.push('TLS_CERT needs TLS_KEY beside it')
  if (key !== undefined) faults.push('TLS_KEY needs TLS_CERT beside it')
  if (clientCa !== undefined) faults.push('TLS_CLIENT_CA needs TLS_CERT and TLS_KEY beside it')
  return undefined
}

/** `spiffe://example.org/payments=payments:write+read,…` → the scopes of each URI */
export function parseClientScopes(
  text: string | undefined,
  clientCa: string | undefined,
): ReadonlyMap<string, ReadonlySet<Scope>> {
  const scopes = new Map<string, ReadonlySet<Scope>>()
  if (text === undefined) return scopes
  for (const pair of text.split(',').map((part) => part.trim())) {
    const [, uri = '', names = ''] =
      /^(spiffe:\/\/[a-z0-9._-]+(?:\/[\w.-]+)+)=(.+)$/.exec(pair) ?? []
    const held = names.split('+')
    const known = held.every((name) => (SCOPES as readonly string[]).includes(name))
    if (!known || uri === '') {
      const scopeNames = SCOPES.join(', ')
      throw new Error(
        `must be like spiffe://example.org/feed=read+events:subscribe, of ${scopeNames}, and "${pair}" is not`,
      )
    }
    if (scopes.has(uri)) throw new Error(`names ${uri} twice`)
    scopes.set(uri, new Set(held as Scope[]))
  }
  if (clientCa === undefined) throw new Error('needs TLS_CLIENT_CA beside it')
  return scopes
}

/** Origins as browsers write them, exactly; there is no "any". */
export function parseOrigins(text: string | undefined): readonly string[] {
  const origins = text?.split(',').map((origin) => origin.trim()) ?? []
  for (const origin of origins) {
    const url = URL.canParse(origin) ? new URL(origin) : undefined
    if (!url || !/^https?:$/.test(url.protocol) || url.origin !== origin) {
      throw new Error(`must be origins such as https://app.example.com, and "${origin}" is none`)
    }
  }
  return origins
}

export function parseConnections(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  const count = Number(text)
  if (!/^\d{1,6}$/.test(text) || count < 1) throw new Error('must be 1 to 999999 connections')
  return count
}

/** Of an egress proxy. The text may hold a password, and so is not part of the error. */
export function parseProxyUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  try {
    const { protocol, pathname, search, hash, username, password } = new URL(text)
    // They are sent to the proxy decoded.
    decodeURIComponent(username + password)
    if (/^https?:$/.test(protocol) && pathname + search + hash === '/') return text
  } catch {}
  throw new Error('must be a URL such as http://user:password@proxy.example:3128, without a path')
}
