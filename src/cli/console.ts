import type { Command } from 'commander'
import { PortalLinkSchema } from '../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { SCOPES } from '../auth/caller.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { localTime } from './options.ts'
import { fields, note } from './output.ts'
import { BUSINESS, PAGE, rpc } from './rpc-verb.ts'
import type { Service } from './service-action.ts'
import { addVerbs } from './verb.ts'

const CONSOLE_HELP = `
  link: make a link that signs a browser in once, with the rights of the token in use
  Example: console link`

export function console(noun: Command): void {
  addVerbs(noun, CONSOLE_HELP, {
    link: rpc(SessionService.method.createSignInCode, {
      shows: (response, _options, service) => urlOf(response, service),
      notes: ({ expiresAt }) => `It can be opened once, until ${localTime.format(expiresAt)}.`,
    }),
  })
}

/** The address of a code or a portal link, as the service states it. */
interface Link {
  /** Empty: the service has no PUBLIC_URL. */
  readonly url: string
  readonly urlPath: string
}

/** The URL of a link, from PUBLIC_URL or the local service; otherwise only its path. */
function urlOf({ url, urlPath }: Link, { httpUrl }: Service): string {
  if (url !== '') return url
  if (httpUrl !== undefined) return `${httpUrl}${urlPath}`
  note('Open this path at the address of the HTTP server; PUBLIC_URL of the service states it.')
  return urlPath
}

const LINKS = columnsOf(
  PortalLinkSchema,
  'id, businessId, scopes, description, createdAt, expiresAt, revokedAt, lastUsedAt',
)

const PORTAL_HELP = `
  link: make a link that opens the console for one business; it is shown only once
  ${BUSINESS}
  --ttl <duration>  validity, 1m to 30d (default: 24h)
  --scope <scopes...>  what the link allows (default: read events:subscribe)
  --description <text>  purpose or recipient of the link
  Example: portal link --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --ttl 24h

  list: list portal links, newest first, including expired and revoked ones
  ${PAGE}
  --business <id>  only links of this business
  --active  only links that may still be opened
  Example: portal list --active

  revoke: revoke a portal link and end its sessions; safe to repeat
  <link-id>  id of the link, see \`inflow portal list\`
  ${YES}
  Example: portal revoke plk_01jd9w3k6t8v2x4z6b8d0f2h4j`

export function portal(noun: Command): void {
  addVerbs(noun, PORTAL_HELP, {
    link: rpc(SessionService.method.createPortalLink, {
      flags: { scope: { choices: SCOPES.filter((scope) => scope !== 'admin') } },
      shows: (response, _options, service) => {
        const { portalLink } = response
        return [fields(portalLink, LINKS.list), urlOf(response, service)].join('\n')
      },
      notes: () =>
        'The link is shown only once. It opens the business to all who have it, until it expires or is revoked.',
    }),
    list: rpc(SessionService.method.listPortalLinks, { shows: LINKS }),
    revoke: rpc(SessionService.method.revokePortalLink, {
      confirms: 'The link stops working, and its sessions end within a second.',
      shows: LINKS,
    }),
  })
}

const SESSIONS = `id, active, kind, callerId, name, scopes, businessIds=Businesses, address, createdAt,
  lastUsedAt, expiresAt, revokedAt`

const SESSION_HELP = `
  list: list sessions of the console, newest first
  ${PAGE}
  --active  only sessions that may still be used
  Example: session list --active

  revoke: revoke a session of the console; safe to repeat
  <console-session-id>  id of the session, see \`inflow session list\`
  Example: session revoke ses_01jd9w3k6t8v2x4z6b8d0f2h4j`

export function session(noun: Command): void {
  addVerbs(noun, SESSION_HELP, {
    list: rpc(SessionService.method.listSessions, { shows: SESSIONS }),
    revoke: rpc(SessionService.method.revokeSession, { shows: SESSIONS }),
  })
}
