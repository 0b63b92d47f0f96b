import { createHmac, timingSafeEqual } from 'node:crypto'

/** What a webhook says: the body of the contract. */
export interface WebhookEvent {
  /** PAYMENT_NOTIFICATION, … */
  readonly event: string
  readonly data: {
    /** RESERVED_ACCOUNT_TRANSACTION, RESERVED_ACCOUNT, WEBHOOK_ENDPOINT. */
    readonly type: string
    /** The same on every attempt: what was seen before need not be done again. */
    readonly event_id: string
    /** 1, 2, 3 … without a gap in a business: a gap is something missed. */
    readonly sequence: number
    readonly [field: string]: unknown
  }
}

/** Why a request is not to be trusted, or not to be used. */
export type WebhookRefusal =
  | 'missing_header'
  | 'malformed_timestamp'
  | 'timestamp_too_old'
  | 'timestamp_too_new'
  | 'malformed_secret'
  | 'no_matching_signature'
  | 'malformed_body'

/** What came of the check. */
export type WebhookVerification =
  | { readonly ok: true; readonly event: WebhookEvent }
  | { readonly ok: false; readonly reason: WebhookRefusal }

/** Headers as Node, Express and Fastify have them, or as fetch does. */
export type WebhookHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>

interface VerifyOptions {
  /** Milliseconds since the Unix epoch; absent: the system's clock. */
  readonly now?: () => number
}

/** How far the time of a request may be from ours, either way: Standard Webhooks' five minutes. */
const TOLERANCE_SECONDS = 300

/** More than any sender writes: six signatures are 300 characters. */
const SIGNATURES_LENGTH_MAX = 4_096

/**
 * Checks that a webhook comes from who has the secret, unchanged and fresh, as the Standard
 * Webhooks specification 1.0 says. It takes the same time wherever signatures differ, and does not
 * throw on anything that a sender can send.
 *
 *     const result = verifyWebhook(rawBody, request.headers, 'whsec_…')
 *     if (!result.ok) return reply.code(401).send(result.reason)
 *     await handle(result.event)
 *
 * @param rawBody as it came, byte for byte; parsed and written again it has another signature
 * @param secret "whsec_…"; several while one is being changed for another
 */
export function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { now = Date.now }: VerifyOptions = {},
): WebhookVerification {
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const signatures = header(headers, 'webhook-signature')
  if (!id || !timestamp || !signatures) return refused('missing_header')
  const stale = staleness(timestamp, now())
  if (stale !== undefined) return refused(stale)
  const keys = (typeof secret === 'string' ? [secret] : secret).map(keyOf)
  if (keys.length === 0 || keys.includes(undefined)) return refused('malformed_secret')
  const expected = keys.map((key) => {
    const hmac = createHmac('sha256', key as Buffer)
      .update(`${id}.${timestamp}.`)
      .update(rawBody)
    return Buffer.from(`v1,${hmac.digest('base64')}`)
  })
  if (!anyMatches(signatures, expected)) return refused('no_matching_signature')
  const event = parse(rawBody)
  return event === undefined ? refused('malformed_body') : { ok: true, event }
}

function refused(reason: WebhookRefusal): WebhookVerification {
  return { ok: false, reason }
}

function header(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  // Some frameworks keep the case that was sent.
  const key = name in headers ? name : Object.keys(headers).find((k) => k.toLowerCase() === name)
  const value = key === undefined ? undefined : headers[key]
  if (typeof value === 'string') return value
  return Array.isArray(value) && value.length === 1 ? String(value[0]) : undefined
}

function staleness(timestamp: string, nowMs: number): WebhookRefusal | undefined {
  if (!/^\d{1,12}$/.test(timestamp)) return 'malformed_timestamp'
  const ageSeconds = Math.floor(nowMs / 1_000) - Number(timestamp)
  if (ageSeconds > TOLERANCE_SECONDS) return 'timestamp_too_old'
  return ageSeconds < -TOLERANCE_SECONDS ? 'timestamp_too_new' : undefined
}

function keyOf(secret: string): Buffer | undefined {
  const text = String(secret).replace(/^whsec_/, '')
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0) return undefined
  return Buffer.from(text, 'base64')
}

/** Every signature is compared with every key's, whichever matches. */
function anyMatches(signatures: string, expected: readonly Buffer[]): boolean {
  if (signatures.length > SIGNATURES_LENGTH_MAX) return false
  let matches = false
  for (const signature of signatures.split(' ')) {
    const given = Buffer.from(signature)
    for (const own of expected) {
      if (given.length === own.length && timingSafeEqual(given, own)) matches = true
    }
  }
  return matches
}

function parse(rawBody: string | Uint8Array): WebhookEvent | undefined {
  try {
    const body: unknown = JSON.parse(
      typeof rawBody === 'string' ? rawBody : new TextDecoder().decode(rawBody),
    )
    return isEvent(body) ? body : undefined
  } catch {
    return undefined
  }
}

function isEvent(body: unknown): body is WebhookEvent {
  if (typeof body !== 'object' || body === null || !('event' in body && 'data' in body)) {
    return false
  }
  return typeof body.event === 'string' && typeof body.data === 'object' && body.data !== null
}
