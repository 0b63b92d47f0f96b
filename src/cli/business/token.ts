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
import { answer } from '../answer.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, notePage, type PageOptions, time } from '../options.ts'
import { type Column, fields, note, table, within } from '../output.ts'
import { calling } from '../service.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const ROW: readonly Column<Token>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Name', of: ({ name }) => name },
  { title: 'Begins with', of: ({ prefix }) => prefix },
  { title: 'Scopes', of: ({ scopes }) => scopes.join(' ') },
  { title: 'Businesses', of: ({ businessIds }) => businessIds.join(' ') },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
  { title: 'Last used at', of: ({ lastUsedAt }) => localTime.format(lastUsedAt) },
]

const WHOLE: readonly Column<Token>[] = [
  ...ROW,
  { title: 'Description', of: ({ description }) => description },
]

const ISSUED: readonly Column<IssueTokenResponse>[] = [
  ...within(WHOLE, (response: IssueTokenResponse) => response.token),
  { title: 'Token', of: ({ secret }) => secret },
]

/** `inflow token` */
export function token(noun: Command): void {
  addVerb(noun, 'issue', {
    summary: 'issue a token for an internal service or an operator; it is shown this once',
    example:
      'token issue --name ledger --scope read events:subscribe \\\n' +
      '    --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --expires-at 2027-01-01T00:00:00Z',
  })
    .requiredOption('--name <name>', 'whose it is: the name of a service or a person')
    .addOption(
      new Option('--scope <scopes...>', 'what it allows')
        .choices([...SCOPES])
        .makeOptionMandatory(),
    )
    .option('--business <ids...>', 'for these businesses alone (default: for all)')
    .option('--description <text>', 'what it is for')
    .option('--expires-at <time>', 'when it stops working (default: never)', time)
    .action(issueToken)
  addVerb(noun, 'revoke', {
    summary: 'revoke a token; repeating it is safe',
    example: 'token revoke tok_01jd9w3k6t8v2x4z6b8d0f2h4j',
  })
    .argument('<token-id>', 'the token, as `inflow token list` names it')
    .action(revokeToken)
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list tokens, newest first, also those that no longer work',
      example: 'token list',
    }),
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

const issueToken = calling<IssueOptions>(async (service, options) => {
  const response = await service.client(AdminService).issueToken({
    name: options.name,
    description: options.description ?? '',
    scopes: [...new Set(options.scope)],
    businessIds: [...new Set(options.business)],
    ...(options.expiresAt && { expiresAt: options.expiresAt }),
  })
  answer(options, IssueTokenResponseSchema, response, () => fields(response, ISSUED))
  note('The token is shown this once: keep it.')
})

const revokeToken = calling<object>(async (service, options, tokenId) => {
  const response = await service.client(AdminService).revokeToken({ tokenId })
  answer(options, RevokeTokenResponseSchema, response, () =>
    response.token ? fields(response.token, WHOLE) : '',
  )
})

const listTokens = calling<PageOptions>(async (service, options) => {
  const { limit: pageSize = 0, pageToken = '' } = options
  const response = await service.client(AdminService).listTokens({ pageSize, pageToken })
  answer(options, ListTokensResponseSchema, response, () => table(response.tokens, ROW))
  notePage(response)
})
