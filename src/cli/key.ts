import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import type { Key } from '../../gen/inflow/business/v1/business_pb.ts'
import {
  BusinessService,
  type IssueKeyResponse,
  IssueKeyResponseSchema,
  ListKeysResponseSchema,
  RevokeKeyResponseSchema,
} from '../../gen/inflow/business/v1/business_service_pb.ts'
import { answer } from './answer.ts'
import { localTime } from './local-time.ts'
import { addBusinessOption, time } from './options.ts'
import { type Column, fields, note, table, within } from './output.ts'
import { calling } from './service.ts'
import { addServiceOptions, addVerb } from './verb.ts'

const COLUMNS: readonly Column<Key>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Begins with', of: ({ prefix }) => prefix },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
]

const ISSUED: readonly Column<IssueKeyResponse>[] = [
  ...within(COLUMNS, (response: IssueKeyResponse) => response.key),
  { title: 'Secret key', of: ({ secretKey }) => secretKey },
]

/** `inflow key` */
export function key(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'issue', {
      summary: 'issue one more secret key, which is shown this once',
      example: 'key issue --expires-at 2027-01-01T00:00:00Z',
    }),
  )
    .option('--expires-at <time>', 'when it stops working (default: never)', time)
    .action(issueKey)
  addVerb(noun, 'revoke', {
    summary: 'revoke a key; repeating it is safe',
    example: 'key revoke key_01jd9w3k6t8v2x4z6b8d0f2h4j',
  })
    .argument('<key-id>', 'the key, as `inflow key list` names it')
    .action(revokeKey)
  addBusinessOption(
    addVerb(noun, 'list', {
      summary: 'list the keys of a business, newest first',
      example: 'key list',
    }),
  ).action(listKeys)
  addServiceOptions(noun)
}

interface IssueOptions {
  readonly business?: string
  readonly expiresAt?: Timestamp
}

const issueKey = calling<IssueOptions>(async (service, options) => {
  const response = await service.client(BusinessService).issueKey({
    businessId: service.business(options.business),
    ...(options.expiresAt && { expiresAt: options.expiresAt }),
  })
  answer(options, IssueKeyResponseSchema, response, () => fields(response, ISSUED))
  note('The secret key is shown this once: keep it.')
})

const revokeKey = calling<object>(async (service, options, keyId) => {
  const response = await service.client(BusinessService).revokeKey({ keyId })
  answer(options, RevokeKeyResponseSchema, response, () =>
    response.key ? fields(response.key, COLUMNS) : '',
  )
})

const listKeys = calling<{ business?: string }>(async (service, options) => {
  const businessId = service.business(options.business)
  const response = await service.client(BusinessService).listKeys({ businessId })
  answer(options, ListKeysResponseSchema, response, () => table(response.keys, COLUMNS))
})
