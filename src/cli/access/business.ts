import { type Command, InvalidArgumentError } from 'commander'
import type { Business } from '../../../gen/inflow/business/v1/business_pb.ts'
import {
  BusinessService,
  type CreateBusinessResponse,
  CreateBusinessResponseSchema,
  ListBusinessesResponseSchema,
  UpdateBusinessResponseSchema,
} from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, notePage, type PageOptions } from '../options.ts'
import { type Column, fields, nestedColumns, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Business>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Name', of: ({ name }) => name },
  { title: 'Alias', of: ({ alias }) => alias },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
]

const ALL: readonly Column<Business>[] = [...COLUMNS, { title: 'Rate limit', of: rateLimitText }]

const CREATED: readonly Column<CreateBusinessResponse>[] = [
  ...nestedColumns(COLUMNS, (response: CreateBusinessResponse) => response.business),
  { title: 'Secret key', of: ({ secretKey }) => secretKey },
]

/** `inflow business` */
export function business(noun: Command): void {
  addVerb(noun, 'create', {
    summary: 'create a business and its first secret key, which is shown only once',
    example: 'business create --name "Acme Stores" --alias Acme',
  })
    .requiredOption('--name <name>', 'name, 1 to 100 characters')
    .option('--alias <alias>', 'prefix of account names (default: the name, shortened)')
    .action(createBusiness)
  addVerb(noun, 'update', {
    summary: 'change a business; open accounts keep their names',
    example: 'business update biz_01jd9w3k6t8v2x4z6b8d0f2h4j --alias Acme',
  })
    .argument('<business-id>', 'id of the business, see `inflow business list`')
    .option('--name <name>', 'name, 1 to 100 characters')
    .option('--alias <alias>', 'prefix of account names, 1 to 40 characters without /')
    .option(
      '--rate-limit <limit>',
      'requests per second and burst of each key, such as 500/1000 or 500, or "default"',
      rateLimit,
    )
    .action(updateBusiness)
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list businesses, newest first',
      example: 'business list --limit 20',
    }).option('--query <text>', 'only those whose name or alias begins with it, or whose id it is'),
  ).action(listBusinesses)
  addServiceOptions(noun)
}

const createBusiness = serviceAction<{ name: string; alias?: string }>(async (service, options) => {
  const { name, alias = '' } = options
  const response = await service.client(BusinessService).createBusiness({ name, alias })
  printResponse(options, CreateBusinessResponseSchema, response, () => fields(response, CREATED))
  note('The secret key is shown only once: store it now.')
})

interface UpdateOptions {
  readonly name?: string
  readonly alias?: string
  readonly rateLimit?: { rateLimitPerSecond: number; rateLimitBurst: number }
}

const updateBusiness = serviceAction<UpdateOptions>(async (service, options, businessId) => {
  const { name, alias, rateLimit } = options
  const response = await service.client(BusinessService).updateBusiness({
    businessId,
    ...(name !== undefined && { name }),
    ...(alias !== undefined && { alias }),
    ...rateLimit,
  })
  printResponse(options, UpdateBusinessResponseSchema, response, () =>
    response.business ? fields(response.business, ALL) : '',
  )
})

const listBusinesses = serviceAction<PageOptions & { query?: string }>(async (service, options) => {
  const { limit: pageSize = 0, pageToken = '', query = '' } = options
  const request = { pageSize, pageToken, query }
  const response = await service.client(BusinessService).listBusinesses(request)
  printResponse(options, ListBusinessesResponseSchema, response, () =>
    table(response.businesses, COLUMNS),
  )
  notePage(response)
})

function rateLimitText({ rateLimitPerSecond, rateLimitBurst }: Business): string {
  if (rateLimitPerSecond === 0) return ''
  return rateLimitBurst === 0 ? `${rateLimitPerSecond}` : `${rateLimitPerSecond}/${rateLimitBurst}`
}

/** Parses a rate limit. Without a burst, the burst is reset to its default. */
function rateLimit(text: string) {
  const [, perSecond, burst = '0'] = /^(\d{1,7})(?:\/(\d{1,8}))?$/.exec(text) ?? []
  if (text === 'default') return { rateLimitPerSecond: 0, rateLimitBurst: 0 }
  if (perSecond === undefined) {
    throw new InvalidArgumentError('Must be like 500/1000 or 500, or "default".')
  }
  return { rateLimitPerSecond: Number(perSecond), rateLimitBurst: Number(burst) }
}
