import type { PeerCertificate } from 'node:tls'

/** Who a client's certificate says it is, and for how long. */
export interface ClientIdentity {
  readonly uri: string
  /** Milliseconds since the Unix epoch: a connection may outlive the certificate it began with. */
  readonly expiresMs: number
}

/**
 * The URI that a verified certificate names its holder by: the only one among the alternative
 * names, as SPIFFE's X.509-SVID has it. Undefined when there is none or more than one.
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
 * Node writes names as `DNS:a.example, URI:spiffe://…`, and those with commas or quotes in them in
 * quotes: without heed to those, a DNS name could pretend to be a URI.
 */
function readNames(text: string): (readonly [kind: string, name: string])[] {
  const names: (readonly [string, string])[] = []
  const each = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y
  while (each.lastIndex < text.length) {
    const match = each.exec(text)
    // What is not as Node writes it is not believed, not in part either.
    if (match === null) return []
    names.push([match[1] ?? '', match[2] ?? ''])
  }
  return names
}
