import { setTimeout as wait } from 'node:timers/promises'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import {
  type Attempt,
  type Delivery,
  DeliveryStatus,
  HeaderOmission,
  type WebhookRequest,
} from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  GetDeliveryResponseSchema,
  ListDeliveriesResponseSchema,
  RecoverResponseSchema,
  RedeliverResponseSchema,
  SkipDeliveryResponseSchema,
  WebhookService,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { localTime } from '../local-time.ts'
import { enumName, nextPage, notePage, type PageOptions } from '../options.ts'
import { type Column, fields, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { type Service, serviceAction } from '../service-action.ts'

/** How often a redelivered delivery is looked at: for as long as an attempt may take. */
const ATTEMPT_POLLS = 100
const ATTEMPT_POLL_MS = 200

/** Recovering a large backlog takes a while. */
const RECOVER_TIMEOUT_MS = 600_000

const ROW: readonly Column<Delivery>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Event', of: ({ eventId }) => eventId },
  { title: 'Kind', of: ({ eventKind }) => eventKind },
  { title: 'Status', of: ({ status }) => enumName(status, DeliveryStatus) },
  { title: 'Attempts', right: true, of: ({ attemptCount }) => String(attemptCount) },
  { title: 'Due at', of: ({ dueAt }) => localTime.format(dueAt) },
  { title: 'Latest outcome', of: ({ latestAttempt }) => outcomeOf(latestAttempt) },
]

export const DELIVERY: readonly Column<Delivery>[] = [
  ...ROW,
  { title: 'Failure', of: ({ failure }) => failure },
  { title: 'Endpoint', of: ({ endpointId }) => endpointId },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Completed at', of: ({ completedAt }) => localTime.format(completedAt) },
]

const ATTEMPTS: readonly Column<Attempt>[] = [
  { title: 'No', right: true, of: ({ number }) => String(number) },
  { title: 'Started at', of: ({ startedAt }) => localTime.format(startedAt) },
  { title: 'Took ms', right: true, of: ({ latencyMs }) => String(latencyMs) },
  { title: 'Outcome', of: outcomeOf },
  { title: 'Response', of: ({ responseBody }) => firstLine(responseBody) },
]

/** The outcome of an attempt, as text. */
export function outcomeOf(attempt: Attempt | undefined): string {
  if (attempt === undefined) return ''
  return attempt.error || `acknowledged (${attempt.statusCode})`
}

/** The first line of a response, for a table; --json has all that is stored. */
function firstLine(text: string): string {
  const [line = ''] = text.split('\n', 1)
  return line.length > 60 ? `${line.slice(0, 60)}…` : line
}

interface ListOptions extends PageOptions {
  readonly endpoint?: string
  readonly event?: string
  readonly business?: string
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly status?: readonly DeliveryStatus[]
}

export const listDeliveries = serviceAction<ListOptions>(async (service, options) => {
  const { endpoint, event, business, from, to } = options
  if ([endpoint, event, business].every((each) => each === undefined)) {
    throw new Failure(EXIT.usage, 'give --endpoint <id>, --event <id> or --business <id>')
  }
  const client = service.client(WebhookService)
  const request = {
    endpointId: endpoint ?? '',
    eventId: event ?? '',
    businessId: business ?? '',
    ...(from && { from }),
    ...(to && { to }),
    statuses: [...(options.status ?? [])],
    pageSize: options.limit ?? 0,
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listDeliveries({ ...request, pageToken }),
    ({ deliveries }) => deliveries.length === 0,
  )
  printResponse(options, ListDeliveriesResponseSchema, response, () =>
    table(response.deliveries, ROW),
  )
  notePage(response)
})

export const showDelivery = serviceAction<object>(async (service, options, deliveryId) => {
  const response = await service.client(WebhookService).getDelivery({ deliveryId })
  printResponse(options, GetDeliveryResponseSchema, response, () => {
    const { delivery, attempts, request } = response
    return [
      delivery ? fields(delivery, DELIVERY) : '',
      ...(attempts.length === 0 ? [] : [table(attempts, ATTEMPTS)]),
      ...(request ? [requestText(request)] : []),
    ].join('\n\n')
  })
})

/** The request as it is sent, with what is left out named. */
function requestText({ method, url, headers, body }: WebhookRequest): string {
  const lines = headers.map(({ name, value, omission }) => {
    const shown = omission === HeaderOmission.SECRET ? '(secret)' : '(made for each attempt)'
    return `${name}: ${omission === HeaderOmission.UNSPECIFIED ? value : shown}`
  })
  return [`${method} ${url}`, ...lines, '', body].join('\n')
}

export const redeliver = serviceAction<object>(async (service, options, deliveryId) => {
  const response = await service.client(WebhookService).redeliver({ deliveryId })
  const delivery = response.delivery && (await untilAttempted(service, response.delivery))
  const attempted = { ...response, delivery }
  printResponse(options, RedeliverResponseSchema, attempted, () =>
    delivery ? fields(delivery, DELIVERY) : '',
  )
  if (delivery?.status === DeliveryStatus.PENDING) {
    note('The delivery is sent in the background: see inflow webhook delivery.')
  }
})

export const skipDelivery = serviceAction<object>(async (service, options, deliveryId) => {
  const response = await service.client(WebhookService).skipDelivery({ deliveryId })
  printResponse(options, SkipDeliveryResponseSchema, response, () =>
    response.delivery ? fields(response.delivery, DELIVERY) : '',
  )
})

/** The redelivered delivery after its next attempt; as it is if that takes longer than the wait. */
async function untilAttempted(service: Service, redelivered: Delivery): Promise<Delivery> {
  const client = service.client(WebhookService)
  let latest = redelivered
  for (let poll = 0; poll < ATTEMPT_POLLS; poll += 1) {
    await wait(ATTEMPT_POLL_MS)
    const { delivery } = await client.getDelivery({ deliveryId: redelivered.id })
    latest = delivery ?? latest
    if (latest.attemptCount > redelivered.attemptCount) break
  }
  return latest
}

export const recoverDeliveries = serviceAction<{ since: Timestamp }>(
  async (service, options, endpointId) => {
    const { since } = options
    const response = await service
      .client(WebhookService)
      .recover({ endpointId, since }, { timeoutMs: RECOVER_TIMEOUT_MS })
    printResponse(options, RecoverResponseSchema, response, () => '')
    const { recovered } = response
    note(recovered === 1n ? '1 delivery is sent again.' : `${recovered} deliveries are sent again.`)
  },
)
