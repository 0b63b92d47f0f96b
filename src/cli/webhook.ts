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
import {
  type Endpoint,
  EndpointSchema,
  LegacySignatureSchema,
} from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import {
  FORMAT_FLAGS,
  type FormatFlags,
  OPTION_FLAGS,
  OPTION_RULES,
  type OptionFlags,
  optionColumns,
  PROFILE,
  REMOVAL_FLAGS,
  readFormat,
  readOptions,
  readTextSecret,
  TEXT_SECRET,
} from './endpoint-options.ts'
import { addListenVerb } from './listen.ts'
import { enumName, localTime, numberFrom } from './options.ts'
import { EXIT, Failure, fields, table } from './output.ts'
import { addRehearseVerb } from './rehearse.ts'
import { BUSINESS, MODE, PAGE, rpc } from './rpc-verb.ts'
import { printResponse, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const ENDPOINT_ID = '<endpoint-id>  the endpoint, as `inflow webhook list` names it'
const ENDPOINT_EXAMPLE = 'ep_01jd9w3k6t8v2x4z6b8d0f2h4j'
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

/** The first line of a response, for a table; --json shows the whole stored response. */
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

const ROW = 'id, live, url=URL, status, Kinds, description, failingSince, Blocked by, createdAt'

const COMPUTED = {
  Kinds: ({ kinds }: Endpoint) => kinds.join(',') || 'all except ACCOUNT_CREATED',
  'Blocked by': ({ options }: Endpoint) => {
    const block = options?.blockedBy
    return block ? `${block.deliveryId} (${block.waitingCount} wait)` : ''
  },
  'Legacy signature': ({ legacySignature }: Endpoint) =>
    legacySignature ? `${enumName(LegacySignatureSchema, legacySignature)} (weak)` : '',
  'Earlier secrets expire': ({ secrets }: Endpoint) =>
    secrets.flatMap(({ expiresAt }) => localTime.format(expiresAt) || []).join(', '),
  ...optionColumns,
}

const ENDPOINT = columnsOf(
  EndpointSchema,
  `${ROW}, disabledAt, disabledReason=Disabled because, profile, Legacy signature, eventName,
  payerAsArray?, concurrency, Earlier secrets expire, Headers, Authentication, Rate limit,
  options.ordered?, Certificate`,
  COMPUTED,
)

const STATISTICS = `endpointId, from=Since, deliveryCount=Deliveries, attemptCount=Attempts,
  deliveredCount=Delivered, failedCount=Failed, pendingCount=Pending,
  oldestPendingAt=Oldest pending, latencyP50Ms=p50 ms, latencyP95Ms=p95 ms`

/** The note about a generated secret. A secret that was in the request is not returned. */
const secretNote = (secret: string) =>
  secret === '' ? [] : ['The signing secret is shown only once: store it now.']

const SWITCH_NEXT =
  'Test events are signed with the new text, and other events with the previous text. Try it with `inflow webhook test`, ' +
  'then use it for all events with `inflow webhook switch`.'

interface EndpointFlags extends OptionFlags, FormatFlags {
  readonly enable?: boolean
  readonly disable?: boolean
}

const CONCURRENCY = { read: numberFrom(1, 50) }

const ENDPOINT_HELP = `
  add: add an endpoint; its signing secret is shown only once
  ${BUSINESS}
  --url <url>!  the URL that events are posted to
  --kind <kinds...>  event kinds, see events kinds (default: all except ACCOUNT_CREATED)
  --description <text>  a description for operators
  --concurrency <count>  concurrent requests, 1 to 50 (default: 10)
  --test  receive events of test mode instead of live mode
  ${PROFILE}
  ${TEXT_SECRET}
  ${FORMAT_FLAGS}
  ${OPTION_FLAGS}
  Example: webhook add --url https://shop.example.com/hooks --kind PAYMENT_NOTIFICATION

  list: list the endpoints of a business, or of all, newest first
  ${BUSINESS}
  --all  of all businesses
  --status <status>  only with this status
  --failing  only those whose latest attempt failed
  ${MODE}
  ${PAGE}
  Example: webhook list --all --failing

  statistics: show how the latest deliveries to each endpoint of a business went, of up to 24 hours
  ${BUSINESS}
  Example: webhook statistics

  remove: remove an endpoint and drop its pending deliveries
  ${ENDPOINT_ID}
  ${YES}
  Example: webhook remove ${ENDPOINT_EXAMPLE}

  update: change an endpoint, or enable one that was disabled
  ${ENDPOINT_ID}
  --url <url>  the URL that events are posted to
  --kind <kinds...>  event kinds
  --all-kinds  all event kinds except ACCOUNT_CREATED
  --description <text>  a description for operators
  --concurrency <count>  concurrent requests, 1 to 50
  --enable  send events to it
  --disable  pause its deliveries
  ${OPTION_FLAGS}
  ${FORMAT_FLAGS}
  ${REMOVAL_FLAGS}
  Example: webhook update ${ENDPOINT_EXAMPLE} --enable

  rotate: create a new signing secret, shown only once; earlier ones also sign during the overlap, or until \`switch\`
  ${ENDPOINT_ID}
  --overlap <time>  how long earlier secrets also sign, such as 48h, 30m or 0 (default: 24h)
  --yes  do not ask before an overlap of 0
  ${TEXT_SECRET}
  Example: webhook rotate ${ENDPOINT_EXAMPLE} --overlap 48h

  switch: sign all requests with the text that \`rotate\` added (profile wiaxy)
  ${ENDPOINT_ID}
  ${YES}
  Example: webhook switch ${ENDPOINT_EXAMPLE}`

/** The verbs of `inflow webhook` that work on endpoints. */
function addEndpointVerbs(noun: Command): void {
  addVerbs(noun, ENDPOINT_HELP, {
    add: rpc(WebhookService.method.createEndpoint, {
      flags: { concurrency: CONCURRENCY, ...OPTION_RULES },
      request: async (options: EndpointFlags) => ({
        options: readOptions(options),
        textSecret: await readTextSecret(options),
      }),
      shows: ENDPOINT,
      also: 'secret',
      notes: ({ secret }) => secretNote(secret),
    }),
    list: rpc(WebhookService.method.listEndpoints, {
      shows({ endpoints }, { all }) {
        const columns = columnsOf(EndpointSchema, all ? `${ROW}, businessId` : ROW, COMPUTED)
        return table(endpoints, columns.list)
      },
    }),
    statistics: rpc(WebhookService.method.getEndpointStatistics, { shows: STATISTICS }),
    remove: rpc(WebhookService.method.deleteEndpoint, {
      confirms: 'Its pending deliveries are dropped.',
      notes: (_response, { endpointId }) => `Removed ${endpointId}.`,
    }),
    update: rpc(WebhookService.method.updateEndpoint, {
      flags: {
        kind: { conflicts: 'allKinds' },
        concurrency: CONCURRENCY,
        enable: { conflicts: 'disable' },
        ...OPTION_RULES,
      },
      request: (options: EndpointFlags) => ({
        options: readOptions(options),
        ...readFormat(options),
        ...((options.enable || options.disable) && { enabled: options.enable === true }),
      }),
      shows: ENDPOINT,
    }),
    rotate: rpc(WebhookService.method.rotateSecret, {
      request: async (options: FormatFlags) => ({ textSecret: await readTextSecret(options) }),
      confirms: ({ overlap }) =>
        overlap?.seconds === 0n
          ? 'Only the new secret signs from now on: a receiver with an earlier one refuses events.'
          : undefined,
      shows: ENDPOINT,
      also: 'secret',
      notes: ({ secret, endpoint }) => [
        ...secretNote(secret),
        ...(endpoint?.secrets[0]?.next ? [SWITCH_NEXT] : []),
      ],
    }),
    switch: rpc(WebhookService.method.switchSecret, {
      confirms:
        'Only the new text signs from now on: a receiver with the one before refuses events.',
      shows: ENDPOINT,
    }),
  })
}

/** A long time-out, because recovering a large backlog takes minutes. */
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
          fields(delivery, DELIVERY.list),
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

/** The request as it is sent, with placeholders for omitted headers. */
function requestText({ method, url, headers, body }: WebhookRequest): string {
  const lines = headers.map(({ name, value, omission }) => {
    const shown = omission === HeaderOmission.SECRET ? '(secret)' : '(made for each attempt)'
    return `${name}: ${omission === HeaderOmission.UNSPECIFIED ? value : shown}`
  })
  return [`${method} ${url}`, ...lines, '', body].join('\n')
}

/** How many times a delivery is polled, for as long as an attempt may take. */
const ATTEMPT_POLLS = 100
const ATTEMPT_POLL_MS = 200

/** Returns a redelivered delivery after its next attempt, or without it if the attempt takes longer than the wait. */
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
