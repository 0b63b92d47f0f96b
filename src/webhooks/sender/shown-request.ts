import type { BankNames } from '../../banks/bank.ts'
import type { TimeText } from '../../core/clock.ts'
import { traceparentOf } from '../../events/message.ts'
import { readPositions } from '../../events/read-log.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import { connectionHeaders } from '../connections/send-connected.ts'
import { EndpointEntity } from '../endpoints/endpoint.entity.ts'
import type { EndpointContext } from '../endpoints/endpoint-context.ts'
import { createToWebhookBody } from './body.ts'
import { signedHeaders } from './sign.ts'

/** A request as an operator sees it: without secrets, and without what each attempt makes anew. */
export interface ShownRequest {
  readonly method: 'POST'
  readonly url: string
  readonly headers: readonly ShownHeader[]
  readonly body: string
}

export interface ShownHeader {
  readonly name: string
  /** Empty if it is left out. */
  readonly value: string
  readonly omission: 'secret' | 'by attempt' | undefined
}

/** What a request is made of. */
interface DeliveryEvent {
  readonly endpointId: string
  readonly position: bigint
  /** The sequence of the event before it that the endpoint is sent; 0 for the first. */
  readonly previousSequence: number
}

/** Headers that are made for each attempt, by the time at which it starts. */
const BY_ATTEMPT = /timestamp|signature|traceparent/

/** Creates a function that returns the request of a delivery; undefined once its event or endpoint was deleted. */
export function createShowRequest(
  { database: { orm, relaxedPool }, encrypter }: EndpointContext,
  timeText: TimeText,
  bankNames: BankNames,
) {
  const toWebhookBody = createToWebhookBody(timeText, bankNames)
  return async (delivery: DeliveryEvent): Promise<ShownRequest | undefined> => {
    const { endpointId: id, position, previousSequence } = delivery
    const endpoint = await orm.em.fork().findOne(EndpointEntity, { id, deletedAt: null })
    const [entry] = await readPositions(relaxedPool, [position])
    if (endpoint === null || entry === undefined) return undefined
    const { format } = endpoint
    const body = toWebhookBody(entry, previousSequence, format)
    const connection = connectionOf(encrypter, endpoint)
    // The names of the headers, whose values do not matter.
    const secrets = [''] as const
    const made = {
      ...signedHeaders({ eventId: entry.eventId, timestampSeconds: 0, body, secrets }, format),
      ...(traceparentOf(entry.payload) !== undefined && { traceparent: '' }),
    }
    const added = connection
      ? connectionHeaders(
          connection,
          connection.authentication?.method === 'oauth2' ? '' : undefined,
        )
      : {}
    return {
      method: 'POST',
      url: endpoint.url,
      headers: [
        ...Object.entries(made).map(([name, value]): ShownHeader => {
          if (!BY_ATTEMPT.test(name)) return { name, value, omission: undefined }
          return { name, value: '', omission: 'by attempt' }
        }),
        ...Object.keys(added)
          .filter((name) => !(name in made))
          .map((name): ShownHeader => ({ name, value: '', omission: 'secret' })),
      ],
      body,
    }
  }
}
