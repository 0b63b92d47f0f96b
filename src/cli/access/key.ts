import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, Option } from 'commander'
import type { Key } from '../../../gen/inflow/business/v1/business_pb.ts'
import {
  BusinessService,
  ImportKeyResponseSchema,
  type IssueKeyResponse,
  IssueKeyResponseSchema,
  ListKeysResponseSchema,
  RevokeKeyResponseSchema,
  type RotateKeyResponse,
  RotateKeyResponseSchema,
  UpdateKeyResponseSchema,
} from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { KEY_SCOPES, type KeyScope } from '../../auth/caller.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
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
import { type Column, fields, nestedColumns, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { readSecret, readSecretFile } from '../read-secret.ts'
import { type Service, serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Key>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Prefix', of: ({ prefix }) => prefix },
  { title: 'Mode', of: modeName },
  { title: 'Created at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Last used at', of: ({ lastUsedAt }) => localTime.format(lastUsedAt) },
  { title: 'Expires at', of: ({ expiresAt }) => localTime.format(expiresAt) },
  { title: 'Revoked at', of: ({ revokedAt }) => localTime.format(revokedAt) },
  { title: 'Scopes', of: ({ scopes }) => scopes.join(' ') },
  { title: 'Allowed from', of: ({ allowedCidrs }) => allowedCidrs.join(',') || 'anywhere' },
]

const ISSUED: readonly Column<IssueKeyResponse>[] = [
  ...nestedColumns(COLUMNS, (response: IssueKeyResponse) => response.key),
  { title: 'Secret key', of: ({ secretKey }) => secretKey },
]

const ROTATED: readonly Column<RotateKeyResponse>[] = [
  ...nestedColumns(COLUMNS, (response: RotateKeyResponse) => response.key),
  { title: 'Secret key', of: ({ secretKey }) => secretKey },
]

const KEY = ['<key-id>', 'id of the key, see `inflow key list`'] as const
const KEY_EXAMPLE = 'key_01jd9w3k6t8v2x4z6b8d0f2h4j'
const ALLOW = '--allow <ranges...>'
const ALLOW_TEXT = 'allow the key from these addresses only, such as 203.0.113.0/24'

/** `inflow key` */
export function key(noun: Command): void {
  addKeyOptions(
    addVerb(noun, 'issue', {
      summary: 'issue another secret key, which is shown only once',
      example: 'key issue --test --allow 203.0.113.0/24 --expires-at 2027-01-01T00:00:00Z',
    }),
  ).action(issueKey)
  addKeyOptions(
    addVerb(noun, 'import', {
      summary: 'import the key that a business has of another provider; only its hash is stored',
      example: 'key import --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --secret-key-file old-key.txt',
    }),
  )
    .requiredOption('--secret-key-file <path>', 'file of the key, or - for standard input')
    .action(importKey)
  addVerb(noun, 'update', {
    summary: 'change the addresses that a key is allowed from; takes effect within a second',
    example: `key update ${KEY_EXAMPLE} --allow 203.0.113.0/24 2001:db8::/32`,
  })
    .argument(...KEY)
    .addOption(new Option(ALLOW, ALLOW_TEXT).conflicts('anyAddress'))
    .option('--any-address', 'allow the key from any address')
    .action(updateKey)
  addVerb(noun, 'rotate', {
    summary:
      'replace a key with a new one, which is shown only once; both are valid for the overlap',
    example: `key rotate ${KEY_EXAMPLE} --overlap 48h`,
  })
    .argument(...KEY)
    .option(
      '--overlap <time>',
      'how long the old key stays valid, such as 48h, 30m or 0, at most 30d (default: 24h)',
      durationSeconds,
    )
    .option('--expires-at <time>', 'expiry of the new key (default: never)', time)
    .option('--yes', 'do not ask before an overlap of 0')
    .action(rotateKey)
  addVerb(noun, 'revoke', {
    summary: 'revoke a key; safe to repeat',
    example: `key revoke ${KEY_EXAMPLE}`,
  })
    .argument(...KEY)
    .option(...YES)
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

function addKeyOptions(verb: Command): Command {
  return addBusinessOption(verb)
    .option(
      '--test',
      'a test mode key: its accounts are simulated, and it sees nothing of live mode',
    )
    .option(ALLOW, `${ALLOW_TEXT} (default: anywhere)`)
    .addOption(
      new Option(
        '--scope <scopes...>',
        'what the key may be used for (default: open accounts, read payments, events and balances)',
      ).choices(KEY_SCOPES),
    )
    .option('--expires-at <time>', 'expiry of the key (default: never)', time)
}

const SHOWN_ONCE = 'The secret key is shown only once: store it now.'

interface IssueOptions {
  readonly business?: string
  readonly test?: boolean
  readonly allow?: readonly string[]
  readonly scope?: readonly KeyScope[]
  readonly expiresAt?: Timestamp
}

const issueKey = serviceAction<IssueOptions>(async (service, options) => {
  const request = requestOf(service, options)
  const response = await service.client(BusinessService).issueKey(request)
  printResponse(options, IssueKeyResponseSchema, response, () => fields(response, ISSUED))
  note(SHOWN_ONCE)
})

interface ImportOptions extends IssueOptions {
  readonly secretKeyFile: string
}

const importKey = serviceAction<ImportOptions>(async (service, options) => {
  const { secretKeyFile: path } = options
  const secretKey =
    path === '-' ? await readSecret('Secret key') : readSecretFile(path, '--secret-key-file')
  const request = { ...requestOf(service, options), secretKey }
  const response = await service.client(BusinessService).importKey(request)
  printResponse(options, ImportKeyResponseSchema, response, () =>
    response.key ? fields(response.key, COLUMNS) : '',
  )
})

function requestOf(service: Service, options: IssueOptions) {
  return {
    businessId: service.business(options.business),
    test: options.test ?? false,
    allowedCidrs: [...(options.allow ?? [])],
    scopes: [...new Set(options.scope)],
    ...(options.expiresAt && { expiresAt: options.expiresAt }),
  }
}

interface UpdateOptions {
  readonly allow?: readonly string[]
  readonly anyAddress?: boolean
}

const updateKey = serviceAction<UpdateOptions>(async (service, options, keyId) => {
  const response = await service.client(BusinessService).updateKey({
    keyId,
    allowedCidrs: [...(options.allow ?? [])],
    anyAddress: options.anyAddress ?? false,
  })
  printResponse(options, UpdateKeyResponseSchema, response, () =>
    response.key ? fields(response.key, COLUMNS) : '',
  )
})

interface RotateOptions extends YesOption {
  readonly overlap?: number
  readonly expiresAt?: Timestamp
}

const rotateKey = serviceAction<RotateOptions>(async (service, options, keyId) => {
  const { overlap, expiresAt } = options
  if (overlap === 0) {
    await confirmAction(service, options, {
      word: 'rotate',
      target: keyId,
      effect: 'Calls with it are refused at once: only the new key is valid.',
    })
  }
  const response = await service.client(BusinessService).rotateKey({
    keyId,
    ...(overlap !== undefined && { overlap: { seconds: BigInt(overlap) } }),
    ...(expiresAt && { expiresAt }),
  })
  printResponse(options, RotateKeyResponseSchema, response, () => fields(response, ROTATED))
  note(`${keyId} is valid until ${localTime.format(response.replaced?.expiresAt)}.`)
  note(SHOWN_ONCE)
})

const revokeKey = serviceAction<YesOption>(async (service, options, keyId) => {
  await confirmAction(service, options, {
    word: 'revoke',
    target: keyId,
    effect: 'Calls with it are refused within a second, for good.',
  })
  const response = await service.client(BusinessService).revokeKey({ keyId })
  printResponse(options, RevokeKeyResponseSchema, response, () =>
    response.key ? fields(response.key, COLUMNS) : '',
  )
})

const listKeys = serviceAction<PageOptions & { business?: string }>(async (service, options) => {
  const businessId = service.business(options.business)
  const { limit: pageSize = 0, pageToken = '' } = options
  const page = { businessId, pageSize, pageToken }
  const response = await service.client(BusinessService).listKeys(page)
  printResponse(options, ListKeysResponseSchema, response, () => table(response.keys, COLUMNS))
  notePage(response)
})
