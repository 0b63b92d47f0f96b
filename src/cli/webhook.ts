import type { Command } from 'commander'
import type { Endpoint } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type CreateEndpointResponse,
  CreateEndpointResponseSchema,
  DeleteEndpointResponseSchema,
  ListEndpointsResponseSchema,
  WebhookService,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { answer } from './answer.ts'
import { localTime } from './local-time.ts'
import { addBusinessOption } from './options.ts'
import { type Column, fields, note, table, within } from './output.ts'
import { calling } from './service.ts'
import { addServiceOptions, addVerb } from './verb.ts'

const COLUMNS: readonly Column<Endpoint>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'URL', of: ({ url }) => url },
  { title: 'Kinds', of: ({ kinds }) => kinds.join(',') || 'all but ACCOUNT_CREATED' },
  { title: 'Description', of: ({ description }) => description },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
]

const ADDED: readonly Column<CreateEndpointResponse>[] = [
  ...within(COLUMNS, (response: CreateEndpointResponse) => response.endpoint),
  { title: 'Secret', of: ({ secret }) => secret },
]

/** `inflow webhook` */
export function webhook(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'add', {
      summary: 'add an endpoint; its signing secret is shown this once',
      example: 'webhook add --url https://shop.example.com/hooks --kind PAYMENT_NOTIFICATION',
    }),
  )
    .requiredOption('--url <url>', 'the address that events are posted to')
    .option('--kind <kinds...>', 'kinds of events (default: all but ACCOUNT_CREATED)')
    .option('--description <text>', 'what it is for')
    .action(addEndpoint)
  addBusinessOption(
    addVerb(noun, 'list', {
      summary: 'list the endpoints of a business, newest first',
      example: 'webhook list',
    }),
  ).action(listEndpoints)
  addVerb(noun, 'remove', {
    summary: 'remove an endpoint; what was not delivered to it yet is dropped',
    example: 'webhook remove ep_01jd9w3k6t8v2x4z6b8d0f2h4j',
  })
    .argument('<endpoint-id>', 'the endpoint, as `inflow webhook list` names it')
    .action(removeEndpoint)
  addServiceOptions(noun)
}

interface AddOptions {
  readonly business?: string
  /** The endpoint's; the service's own is --service-url here. */
  readonly url: string
  readonly kind?: readonly string[]
  readonly description?: string
}

const addEndpoint = calling<AddOptions>(async (service, options) => {
  const response = await service.client(WebhookService).createEndpoint({
    businessId: service.business(options.business),
    url: options.url,
    kinds: [...(options.kind ?? [])],
    description: options.description ?? '',
  })
  answer(options, CreateEndpointResponseSchema, response, () => fields(response, ADDED))
  note('The signing secret is shown this once: keep it.')
})

const listEndpoints = calling<{ business?: string }>(async (service, options) => {
  const businessId = service.business(options.business)
  const response = await service.client(WebhookService).listEndpoints({ businessId })
  answer(options, ListEndpointsResponseSchema, response, () => table(response.endpoints, COLUMNS))
})

const removeEndpoint = calling<object>(async (service, options, endpointId) => {
  const response = await service.client(WebhookService).deleteEndpoint({ endpointId })
  answer(options, DeleteEndpointResponseSchema, response, () => '')
  note(`Removed ${endpointId}.`)
})
