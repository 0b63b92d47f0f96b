import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WebhookData, WebhookDataByKind } from '../../gen/webhook_data.ts'

export type * from '../../gen/webhook_data.ts'

/** The reason why a webhook was refused. */
export type WebhookRefusal =
  | 'missing_header'
  | 'malformed_timestamp'
  | 'timestamp_too_old'
  | 'timestamp_too_new'
  | 'malformed_secret'
  | 'no_matching_signature'
  | 'malformed_body'

/** The result of the verification. */
export type WebhookVerification =
  | { readonly ok: true; readonly event: WebhookEvent }
  | { readonly ok: false; readonly reason: WebhookRefusal }

/** Headers in the form of Node, Express and Fastify, or of fetch. */
export type WebhookHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>

interface VerifyOptions {
  /** The current time in milliseconds since the Unix epoch; absent: the clock of the system. */
  readonly now?: () => number
}

/** The tolerance of the timestamp, in both directions: five minutes, as in Standard Webhooks. */
const TOLERANCE_SECONDS = 300

/** The longest signature header that is read; six signatures are 300 characters. */
const SIGNATURES_LENGTH_MAX = 4_096

/**
 * Verifies that a webhook was signed with the secret, unchanged and recently, as in the Standard
 * Webhooks specification 1.0. The comparison takes constant time. It never throws, whatever the
 * request contains.
 *
 *     const result = verifyWebhook(rawBody, request.headers, 'whsec_…')
 *     if (!result.ok) return reply.code(401).send(result.reason)
 *     await handle(result.event)
 *
 * @param rawBody the body as received, byte for byte; a body that was parsed and serialized again
 * has another signature
 * @param secret "whsec_…"; several during a rotation
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
  // Some frameworks keep the original case of header names.
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

/** Compares every signature with that of every key, even after a match, to take constant time. */
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

/** PAYMENT_NOTIFICATION, … */
export type WebhookKind = keyof WebhookDataByKind

/**
 * The body of a webhook. Its kind determines the type of its data:
 *
 *     if (event.event === 'PAYMENT_NOTIFICATION') credit(event.data.amount, event.data.payer)
 *
 * `event.data.event_id` is the same on every attempt: use it to ignore an event that was already handled.
 */
export type WebhookEvent = WebhookEventOf<WebhookKind> | UnknownWebhookEvent

/** The body of a webhook of a kind, or of one of several kinds. */
export type WebhookEventOf<Kind extends WebhookKind> = {
  readonly [Each in Kind]: { readonly event: Each; readonly data: WebhookDataByKind[Each] }
}[Kind]

/** The body of a webhook of a kind that was added after this version of the package. */
export interface UnknownWebhookEvent {
  readonly event: UnknownWebhookKind
  readonly data: WebhookData & { readonly [field: string]: unknown }
}

/**
 * Any text except the known kinds. The brand, which no value has, distinguishes it from them: a plain
 * string could be a known kind, and then the kind would not determine the type of the data.
 */
export type UnknownWebhookKind = `${string & { readonly [unknownKind]: never }}`

declare const unknownKind: unique symbol
