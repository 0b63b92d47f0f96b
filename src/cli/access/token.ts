import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, Option } from 'commander'
import {
  AdminService,
  type IssueTokenResponse,
  IssueTokenResponseSchema,
  ListTokensResponseSchema,
  RevokeTokenResponseSchema,
} from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { Token } from '../../../gen/inflow/admin/v1/token_pb.ts'
import { SCOPES } from '../../auth/caller.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, nextPage, notePage, type PageOptions, time } from '../options.ts'
import { type Column, fields, nestedColumns, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Token>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Name', of: ({ name }) => name },
  { title: 'Prefix', of: ({ prefix }) => prefix },
  { title: 'Scopes', of: ({ scopes }) => scopes.join(' ') },
  { title: 'Businesses', of: ({ businessIds }) => businessIds.join(' ') },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
  { title: 'Last used at', of: ({ lastUsedAt }) => localTime.format(lastUsedAt) },
]

const FULL: readonly Column<Token>[] = [
  ...COLUMNS,
  { title: 'Description', of: ({ description }) => description },
]

const ISSUED: readonly Column<IssueTokenResponse>[] = [
  ...nestedColumns(FULL, (response: IssueTokenResponse) => response.token),
  { title: 'Token', of: ({ secret }) => secret },
]

/** `inflow token` */
export function token(noun: Command): void {
  addVerb(noun, 'issue', {
    summary: 'issue a token for an internal service or an operator; it is shown only once',
    example:
      'token issue --name ledger --scope read events:subscribe \\\n' +
      '    --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --expires-at 2027-01-01T00:00:00Z',
  })
    .requiredOption('--name <name>', 'name of the service or operator that uses the token')
    .addOption(
      new Option('--scope <scopes...>', 'scopes of the token')
        .choices([...SCOPES])
        .makeOptionMandatory(),
    )
    .option('--business <ids...>', 'restrict the token to these businesses (default: all)')
    .option('--description <text>', 'purpose of the token')
    .option('--expires-at <time>', 'expiry of the token (default: never)', time)
    .action(issueToken)
  addVerb(noun, 'revoke', {
    summary: 'revoke a token; safe to repeat',
    example: 'token revoke tok_01jd9w3k6t8v2x4z6b8d0f2h4j',
  })
    .argument('<token-id>', 'id of the token, see `inflow token list`')
    .option(...YES)
    .action(revokeToken)
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list tokens, newest first, including expired and revoked ones',
      example: 'token list --active',
    }).option('--active', 'only those that are neither revoked nor expired'),
  ).action(listTokens)
  addServiceOptions(noun)
}

interface IssueOptions {
  readonly name: string
  readonly scope: readonly string[]
  readonly business?: readonly string[]
  readonly description?: string
  readonly expiresAt?: Timestamp
}

const issueToken = serviceAction<IssueOptions>(async (service, options) => {
  const response = await service.client(AdminService).issueToken({
    name: options.name,
    description: options.description ?? '',
    scopes: [...new Set(options.scope)],
    businessIds: [...new Set(options.business)],
    ...(options.expiresAt && { expiresAt: options.expiresAt }),
  })
  printResponse(options, IssueTokenResponseSchema, response, () => fields(response, ISSUED))
  note('The token is shown only once: store it now.')
})

const revokeToken = serviceAction<YesOption>(async (service, options, tokenId) => {
  await confirmAction(service, options, {
    word: 'revoke',
    target: tokenId,
    effect:
      'Calls with it are refused within a second, for good, and its sessions and streams end.',
  })
  const response = await service.client(AdminService).revokeToken({ tokenId })
  printResponse(options, RevokeTokenResponseSchema, response, () =>
    response.token ? fields(response.token, FULL) : '',
  )
})

const listTokens = serviceAction<PageOptions & { active?: boolean }>(async (service, options) => {
  const { limit: pageSize = 0, active } = options
  const response = await nextPage(
    options,
    (pageToken) =>
      service.client(AdminService).listTokens({ pageSize, pageToken, ...(active && { active }) }),
    ({ tokens }) => tokens.length === 0,
  )
  printResponse(options, ListTokensResponseSchema, response, () => table(response.tokens, COLUMNS))
  notePage(response)
})
