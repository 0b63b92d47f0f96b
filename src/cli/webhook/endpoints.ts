import {
  DisabledReason,
  type Endpoint,
  EndpointProfile,
  type EndpointStatistics,
  EndpointStatus,
  LegacySignature,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type CreateEndpointResponse,
  CreateEndpointResponseSchema,
  DeleteEndpointResponseSchema,
  GetEndpointStatisticsResponseSchema,
  ListEndpointsResponseSchema,
  type RotateSecretResponse,
  RotateSecretResponseSchema,
  SwitchSecretResponseSchema,
  UpdateEndpointResponseSchema,
  WebhookService,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { confirmAction, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  enumName,
  type ModeOptions,
  modeName,
  modeOf,
  nextPage,
  notePage,
  type PageOptions,
} from '../options.ts'
import { type Column, fields, nestedColumns, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import {
  blockOf,
  type FormatFlags,
  OPTION_COLUMNS,
  type OptionFlags,
  readFormat,
  readOptions,
  readTextSecret,
} from './endpoint-options.ts'

const ROW: readonly Column<Endpoint>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Mode', of: modeName },
  { title: 'URL', of: ({ url }) => url },
  { title: 'Status', of: ({ status }) => enumName(status, EndpointStatus) },
  { title: 'Kinds', of: ({ kinds }) => kinds.join(',') || 'all except ACCOUNT_CREATED' },
  { title: 'Description', of: ({ description }) => description },
  { title: 'Failing since', of: ({ failingSince }) => localTime.format(failingSince) },
  { title: 'Blocked by', of: blockOf },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
]

const COLUMNS: readonly Column<Endpoint>[] = [
  ...ROW,
  { title: 'Disabled at', of: ({ disabledAt }) => localTime.format(disabledAt) },
  {
    title: 'Disabled because',
    of: ({ disabledReason }) => enumName(disabledReason, DisabledReason),
  },
  { title: 'Profile', of: ({ profile }) => enumName(profile, EndpointProfile) },
  {
    title: 'Legacy signature',
    of: ({ legacySignature }) =>
      legacySignature ? `${enumName(legacySignature, LegacySignature)} (weak)` : '',
  },
  { title: 'Event name', of: ({ eventName }) => eventName },
  { title: 'Payer as array', of: ({ payerAsArray }) => (payerAsArray ? 'yes' : '') },
  { title: 'Concurrency', of: ({ concurrency }) => String(concurrency) },
  {
    title: 'Earlier secrets expire',
    of: ({ secrets }) =>
      secrets.flatMap(({ expiresAt }) => localTime.format(expiresAt) || []).join(', '),
  },
  ...nestedColumns(OPTION_COLUMNS, (endpoint: Endpoint) => endpoint.options),
]

const ADDED: readonly Column<CreateEndpointResponse>[] = [
  ...nestedColumns(COLUMNS, (response: CreateEndpointResponse) => response.endpoint),
  { title: 'Secret', of: ({ secret }) => secret },
]

const ROTATED: readonly Column<RotateSecretResponse>[] = [
  ...nestedColumns(COLUMNS, (response: RotateSecretResponse) => response.endpoint),
  { title: 'Secret', of: ({ secret }) => secret },
]

const BUSINESS: Column<Endpoint> = { title: 'Business', of: ({ businessId }) => businessId }

const STATISTICS: readonly Column<EndpointStatistics>[] = [
  { title: 'Endpoint', of: ({ endpointId }) => endpointId },
  { title: 'Since', of: ({ from }) => localTime.format(from) },
  { title: 'Deliveries', right: true, of: ({ deliveryCount }) => `${deliveryCount}` },
  { title: 'Attempts', right: true, of: ({ attemptCount }) => `${attemptCount}` },
  { title: 'Delivered', right: true, of: ({ deliveredCount }) => `${deliveredCount}` },
  { title: 'Failed', right: true, of: ({ failedCount }) => `${failedCount}` },
  { title: 'Pending', right: true, of: ({ pendingCount }) => `${pendingCount}` },
  { title: 'Oldest pending', of: ({ oldestPendingAt }) => localTime.format(oldestPendingAt) },
  { title: 'p50 ms', right: true, of: ({ latencyP50Ms }) => `${latencyP50Ms}` },
  { title: 'p95 ms', right: true, of: ({ latencyP95Ms }) => `${latencyP95Ms}` },
]

const SWITCH_NEXT =
  'Test events are signed with the new text, other events with the one before. Try it with `inflow webhook test`, ' +
  'then let it sign everything with `inflow webhook switch`.'

/** A text that the request had is not returned. */
function noteSecret({ secret }: { readonly secret: string }): void {
  if (secret !== '') note('The signing secret is shown only once: store it now.')
}

interface AddOptions extends OptionFlags, FormatFlags {
  readonly business?: string
  /** The endpoint's URL; that of the service is --service-url here. */
  readonly url: string
  readonly kind?: readonly string[]
  readonly description?: string
  readonly concurrency?: number
  readonly test?: boolean
  readonly profile?: EndpointProfile
}

export const addEndpoint = serviceAction<AddOptions>(async (service, options) => {
  const response = await service.client(WebhookService).createEndpoint({
    businessId: service.business(options.business),
    url: options.url,
    kinds: [...(options.kind ?? [])],
    description: options.description ?? '',
    concurrency: options.concurrency ?? 0,
    test: options.test ?? false,
    options: readOptions(options),
    profile: options.profile ?? EndpointProfile.UNSPECIFIED,
    textSecret: await readTextSecret(options),
    ...readFormat(options),
  })
  printResponse(options, CreateEndpointResponseSchema, response, () => fields(response, ADDED))
  noteSecret(response)
})

interface ListOptions extends PageOptions, ModeOptions {
  readonly business?: string
  readonly all?: boolean
  readonly status?: EndpointStatus
  readonly failing?: boolean
}

export const listEndpoints = serviceAction<ListOptions>(async (service, options) => {
  const client = service.client(WebhookService)
  const request = {
    businessId: options.all ? '' : service.business(options.business),
    ...modeOf(options),
    status: options.status ?? EndpointStatus.UNSPECIFIED,
    ...(options.failing && { failing: true }),
    pageSize: options.limit ?? 0,
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listEndpoints({ ...request, pageToken }),
    ({ endpoints }) => endpoints.length === 0,
  )
  printResponse(options, ListEndpointsResponseSchema, response, () =>
    table(response.endpoints, options.all ? [...ROW, BUSINESS] : ROW),
  )
  notePage(response)
})

export const showStatistics = serviceAction<{ business?: string }>(async (service, options) => {
  const businessId = service.business(options.business)
  const response = await service.client(WebhookService).getEndpointStatistics({ businessId })
  printResponse(options, GetEndpointStatisticsResponseSchema, response, () =>
    table(response.statistics, STATISTICS),
  )
})

export const removeEndpoint = serviceAction<YesOption>(async (service, options, endpointId) => {
  await confirmAction(service, options, {
    word: 'remove',
    target: endpointId,
    effect: 'Its pending deliveries are dropped.',
  })
  const response = await service.client(WebhookService).deleteEndpoint({ endpointId })
  printResponse(options, DeleteEndpointResponseSchema, response, () => '')
  note(`Removed ${endpointId}.`)
})

interface UpdateOptions extends OptionFlags, FormatFlags {
  readonly url?: string
  readonly kind?: readonly string[]
  readonly allKinds?: boolean
  readonly description?: string
  readonly concurrency?: number
  readonly enable?: boolean
  readonly disable?: boolean
}

export const updateEndpoint = serviceAction<UpdateOptions>(async (service, options, endpointId) => {
  const { url, description, concurrency, enable, disable } = options
  const response = await service.client(WebhookService).updateEndpoint({
    endpointId,
    ...(url !== undefined && { url }),
    ...(description !== undefined && { description }),
    ...(concurrency !== undefined && { concurrency }),
    ...((enable || disable) && { enabled: enable === true }),
    kinds: [...(options.kind ?? [])],
    allKinds: options.allKinds ?? false,
    options: readOptions(options),
    ...readFormat(options),
  })
  printResponse(options, UpdateEndpointResponseSchema, response, () =>
    response.endpoint ? fields(response.endpoint, COLUMNS) : '',
  )
})

interface RotateOptions extends YesOption {
  readonly overlap?: number
  readonly textSecretFile?: string
}

export const rotateSecret = serviceAction<RotateOptions>(async (service, options, endpointId) => {
  const { overlap } = options
  if (overlap === 0) {
    await confirmAction(service, options, {
      word: 'rotate',
      target: endpointId,
      effect:
        'Only the new secret signs from now on: a receiver with an earlier one refuses events.',
    })
  }
  const response = await service.client(WebhookService).rotateSecret({
    endpointId,
    ...(overlap !== undefined && { overlap: { seconds: BigInt(overlap) } }),
    textSecret: await readTextSecret(options),
  })
  printResponse(options, RotateSecretResponseSchema, response, () => fields(response, ROTATED))
  noteSecret(response)
  if (response.endpoint?.secrets[0]?.next) note(SWITCH_NEXT)
})

export const switchSecret = serviceAction<YesOption>(async (service, options, endpointId) => {
  await confirmAction(service, options, {
    word: 'switch',
    target: endpointId,
    effect: 'Only the new text signs from now on: a receiver with the one before refuses events.',
  })
  const response = await service.client(WebhookService).switchSecret({ endpointId })
  printResponse(options, SwitchSecretResponseSchema, response, () =>
    response.endpoint ? fields(response.endpoint, COLUMNS) : '',
  )
})
