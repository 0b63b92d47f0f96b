import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, Option } from 'commander'
import type { Key } from '../../../gen/inflow/business/v1/business_pb.ts'
import {
  BusinessService,
  type IssueKeyResponse,
  IssueKeyResponseSchema,
  ListKeysResponseSchema,
  RevokeKeyResponseSchema,
  type RotateKeyResponse,
  RotateKeyResponseSchema,
  UpdateKeyResponseSchema,
} from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { answer } from '../answer.ts'
import { localTime } from '../local-time.ts'
import {
  addBusinessOption,
  addPageOptions,
  durationSeconds,
  modeName,
  notePage,
  type PageOptions,
  time,
} from '../options.ts'
import { type Column, fields, note, table, within } from '../output.ts'
import { calling } from '../service.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Key>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Begins with', of: ({ prefix }) => prefix },
  { title: 'Mode', of: modeName },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Last used at', of: ({ lastUsedAt }) => localTime.format(lastUsedAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
  { title: 'Works from', of: ({ allowedCidrs }) => allowedCidrs.join(',') || 'anywhere' },
]

const ISSUED: readonly Column<IssueKeyResponse>[] = [
  ...within(COLUMNS, (response: IssueKeyResponse) => response.key),
  { title: 'Secret key', of: ({ secretKey }) => secretKey },
]

const ROTATED: readonly Column<RotateKeyResponse>[] = [
  ...within(COLUMNS, (response: RotateKeyResponse) => response.key),
  { title: 'Secret key', of: ({ secretKey }) => secretKey },
]

const KEY = ['<key-id>', 'the key, as `inflow key list` names it'] as const
const KEY_EXAMPLE = 'key_01jd9w3k6t8v2x4z6b8d0f2h4j'
const ALLOW = '--allow <ranges...>'
const ALLOW_TEXT = 'the only addresses that it works from, such as 203.0.113.0/24'

/** `inflow key` */
export function key(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'issue', {
      summary: 'issue one more secret key, which is shown this once',
      example: 'key issue --test --allow 203.0.113.0/24 --expires-at 2027-01-01T00:00:00Z',
    }),
  )
    .option('--test', 'a test key: it opens accounts at the sandbox, and sees nothing of live mode')
    .option(ALLOW, `${ALLOW_TEXT} (default: anywhere)`)
    .option('--expires-at <time>', 'when it stops working (default: never)', time)
    .action(issueKey)
  addVerb(noun, 'update', {
    summary: 'change from where a key works, within a second',
    example: `key update ${KEY_EXAMPLE} --allow 203.0.113.0/24 2001:db8::/32`,
  })
    .argument(...KEY)
    .addOption(new Option(ALLOW, ALLOW_TEXT).conflicts('anyAddress'))
    .option('--any-address', 'it works from anywhere')
    .action(updateKey)
  addVerb(noun, 'rotate', {
    summary: 'issue a key in the place of another, shown this once; both work for the overlap',
    example: `key rotate ${KEY_EXAMPLE} --overlap 48h`,
  })
    .argument(...KEY)
    .option(
      '--overlap <time>',
      'such as 48h, 30m or 0, at most 30d (default: 24h)',
      durationSeconds,
    )
    .option('--expires-at <time>', 'when the new one stops working (default: never)', time)
    .action(rotateKey)
  addVerb(noun, 'revoke', {
    summary: 'revoke a key; repeating it is safe',
    example: `key revoke ${KEY_EXAMPLE}`,
  })
    .argument(...KEY)
    .action(revokeKey)
  addPageOptions(
    addBusinessOption(
      addVerb(noun, 'list', {
        summary: 'list the keys of a business, newest first',
        example: 'key list --limit 20',
      }),
    ),
  ).action(listKeys)
  addServiceOptions(noun)
}

const SHOWN_ONCE = 'The secret key is shown this once: keep it.'

interface IssueOptions {
  readonly business?: string
  readonly test?: boolean
  readonly allow?: readonly string[]
  readonly expiresAt?: Timestamp
}

const issueKey = calling<IssueOptions>(async (service, options) => {
  const response = await service.client(BusinessService).issueKey({
    businessId: service.business(options.business),
    test: options.test ?? false,
    allowedCidrs: [...(options.allow ?? [])],
    ...(options.expiresAt && { expiresAt: options.expiresAt }),
  })
  answer(options, IssueKeyResponseSchema, response, () => fields(response, ISSUED))
  note(SHOWN_ONCE)
})

interface UpdateOptions {
  readonly allow?: readonly string[]
  readonly anyAddress?: boolean
}

const updateKey = calling<UpdateOptions>(async (service, options, keyId) => {
  const response = await service.client(BusinessService).updateKey({
    keyId,
    allowedCidrs: [...(options.allow ?? [])],
    anyAddress: options.anyAddress ?? false,
  })
  answer(options, UpdateKeyResponseSchema, response, () =>
    response.key ? fields(response.key, COLUMNS) : '',
  )
})

interface RotateOptions {
  readonly overlap?: number
  readonly expiresAt?: Timestamp
}

const rotateKey = calling<RotateOptions>(async (service, options, keyId) => {
  const { overlap, expiresAt } = options
  const response = await service.client(BusinessService).rotateKey({
    keyId,
    ...(overlap !== undefined && { overlap: { seconds: BigInt(overlap) } }),
    ...(expiresAt && { expiresAt }),
  })
  answer(options, RotateKeyResponseSchema, response, () => fields(response, ROTATED))
  note(`${keyId} works until ${localTime.format(response.replaced?.expiresAt)}.`)
  note(SHOWN_ONCE)
})

const revokeKey = calling<object>(async (service, options, keyId) => {
  const response = await service.client(BusinessService).revokeKey({ keyId })
  answer(options, RevokeKeyResponseSchema, response, () =>
    response.key ? fields(response.key, COLUMNS) : '',
  )
})

const listKeys = calling<PageOptions & { business?: string }>(async (service, options) => {
  const businessId = service.business(options.business)
  const { limit: pageSize = 0, pageToken = '' } = options
  const page = { businessId, pageSize, pageToken }
  const response = await service.client(BusinessService).listKeys(page)
  answer(options, ListKeysResponseSchema, response, () => table(response.keys, COLUMNS))
  notePage(response)
})
