import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { TimeText } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Attempt } from '../deliveries/attempt-runner.ts'
import type { Claim } from '../deliveries/claim-deliveries.ts'
import { createSecretDecrypter } from '../endpoints/signing-secret.ts'
import { createToEventBody, encodeEventBody } from './body.ts'
import type { HttpClient, Outcome } from './http-client.ts'
import { signedHeaders } from './sign.ts'

/** How many bodies are remembered; each has about a kilobyte. */
const BODIES_MAX = 1_000

interface SenderOptions {
  readonly encrypter: Encrypter
  readonly timeText: TimeText
  readonly httpClient: HttpClient
  readonly log: Logger
}

/** Writes, signs and posts the event of a delivery. The function it makes does not throw. */
export function createSender(options: SenderOptions): (attempt: Attempt) => Promise<Outcome> {
  const { timeText, httpClient, log } = options
  const decryptSecret = createSecretDecrypter(options.encrypter)
  const bodyOf = createBodies(timeText)
  const compose = ({ claim, startedAtMs }: Attempt) => {
    const body = bodyOf(claim)
    const [newest, ...earlier] = claim.secretsEncrypted.map((sealed) =>
      decryptSecret(claim.endpointId, sealed),
    )
    assert(newest, 'an endpoint has a secret that signs')
    const headers = signedHeaders({
      eventId: claim.entry.eventId,
      timestampSeconds: Math.floor(startedAtMs / 1_000),
      body,
      secrets: [newest, ...earlier],
    })
    return { headers, body }
  }
  return async (attempt) => {
    try {
      const { headers, body } = compose(attempt)
      return await httpClient.post(attempt.claim, headers, body)
    } catch (error) {
      // An event or a secret that cannot be read must not take the others' deliveries with it.
      log.error({ err: error, delivery: attempt.claim.id }, 'a webhook could not be composed')
      return {
        status: undefined,
        answer: '',
        error: 'the event could not be composed, a fault of the sender',
        retryAfter: undefined,
      }
    }
  }
}

/** Bodies, each written once for all the endpoints that it goes to. */
function createBodies(timeText: TimeText): (claim: Claim) => Buffer {
  const toEventBody = createToEventBody(timeText)
  // By position, as a number is found sooner than a text. After a restore of the database a position
  // may be another event's.
  const known = new LRUCache<number, { readonly eventId: string; readonly body: Buffer }>({
    max: BODIES_MAX,
  })
  return ({ entry }) => {
    const { eventId } = entry
    const position = Number(entry.position)
    const found = known.get(position)
    if (found?.eventId === eventId) return found.body
    const body = Buffer.from(encodeEventBody(toEventBody(entry)))
    known.set(position, { eventId, body })
    return body
  }
}
