import type { PeerCertificate } from 'node:tls'

/** The identity in a client certificate, and its expiry. */
export interface ClientIdentity {
  readonly uri: string
  /** Milliseconds since the Unix epoch: a connection may outlive its certificate. */
  readonly expiresMs: number
}

/**
 * Returns the URI of a verified certificate: the only URI among its alternative names (SPIFFE,
 * X.509-SVID). Undefined if there is none or more than one.
 */
export function identityOf({
  subjectaltname,
  valid_to: validTo,
}: Pick<PeerCertificate, 'subjectaltname' | 'valid_to'>): ClientIdentity | undefined {
  const uris = readNames(subjectaltname ?? '').filter(([kind]) => kind === 'URI')
  const [only] = uris
  if (only === undefined || uris.length > 1) return undefined
  const expiresMs = Date.parse(validTo)
  return Number.isNaN(expiresMs) ? undefined : { uri: only[1], expiresMs }
}

/**
 * Node writes names as `DNS:a.example, URI:spiffe://…`, and quotes those with commas or quotes in
 * them. A parser that ignored the quotes would take a crafted DNS name for a URI.
 */
function readNames(text: string): (readonly [kind: string, name: string])[] {
  const names: (readonly [string, string])[] = []
  const each = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y
  while (each.lastIndex < text.length) {
    const match = each.exec(text)
    // A text that Node did not write in this form is rejected as a whole.
    if (match === null) return []
    names.push([match[1] ?? '', match[2] ?? ''])
  }
  return names
}
