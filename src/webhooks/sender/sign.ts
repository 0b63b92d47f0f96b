import { createHash, createHmac } from 'node:crypto'
import type { RequestFormat } from '../endpoints/endpoint.ts'
import { secretBytes } from '../endpoints/signing-secret.ts'

/** The input of a request's headers. */
interface Signing {
  /** "evt_…": the same on every attempt, so that a receiver can detect duplicates. */
  readonly eventId: string
  /** Seconds since the Unix epoch, of this attempt. */
  readonly timestampSeconds: number
  /** The body, exactly as it is sent. */
  readonly body: string | Buffer
  /** The active secrets, newest first; at least one. In the WIAXY profile only the first signs. */
  readonly secrets: readonly [string, ...string[]]
}

/** The headers of a request in the format of its endpoint. */
export function signedHeaders(
  signing: Signing,
  { profile, legacySignature }: Pick<RequestFormat, 'profile' | 'legacySignature'>,
): Record<string, string> {
  const common = { 'content-type': 'application/json', 'user-agent': 'Inflow-Webhooks/1' }
  const [newest] = signing.secrets
  if (profile === 'STANDARD') return { ...common, ...standardHeaders(signing) }
  if (profile === null) {
    return { ...common, ...standardHeaders(signing), ...wiaxyHeaders(signing, secretBytes(newest)) }
  }
  return {
    ...common,
    ...wiaxyHeaders(signing, newest),
    ...(legacySignature === 'MD5' && { 'x-wiaxy-signature': md5(newest) }),
    ...(legacySignature === 'HMAC_BODY' && { 'x-wiaxy-signature': hmac(newest, signing.body) }),
  }
}

/** Standard Webhooks 1.0: one signature for each secret. */
function standardHeaders({ eventId, timestampSeconds, body, secrets }: Signing) {
  const signatures = secrets.map((secret) => {
    const signed = createHmac('sha256', secretBytes(secret))
    return `v1,${signed.update(`${eventId}.${timestampSeconds}.`).update(body).digest('base64')}`
  })
  return {
    'webhook-id': eventId,
    'webhook-timestamp': `${timestampSeconds}`,
    'webhook-signature': signatures.join(' '),
  }
}

function wiaxyHeaders({ timestampSeconds, body }: Signing, key: string | Buffer) {
  return {
    'x-wiaxy-timestamp': `${timestampSeconds}`,
    'x-wiaxy-signature-256': hmac(key, `${timestampSeconds}.`, body),
  }
}

function hmac(key: string | Buffer, ...parts: readonly (string | Buffer)[]): string {
  const signed = createHmac('sha256', key)
  for (const part of parts) signed.update(part)
  return signed.digest('hex')
}

/** As receivers expect it; it proves nothing about the request. */
function md5(text: string): string {
  return createHash('md5').update(text).digest('hex')
}
