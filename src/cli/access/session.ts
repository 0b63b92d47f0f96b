import type { Command } from 'commander'
import { CallerKind, type Session } from '../../../gen/inflow/session/v1/session_pb.ts'
import {
  ListSessionsResponseSchema,
  RevokeSessionResponseSchema,
  SessionService,
} from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, enumName, notePage, type PageOptions } from '../options.ts'
import { type Column, fields, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Session>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Active', of: ({ active }) => (active ? 'yes' : 'no') },
  { title: 'Kind', of: ({ kind }) => enumName(kind, CallerKind) },
  { title: 'Caller', of: ({ callerId }) => callerId },
  { title: 'Name', of: ({ name }) => name },
  { title: 'Scopes', of: ({ scopes }) => scopes.join(' ') },
  { title: 'Businesses', of: ({ businessIds }) => businessIds.join(' ') },
  { title: 'Address', of: ({ address }) => address },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Last used at', of: ({ lastUsedAt }) => localTime.format(lastUsedAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
]

/** `inflow session` */
export function session(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list sessions of the console, newest first',
      example: 'session list --active',
    }),
  )
    .option('--active', 'only sessions that may still be used')
    .action(listSessions)
  addVerb(noun, 'revoke', {
    summary: 'revoke a session of the console; safe to repeat',
    example: 'session revoke ses_01jd9w3k6t8v2x4z6b8d0f2h4j',
  })
    .argument('<session-id>', 'id of the session, see `inflow session list`')
    .action(revokeSession)
  addServiceOptions(noun)
}

const listSessions = serviceAction<PageOptions & { readonly active?: boolean }>(
  async (service, options) => {
    const { limit: pageSize = 0, pageToken = '' } = options
    const request = { activeOnly: options.active === true, pageSize, pageToken }
    const response = await service.client(SessionService).listSessions(request)
    printResponse(options, ListSessionsResponseSchema, response, () =>
      table(response.sessions, COLUMNS),
    )
    notePage(response)
  },
)

const revokeSession = serviceAction<object>(async (service, options, sessionId) => {
  const response = await service.client(SessionService).revokeSession({ sessionId })
  printResponse(options, RevokeSessionResponseSchema, response, () =>
    response.session ? fields(response.session, COLUMNS) : '',
  )
})
