import type { Command } from 'commander'
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
import { enumName, localTime, numberFrom } from './options.ts'
import { table } from './output.ts'
import { BUSINESS, MODE, PAGE, rpc } from './rpc-verb.ts'
import { addVerbs } from './verb.ts'

export const ENDPOINT_ID = '<endpoint-id>  the endpoint, as `inflow webhook list` names it'
export const ENDPOINT_EXAMPLE = 'ep_01jd9w3k6t8v2x4z6b8d0f2h4j'

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

/** A text that the request had is not returned. */
const secretNote = (secret: string) =>
  secret === '' ? [] : ['The signing secret is shown only once: store it now.']

const SWITCH_NEXT =
  'Test events are signed with the new text, other events with the one before. Try it with `inflow webhook test`, ' +
  'then let it sign everything with `inflow webhook switch`.'

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

  switch: let the text that \`rotate\` added sign all requests (profile wiaxy)
  ${ENDPOINT_ID}
  ${YES}
  Example: webhook switch ${ENDPOINT_EXAMPLE}`

/** The verbs of `inflow webhook` that work on endpoints. */
export function addEndpointVerbs(noun: Command): void {
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
