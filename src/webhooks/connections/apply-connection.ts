import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Pool } from 'pg'
import { type FieldFault, invalidFields } from '../../core/errors.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Endpoint } from '../endpoints/endpoint.entity.ts'
import { type UrlRules, urlRefusal } from '../sender/address-guard.ts'
import {
  type Authentication,
  type BasicAuthentication,
  type ClientCertificate,
  type Connection,
  type ConnectionChange,
  changedConnection,
  decryptConnection,
  encryptConnection,
  type Header,
} from './connection.ts'

/**
 * Changes the connection of a locked endpoint, whose URL has already been changed.
 *
 * @returns the connection after the change
 * @throws Fault validation_failed
 */
export function applyConnection(
  encrypter: Encrypter,
  endpoint: Endpoint,
  change: ConnectionChange,
): Connection | undefined {
  const current = connectionOf(encrypter, endpoint)
  const { origin } = new URL(endpoint.url)
  const next = changedConnection(current, change, origin)
  const faults = combinedFaults(current, change, next)
  if (faults.length > 0) throw invalidFields(faults)
  const isChanged =
    change.headers !== undefined ||
    change.authentication !== undefined ||
    change.certificate !== undefined ||
    current?.origin !== next?.origin
  if (!isChanged) return current
  endpoint.connectionVersion += 1
  endpoint.connectionEncrypted = next ? encryptConnection(encrypter, endpoint.id, next) : null
  endpoint.certificateExpiresAt = next?.certificate ? factsOf(next.certificate).expiresAt : null
  return next
}

/** The connection of an endpoint; undefined if it has none. */
export function connectionOf(
  encrypter: Encrypter,
  { id, connectionEncrypted }: Pick<Endpoint, 'id' | 'connectionEncrypted'>,
): Connection | undefined {
  return connectionEncrypted ? decryptConnection(encrypter, id, connectionEncrypted) : undefined
}

/** The audit details of a change: names, and never a secret. */
export function connectionDetails({
  headers,
  authentication,
  certificate,
}: ConnectionChange): Readonly<Record<string, unknown>> {
  return {
    headers: headers?.map(({ name }) => name),
    authentication: authentication === null ? 'none' : authentication?.method,
    certificate: certificate === null ? 'none' : certificate && factsOf(certificate).fingerprint,
  }
}

/** All custom headers together, in characters. */
const HEADERS_LENGTH_MAX = 8_000

/**
 * Headers that the service, its HTTP client or a proxy sets: of the signature, of the body, of the
 * connection.
 */
const RESERVED =
  /^(webhook-.*|x-wiaxy-.*|proxy-.*|content-(type|length|encoding)|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|host|user-agent|traceparent|tracestate)$/i

/** A token of RFC 9110. */
const NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/
const VALUE = /^[\x20-\x7e]+$/
const CONTROL = /\p{Cc}/u

const HEADERS = 'options.headers.headers'
const BASIC = 'options.authentication.basic'
const OAUTH2 = 'options.authentication.oauth2'

/** The faults of a requested change by itself. */
export function changeFaults(
  { headers, authentication, certificate }: ConnectionChange,
  rules: UrlRules,
  nowMs: number,
): FieldFault[] {
  return [
    ...headersFaults(headers ?? []),
    ...(authentication ? authenticationFaults(authentication, rules) : []),
    ...(certificate ? certificateFaults(certificate, nowMs) : []),
  ]
}

function authenticationFaults(authentication: Authentication, rules: UrlRules): FieldFault[] {
  if (authentication.method === 'basic') return basicFaults(authentication)
  const message = urlRefusal(authentication.tokenUrl, rules)
  return message === undefined ? [] : [{ field: `${OAUTH2}.tokenUrl`, message }]
}

/**
 * The faults of a change in combination with the current connection. Secrets stay with their origin, so that a new URL
 * cannot obtain them.
 */
function combinedFaults(
  current: Connection | undefined,
  change: ConnectionChange,
  next: Connection | undefined,
): FieldFault[] {
  const isMoved = current !== undefined && next !== undefined && current.origin !== next.origin
  const kept = [
    ...(change.headers === undefined && current?.headers.length ? ['headers'] : []),
    ...(change.authentication === undefined && current?.authentication ? ['authentication'] : []),
  ]
  if (isMoved && kept.length > 0) {
    const message = `has another origin: state ${kept.join(' and ')} again, or remove them`
    return [{ field: 'url', message }]
  }
  if (next?.certificate && !next.origin.startsWith('https:')) {
    return [{ field: 'options.clientCertificate', message: 'needs an https URL' }]
  }
  const at = next?.headers.findIndex(({ name }) => name.toLowerCase() === 'authorization') ?? -1
  if (at < 0 || !next?.authentication) return []
  const message = 'must not be authorization, because an authentication method is set'
  return [{ field: `${HEADERS}[${at}].name`, message }]
}

