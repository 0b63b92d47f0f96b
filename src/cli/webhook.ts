import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '@connectrpc/connect'
import type { Command } from 'commander'
import {
  type Attempt,
  AttemptSchema,
  type Delivery,
  DeliverySchema,
  DeliveryStatus,
  HeaderOmission,
  type WebhookRequest,
} from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { columnsOf } from './columns.ts'
import { addEndpointVerbs, ENDPOINT_EXAMPLE, ENDPOINT_ID } from './endpoints.ts'
import { EXIT, Failure } from './failure.ts'
import { addListenVerb } from './listen.ts'
import { fields, table } from './output.ts'
import { addRehearseVerb } from './rehearse.ts'
import { PAGE, rpc } from './rpc-verb.ts'
import { printResponse, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const DELIVERY_ID = '<delivery-id>  the delivery, as `inflow webhook deliveries` names it'
const DELIVERY_EXAMPLE = 'dlv_01jd9w3k6t8v2x4z6b8d0f2h4j'

const DELIVERY_COLUMNS = `id, eventId, eventKind=Kind, payment.amountMinor=Amount,
  payment.customerName=Customer, status, attemptCount=Attempts, dueAt, Latest outcome`
const OUTCOME = {
  'Latest outcome': ({ latestAttempt }: Delivery) => outcomeOf(latestAttempt),
}
const DELIVERIES = columnsOf(DeliverySchema, DELIVERY_COLUMNS, OUTCOME)
const DELIVERY = columnsOf(
  DeliverySchema,
  `${DELIVERY_COLUMNS}, failure, endpointId, createdAt, completedAt`,
  OUTCOME,
)
const ATTEMPTS = columnsOf(
  AttemptSchema,
  'number=No, startedAt, latencyMs=Took ms, Outcome, Response',
  { Outcome: outcomeOf, Response: ({ responseBody }) => firstLine(responseBody) },
)

/** The outcome of an attempt, as text. */
function outcomeOf(attempt: Attempt | undefined): string {
  if (attempt === undefined) return ''
  return attempt.error || `acknowledged (${attempt.statusCode})`
}

/** The first line of a response, for a table; --json has all that is stored. */
function firstLine(text: string): string {
  const [line = ''] = text.split('\n', 1)
  return line.length > 60 ? `${line.slice(0, 60)}…` : line
}

const WEBHOOK_HELP = `
  test: send a test event to an endpoint and show the response
  ${ENDPOINT_ID}
  Example: webhook test ${ENDPOINT_EXAMPLE}`

export function webhook(noun: Command): void {
  addEndpointVerbs(noun)
  addVerbs(noun, WEBHOOK_HELP, { test: calling(testEndpoint) })
  addRehearseVerb(noun)
  addDeliveryVerbs(noun)
  addListenVerb(noun)
}

/** Recovering a large backlog takes a while. */
const RECOVER_TIMEOUT_MS = 600_000

const DELIVERY_HELP = `
  deliveries: list deliveries to an endpoint, of a business or of an event, newest event first
  --endpoint <id>  to this endpoint, which may have been removed
  --event <id>  of this event
  --business <id>  to the endpoints of this business
  --from <time>  created at this time or later
  --to <time>  created before this time
  --status <status...>  only in these states
  ${PAGE}
  Example: webhook deliveries --endpoint ${ENDPOINT_EXAMPLE} --status failed

  delivery: show a delivery with its attempts, their responses, and the request as it is sent
  ${DELIVERY_ID}
  Example: webhook delivery ${DELIVERY_EXAMPLE}

  redeliver: send a delivery again, even if it was acknowledged
  ${DELIVERY_ID}
  Example: webhook redeliver ${DELIVERY_EXAMPLE}

  skip: end a pending delivery, so that the next events of an ordered endpoint are sent
  ${DELIVERY_ID}
  Example: webhook skip ${DELIVERY_EXAMPLE}

  recover: send again the deliveries that an endpoint has not acknowledged since a time
  ${ENDPOINT_ID}
  --since <time>!  deliveries created at this time or later
  Example: webhook recover ${ENDPOINT_EXAMPLE} --since "2026-11-20 10:00:00"`

function addDeliveryVerbs(noun: Command): void {
  addVerbs(noun, DELIVERY_HELP, {
    deliveries: rpc(WebhookService.method.listDeliveries, {
      flags: { status: 'statuses' },
      request(options: object) {
        if (['endpoint', 'event', 'business'].some((name) => name in options)) return {}
        throw new Failure(EXIT.usage, 'give --endpoint <id>, --event <id> or --business <id>')
      },
      shows: DELIVERIES,
    }),
    delivery: rpc(WebhookService.method.getDelivery, {
      shows: ({ delivery, attempts, request }) =>
        [
          delivery ? fields(delivery, DELIVERY.list) : '',
          ...(attempts.length === 0 ? [] : [table(attempts, ATTEMPTS.list)]),
          ...(request ? [requestText(request)] : []),
        ].join('\n\n'),
    }),
    redeliver: rpc(WebhookService.method.redeliver, {
      completes: async (response, service) => ({
        ...response,
        delivery: response.delivery && (await untilAttempted(service, response.delivery)),
      }),
      shows: DELIVERY,
      notes: ({ delivery }) =>
        delivery?.status === DeliveryStatus.PENDING
          ? 'The delivery is sent in the background: see inflow webhook delivery.'
          : undefined,
    }),
    skip: rpc(WebhookService.method.skipDelivery, { shows: DELIVERY }),
    recover: rpc(WebhookService.method.recover, {
      timeoutMs: RECOVER_TIMEOUT_MS,
      notes: ({ recovered }) =>
        recovered === 1n ? '1 delivery is sent again.' : `${recovered} deliveries are sent again.`,
    }),
  })
}

/** The request as it is sent, with what is left out named. */
function requestText({ method, url, headers, body }: WebhookRequest): string {
  const lines = headers.map(({ name, value, omission }) => {
    const shown = omission === HeaderOmission.SECRET ? '(secret)' : '(made for each attempt)'
    return `${name}: ${omission === HeaderOmission.UNSPECIFIED ? value : shown}`
  })
  return [`${method} ${url}`, ...lines, '', body].join('\n')
}

/** How often a delivery is looked at: for as long as an attempt may take. */
const ATTEMPT_POLLS = 100
const ATTEMPT_POLL_MS = 200

/** The redelivered delivery after its next attempt; as it is if that takes longer than the wait. */
async function untilAttempted(service: Service, redelivered: Delivery): Promise<Delivery> {
  const client = service.client(WebhookService)
  let latest = redelivered
  for (let poll = 0; poll < ATTEMPT_POLLS; poll += 1) {
    await delay(ATTEMPT_POLL_MS)
    const { delivery } = await client.getDelivery({ deliveryId: redelivered.id })
    latest = delivery ?? latest
    if (latest.attemptCount > redelivered.attemptCount) break
  }
  return latest
}

const testEndpoint = serviceAction<object>(async (service, options, endpointId) => {
  const client = service.client(WebhookService)
  const { eventId } = await client.sendTestEvent({ endpointId })
  const delivery = await firstAttempt(client, endpointId, eventId)
  if (delivery === undefined) {
    throw new Failure(EXIT.refused, `the test event ${eventId} has not been attempted yet`, [
      `check its delivery: inflow webhook deliveries --event ${eventId}`,
    ])
  }
  printResponse(options, DeliverySchema, delivery, () => fields(delivery, DELIVERY.list))
  if (delivery.latestAttempt?.error) {
    throw new Failure(EXIT.refused, `not acknowledged: ${outcomeOf(delivery.latestAttempt)}`)
  }
})

/** Waits for the first attempt of the event's delivery. @returns undefined after a timeout */
async function firstAttempt(
  client: Client<typeof WebhookService>,
  endpointId: string,
  eventId: string,
): Promise<Delivery | undefined> {
  for (let poll = 0; poll < ATTEMPT_POLLS; poll += 1) {
    const { deliveries } = await client.listDeliveries({ endpointId, eventId })
    const [delivery] = deliveries
    if (delivery?.latestAttempt) return delivery
    await delay(ATTEMPT_POLL_MS)
  }
  return undefined
}
