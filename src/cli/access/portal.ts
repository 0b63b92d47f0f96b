import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { type Command, Option } from 'commander'
import type { PortalLink } from '../../../gen/inflow/session/v1/session_pb.ts'
import {
  CreatePortalLinkResponseSchema,
  ListPortalLinksResponseSchema,
  RevokePortalLinkResponseSchema,
  SessionService,
} from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { SCOPES } from '../../auth/caller.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  addBusinessOption,
  addPageOptions,
  durationSeconds,
  notePage,
  type PageOptions,
} from '../options.ts'
import { type Column, fields, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { urlOf } from './console.ts'

const COLUMNS: readonly Column<PortalLink>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Scopes', of: ({ scopes }) => scopes.join(' ') },
  { title: 'Description', of: ({ description }) => description },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
  { title: 'Last used at', of: ({ lastUsedAt }) => localTime.format(lastUsedAt) },
]

/** `inflow portal` */
export function portal(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'link', {
      summary: 'make a link that opens the console for one business; it is shown only once',
      example: 'portal link --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --ttl 24h',
    }),
  )
    .option('--ttl <duration>', 'validity, 1m to 30d (default: 24h)', durationSeconds)
    .addOption(
      new Option(
        '--scope <scopes...>',
        'what the link allows (default: read events:subscribe)',
      ).choices(SCOPES.filter((scope) => scope !== 'admin')),
    )
    .option('--description <text>', 'purpose of the link, or for whom it is')
    .action(createLink)
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list portal links, newest first, including expired and revoked ones',
      example: 'portal list --active',
    }),
  )
    .option('--business <id>', 'only links of this business')
    .option('--active', 'only links that may still be opened')
    .action(listLinks)
  addVerb(noun, 'revoke', {
    summary: 'revoke a portal link and end its sessions; safe to repeat',
    example: 'portal revoke plk_01jd9w3k6t8v2x4z6b8d0f2h4j',
  })
    .argument('<link-id>', 'id of the link, see `inflow portal list`')
    .option(...YES)
    .action(revokeLink)
  addServiceOptions(noun)
}

interface LinkOptions {
  readonly business?: string
  /** Seconds. */
  readonly ttl?: number
  readonly scope?: readonly string[]
  readonly description?: string
}

const createLink = serviceAction<LinkOptions>(async (service, options) => {
  const { ttl, scope = [], description = '' } = options
  const response = await service.client(SessionService).createPortalLink({
    businessId: service.business(options.business),
    scopes: [...new Set(scope)],
    description,
    ...(ttl !== undefined && { ttl: durationFromMs(ttl * 1_000) }),
  })
  printResponse(options, CreatePortalLinkResponseSchema, response, () => {
    const { portalLink } = response
    return [portalLink ? fields(portalLink, COLUMNS) : '', urlOf(response, service)].join('\n')
  })
  note(
    'The link is shown only once. It opens the business to all who have it, until it expires or is revoked.',
  )
})

interface ListOptions extends PageOptions {
  readonly business?: string
  readonly active?: boolean
}

const listLinks = serviceAction<ListOptions>(async (service, options) => {
  const { limit: pageSize = 0, pageToken = '', business: businessId = '' } = options
  const activeOnly = options.active === true
  const request = { businessId, activeOnly, pageSize, pageToken }
  const response = await service.client(SessionService).listPortalLinks(request)
  printResponse(options, ListPortalLinksResponseSchema, response, () =>
    table(response.portalLinks, COLUMNS),
  )
  notePage(response)
})

const revokeLink = serviceAction<YesOption>(async (service, options, portalLinkId) => {
  await confirmAction(service, options, {
    word: 'revoke',
    target: portalLinkId,
    effect: 'The link opens nothing any more, and its sessions end within a second.',
  })
  const response = await service.client(SessionService).revokePortalLink({ portalLinkId })
  printResponse(options, RevokePortalLinkResponseSchema, response, () =>
    response.portalLink ? fields(response.portalLink, COLUMNS) : '',
  )
})
