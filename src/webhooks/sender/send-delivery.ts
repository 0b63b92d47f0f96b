import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { BankNames } from '../../banks/bank.ts'
import type { Clock, TimeText } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Tracing } from '../../tracing/tracing.ts'
import type { LoadConnection } from '../connections/send-connected.ts'
import { createConnectedSender } from '../connections/send-connected.ts'
import type { Attempt } from '../deliveries/attempt-runner.ts'
import type { Claim } from '../deliveries/claim-deliveries.ts'
import type { RequestFormat } from '../endpoints/endpoint.ts'
import { createSecretDecrypter } from '../endpoints/signing-secret.ts'
import { createToWebhookBody } from './body.ts'
import { failed, type HttpClient, type Outcome } from './http-client.ts'
import { signedHeaders } from './sign.ts'
import { traceAttempt } from './trace-attempt.ts'

/** The maximum number of events whose bodies are cached: of about 1 kB each, and mostly one. */
const BODIES_MAX = 1_000

interface SenderOptions {
  readonly encrypter: Encrypter
  readonly clock: Clock
  readonly timeText: TimeText
  readonly bankNames: BankNames
  readonly httpClient: HttpClient
  readonly loadConnection: LoadConnection
  readonly log: Logger
  readonly tracing?: Tracing | undefined
}

/** Encodes, signs and posts the event of a delivery. The returned function does not throw. */
export function createSender(options: SenderOptions): (attempt: Attempt) => Promise<Outcome> {
  const { timeText, bankNames, httpClient, loadConnection, log } = options
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
  const sendOver = createConnectedSender(httpClient, options.clock)
  const send = async (attempt: Attempt, traceparent: string | undefined): Promise<Outcome> => {
    const { headers, body } = compose(attempt, traceparent)
    const { claim } = attempt
    const connection = await loadConnection(claim.endpointId, claim.connectionVersion)
    if (connection === undefined) return httpClient.post(claim, headers, body)
    // The claim may be older than a change of the URL: secrets go to the origin they were given for.
    if (connection.origin !== new URL(claim.url).origin) return failed('the URL was changed')
    return sendOver(connection, claim, headers, body)
  }
  return async (attempt) => {
    try {
      return await traceAttempt(options.tracing, attempt.claim, (traceparent) =>
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
 * Caches bodies: each is encoded once for all the endpoints that were sent the same event before it. A
 * business has few endpoints, so an event has few bodies.
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

/** What the bodies of an event depend on: a number for the standard one, as numbers are faster keys than texts. */
function bodyKey(previousSequence: number, format: RequestFormat): number | string {
  if (format.profile !== 'WIAXY') return previousSequence
  return `${previousSequence} ${format.payerAsArray} ${format.eventName}`
}

/** The bodies of an event, by `bodyKey`. */
interface Bodies {
  readonly eventId: string
  readonly encoded: Map<number | string, Buffer>
}
