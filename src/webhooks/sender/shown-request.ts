import type { BankNames } from '../../banks/bank.ts'
import type { TimeText } from '../../core/clock.ts'
import { traceparentOf } from '../../events/message.ts'
import { readPositions } from '../../events/read-log.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import { connectionHeaders } from '../connections/send-connected.ts'
import { EndpointEntity } from '../endpoints/endpoint.entity.ts'
import type { EndpointContext } from '../endpoints/endpoint.ts'
import { createToWebhookBody } from './body.ts'
import { signedHeaders } from './sign.ts'

/** A request as an operator sees it: without secrets, and without the values that differ for each attempt. */
interface ShownRequest {
  readonly method: 'POST'
  readonly url: string
  readonly headers: readonly ShownHeader[]
  readonly body: string
}

export interface ShownHeader {
  readonly name: string
  /** Empty if the value is not shown. */
  readonly value: string
  readonly omission: 'UNSPECIFIED' | 'SECRET' | 'BY_ATTEMPT'
}

/** The event and the endpoint of a request. */
interface DeliveryEvent {
  readonly endpointId: string
  readonly position: bigint
  /** The sequence number of the previous event for the endpoint; 0 for the first. */
  readonly previousSequence: number
}

/** Headers whose values depend on the start of each attempt. */
const BY_ATTEMPT = /timestamp|signature|traceparent/

/** Creates a function that returns the request of a delivery; undefined once its event or endpoint was deleted. */
export function createShowRequest(
  { database: { orm, durablePool }, encrypter }: EndpointContext,
  timeText: TimeText,
  bankNames: BankNames,
) {
  const toWebhookBody = createToWebhookBody(timeText, bankNames)
  return async (delivery: DeliveryEvent): Promise<ShownRequest | undefined> => {
    const { endpointId: id, position, previousSequence } = delivery
    const endpoint = await orm.em.fork().findOne(EndpointEntity, { id, deletedAt: null })
    const [entry] = await readPositions(durablePool, [position])
    if (endpoint === null || entry === undefined) return undefined
    const { format } = endpoint
    const body = toWebhookBody(entry, previousSequence, format)
    const connection = connectionOf(encrypter, endpoint)
    // A placeholder: only the names of the headers matter here.
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
          if (!BY_ATTEMPT.test(name)) return { name, value, omission: 'UNSPECIFIED' }
          return { name, value: '', omission: 'BY_ATTEMPT' }
        }),
        ...Object.keys(added)
          .filter((name) => !(name in made))
          .map((name): ShownHeader => ({ name, value: '', omission: 'SECRET' })),
      ],
      body,
    }
  }
}