function headersFaults(headers: readonly Header[]): FieldFault[] {
  const seen = new Set<string>()
  const faults = headers.flatMap(({ name, value }, index): FieldFault[] => {
    const field = `${HEADERS}[${index}]`
    const isRepeated = seen.has(name.toLowerCase())
    seen.add(name.toLowerCase())
    const message = isRepeated ? 'is repeated' : nameFault(name)
    return [
      ...(message === undefined ? [] : [{ field: `${field}.name`, message }]),
      ...(VALUE.test(value)
        ? []
        : [{ field: `${field}.value`, message: 'must be printable ASCII' }]),
    ]
  })
  const length = headers.reduce((sum, { name, value }) => sum + name.length + value.length, 0)
  if (length <= HEADERS_LENGTH_MAX) return faults
  const message = `must have at most ${HEADERS_LENGTH_MAX} characters together`
  return [...faults, { field: HEADERS, message }]
}

function nameFault(name: string): string | undefined {
  if (!NAME.test(name)) return 'must be a header name, such as x-api-key'
  return RESERVED.test(name) ? 'is set by the service' : undefined
}

function basicFaults({ username, password }: BasicAuthentication): FieldFault[] {
  const faults: FieldFault[] = []
  if (username.includes(':') || CONTROL.test(username)) {
    const message = 'must not contain a colon or control characters'
    faults.push({ field: `${BASIC}.username`, message })
  }
  if (CONTROL.test(password)) {
    faults.push({ field: `${BASIC}.password`, message: 'must not contain control characters' })
  }
  return faults
}

const CERTIFICATE = 'options.clientCertificate.certificatePem'

const KEY = 'options.clientCertificate.privateKeyPem'

/** The most certificates: a certificate and its chain. */
const CHAIN_MAX = 5

const BLOCKS = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** The facts of a valid certificate that may be shown. */
export function factsOf({ cert }: ClientCertificate) {
  const { subject, fingerprint256, validToDate } = new X509Certificate(cert)
  return {
    // Node writes each part of the name on a line of its own.
    subject: subject.split('\n').join(', '),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
    expiresAt: validToDate,
  }
}

/** The faults of a requested certificate. No message repeats a part of the request. */
function certificateFaults(certificate: ClientCertificate, nowMs: number): FieldFault[] {
  const message = chainFault(certificate.cert, nowMs)
  if (message !== undefined) return [{ field: CERTIFICATE, message }]
  const fault = keyFault(certificate)
  return fault === undefined ? [] : [{ field: KEY, message: fault }]
}

function chainFault(cert: string, nowMs: number): string | undefined {
  const blocks = cert.match(BLOCKS) ?? []
  if (blocks.length === 0 || cert.replace(BLOCKS, '').trim() !== '') {
    return 'must be certificates in PEM, and nothing else'
  }
  if (blocks.length > CHAIN_MAX) return `must be at most ${CHAIN_MAX} certificates`
  try {
    const [own] = blocks.map((block) => new X509Certificate(block))
    if (own && own.validToDate.getTime() <= nowMs) return 'has expired'
    return undefined
  } catch {
    return 'has a certificate that cannot be read'
  }
}

function keyFault({ cert, key: text }: ClientCertificate): string | undefined {
  let key: ReturnType<typeof createPrivateKey>
  try {
    key = createPrivateKey(text)
  } catch {
    return 'must be a private key in PEM that is not encrypted'
  }
  if (!new X509Certificate(cert).checkPrivateKey(key)) return 'does not belong to the certificate'
  try {
    // Fails for whatever TLS would refuse, for example a key that is too weak.
    createSecureContext({ cert, key: text })
    return undefined
  } catch {
    return 'cannot be used for TLS with the certificate'
  }
}

/** The most endpoints that are listed. */
const LISTED_MAX = 20

interface Expiring {
  readonly id: string
  readonly expiresAtMs: number
}

/**
 * The endpoints whose client certificates expire before a time, in the order of expiry, and the number of endpoints with
 * a client certificate.
 */
export async function listExpiringCertificates(
  pool: Pool,
  beforeMs: number,
): Promise<{ readonly endpoints: number; readonly expiring: readonly Expiring[] }> {
  const { rows } = await pool.query<Expiring & { endpoints: number }>(
    `select id,
        round(date_part('epoch', certificate_expires_at) * 1000) as "expiresAtMs", count(*) over ()::int as endpoints
      from webhook_endpoint where certificate_expires_at is not null and deleted_at is null
      order by certificate_expires_at limit $1`,
    [LISTED_MAX],
  )
  const expiring = rows.filter(({ expiresAtMs }) => expiresAtMs < beforeMs)
  return { endpoints: rows[0]?.endpoints ?? 0, expiring }
}
