import { LRUCache } from 'lru-cache'
import type { BankNames } from '../../banks/bank.ts'
import type { TimeText } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import {
  formatTraceparent,
  inSpan,
  parseTraceparent,
  type Span,
  type Tracing,
} from '../../core/tracing.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import { traceparentOf } from '../../events/message.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { createConnectedSender, type LoadConnection } from '../connections/send-connected.ts'
import type { Attempt } from '../deliveries/attempt-runner.ts'
import type { Claim } from '../deliveries/claim-deliveries.ts'
import type { RequestFormat } from '../endpoints/endpoint.ts'
import { createToWebhookBody } from './body.ts'
import { failed, type HttpClient, type Outcome } from './http-client.ts'
import { createSecretDecrypter, signedHeaders } from './sign.ts'

/** The maximum number of events whose bodies are cached. Most events have one body, of about 1 kB. */
const BODIES_MAX = 1_000

interface SenderOptions {
  readonly encrypter: Encrypter
  readonly timeText: TimeText
  readonly bankNames: BankNames
  readonly httpClient: HttpClient
  readonly loadConnection: LoadConnection
}

/** Encodes, signs and posts the event of a delivery. The returned function does not throw. */
export function createSender(
  runtime: Runtime,
  options: SenderOptions,
): (attempt: Attempt) => Promise<Outcome> {
  const { log } = runtime
  const { timeText, bankNames, httpClient, loadConnection } = options
  const decryptSecret = createSecretDecrypter(options.encrypter)
  const bodyOf = createBodies(timeText, bankNames)
  const compose = ({ claim, startedAtMs }: Attempt, traceparent: string | undefined) => {
    const body = bodyOf(claim)
    const { endpointId, entry, format } = claim
    const isTest = entry.kind === 'ENDPOINT_TEST'
    const [newest, ...earlier] = claim.secrets
      .filter(({ isNext }) => isTest || !isNext)
      .map(({ number, encrypted }) => decryptSecret({ endpointId, number }, encrypted))
    assert(newest !== undefined, 'an endpoint has a secret that signs')
    const signing = {
      eventId: entry.eventId,
      timestampSeconds: Math.floor(startedAtMs / 1_000),
      body,
      secrets: [newest, ...earlier] as const,
    }
    const headers = signedHeaders(signing, format)
    return { headers: traceparent === undefined ? headers : { ...headers, traceparent }, body }
  }
  const sendOver = createConnectedSender(httpClient, runtime.clock)
  const send = async (attempt: Attempt, traceparent: string | undefined): Promise<Outcome> => {
    const { headers, body } = compose(attempt, traceparent)
    const { claim } = attempt
    const connection = await loadConnection(claim.endpointId, claim.connectionVersion)
    if (connection === undefined) return httpClient.post(claim, headers, body)
    // The claim may be older than a change of the URL, and secrets may only go to the origin for which they were stated.
    if (connection.origin !== new URL(claim.url).origin) return failed('the URL was changed')
    return sendOver(connection, claim, headers, body)
  }
  return async (attempt) => {
    try {
      return await traceAttempt(runtime.tracing, attempt.claim, (traceparent) =>
        send(attempt, traceparent),
      )
    } catch (error) {
      // An unreadable event or secret must not stop other deliveries.
      log.error({ err: error, delivery: attempt.claim.id }, 'webhook request could not be built')
      return failed('internal error: the request could not be built')
    }
  }
}

/**
 * Caches bodies: a body is encoded once for all endpoints that have the same previous event and format. A business has few
 * endpoints, so an event has few bodies.
 */
function createBodies(timeText: TimeText, bankNames: BankNames): (claim: Claim) => Buffer {
  const toWebhookBody = createToWebhookBody(timeText, bankNames)
  // Keyed by position, as numbers are faster keys than strings. After a restore of the database, a
  // position may belong to another event.
  const known = new LRUCache<number, Bodies>({ max: BODIES_MAX })
  return ({ entry, previousSequence, format }) => {
    const { eventId } = entry
    const position = Number(entry.position)
    let found = known.get(position)
    if (found?.eventId !== eventId) {
      found = { eventId, encoded: new Map() }
      known.set(position, found)
    }
    const key = bodyKey(previousSequence, format)
    const encoded = found.encoded.get(key)
    if (encoded) return encoded
    const body = Buffer.from(toWebhookBody(entry, previousSequence, format))
    found.encoded.set(key, body)
    return body
  }
}

/** The key of a body among the bodies of its event: a number for the standard format, because numbers are faster keys. */
function bodyKey(previousSequence: number, format: RequestFormat): number | string {
  if (format.profile !== 'WIAXY') return previousSequence
  return `${previousSequence} ${format.payerAsArray} ${format.eventName}`
}

/** The bodies of an event, by `bodyKey`. */
interface Bodies {
  readonly eventId: string
  readonly encoded: Map<number | string, Buffer>
}

/**
 * Makes one attempt in a span of its payment's trace, which the receiver continues. Without tracing, the receiver gets
 * the traceparent of the payment unchanged.
 *
 * @param send makes the request with a traceparent; undefined: without one
 */
function traceAttempt(
  tracing: Tracing | undefined,
  claim: Claim,
  send: (traceparent: string | undefined) => Promise<Outcome>,
): Promise<Outcome> {
  const kept = traceparentOf(claim.entry.payload)
  if (tracing === undefined) return send(kept)
  const span = tracing.start('POST webhook', { kind: 'client', parent: parseTraceparent(kept) })
  // A trace that begins here and is not recorded is not passed on to the receiver.
  const traceparent =
    kept === undefined && !span.isRecorded ? undefined : formatTraceparent(span.context)
  if (!span.isRecorded) return send(traceparent)
  span.set(factsOf(claim))
  const traced = async (): Promise<Outcome> => {
    const outcome = await send(traceparent)
    if (outcome.status !== undefined) span.set({ 'http.response.status_code': outcome.status })
    return { ...outcome, traceId: span.context.traceId }
  }
  return inSpan(span, traced, failureOf)
}

/** Attributes of a span. The URL is cut to its host: the rest may contain secrets. */
function factsOf({ id, endpointId, attempts, url, entry }: Claim): Parameters<Span['set']>[0] {
  const { hostname, port, protocol } = new URL(url)
  const scheme = protocol.slice(0, -1)
  return {
    'http.request.method': 'POST',
    'http.request.resend_count': attempts,
    'url.scheme': scheme,
    'server.address': hostname,
    'server.port': Number(port || (scheme === 'https' ? 443 : 80)),
    'messaging.system.name': 'webhook',
    'messaging.operation.type': 'send',
    'messaging.message.id': entry.eventId,
    'inflow.endpoint.id': endpointId,
    'inflow.delivery.id': id,
    'inflow.event.kind': entry.kind,
  }
}

function failureOf({ error, status }: Outcome): string | undefined {
  if (error === '') return undefined
  return status === undefined ? 'no_response' : `${status}`
}
