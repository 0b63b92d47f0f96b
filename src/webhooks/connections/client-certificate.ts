import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Pool } from 'pg'
import type { FieldFault } from '../../core/errors.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { ClientCertificate } from './connection.ts'

const CERTIFICATE = 'options.clientCertificate.certificatePem'

const KEY = 'options.clientCertificate.privateKeyPem'

/** A certificate and those of its chain. */
const CHAIN_MAX = 5

const BLOCKS = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** What may be shown of a valid certificate. */
export function factsOf({ cert }: ClientCertificate) {
  const { subject, fingerprint256, validToDate } = new X509Certificate(cert)
  return {
    // Node writes one part on each line.
    subject: subject.split('\n').join(', '),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
    expiresAt: validToDate,
  }
}

/** The faults of a requested certificate. No message repeats what was sent. */
export function certificateFaults(certificate: ClientCertificate, nowMs: number): FieldFault[] {
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
  if (!new X509Certificate(cert).checkPrivateKey(key)) return 'is not that of the certificate'
  try {
    // Refuses what TLS would: keys that are too weak, for example.
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
 * The endpoints whose client certificates expire before a time, the first one first, and how many
 * endpoints have one.
 */
export async function listExpiringCertificates(
  pool: Pool,
  beforeMs: number,
): Promise<{ readonly endpoints: number; readonly expiring: readonly Expiring[] }> {
  const { rows } = await pool.query<Expiring & { endpoints: number }>(
    `select id, ${epochMs('certificate_expires_at')} as "expiresAtMs", count(*) over ()::int as endpoints
      from webhook_endpoint where certificate_expires_at is not null and deleted_at is null
      order by certificate_expires_at limit $1`,
    [LISTED_MAX],
  )
  const expiring = rows.filter(({ expiresAtMs }) => expiresAtMs < beforeMs)
  return { endpoints: rows[0]?.endpoints ?? 0, expiring }
}
