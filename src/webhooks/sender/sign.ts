import { createHmac } from 'node:crypto'

/** The input of a request's headers. */
interface Signing {
  /** "evt_…": the same on every attempt, so that a receiver can detect duplicates. */
  readonly eventId: string
  /** Seconds since the Unix epoch, of this attempt. */
  readonly timestampSeconds: number
  /** The body, exactly as it is sent. */
  readonly body: string | Buffer
  /** The bytes of the active secrets, newest first; at least one. */
  readonly secrets: readonly [Buffer, ...Buffer[]]
}

/**
 * The headers of a request: signed according to Standard Webhooks 1.0, and also in the format that
 * existing receivers verify, with the newest secret.
 */
export function signedHeaders(signing: Signing): Record<string, string> {
  const { eventId, timestampSeconds, body, secrets } = signing
  const timestamp = `${timestampSeconds}`
  const signatures = secrets.map((secret) => {
    const signed = createHmac('sha256', secret).update(`${eventId}.${timestamp}.`).update(body)
    return `v1,${signed.digest('base64')}`
  })
  return {
    'content-type': 'application/json',
    'user-agent': 'Inflow-Webhooks/1',
    'webhook-id': eventId,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
    'x-wiaxy-timestamp': timestamp,
    'x-wiaxy-signature-256': createHmac('sha256', secrets[0])
      .update(`${timestamp}.`)
      .update(body)
      .digest('hex'),
  }
}
