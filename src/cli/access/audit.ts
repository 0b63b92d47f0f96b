import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, InvalidArgumentError } from 'commander'
import {
  AdminService,
  ListAuditEntriesResponseSchema,
} from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { AuditEntry } from '../../../gen/inflow/admin/v1/audit_pb.ts'
import { type Chain, type ChainBreak, createChain } from '../../auth/audit/audit-hash.ts'
import { fromTimestamp } from '../../protobuf/values.ts'
import { EXIT, Failure } from '../failure.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, nextPage, notePage, type PageOptions, time } from '../options.ts'
import { type Column, jsonText, note, print, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { commandProgress, type Progress } from '../progress.ts'
import { type Service, serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const ROW: readonly Column<AuditEntry>[] = [
  { title: 'Number', right: true, of: ({ number }) => `${number}` },
  { title: 'At', of: ({ at }) => localTime.format(at) },
  { title: 'Actor', of: ({ actor }) => actor?.name || actor?.id || actor?.kind || '' },
  { title: 'From', of: ({ address }) => address },
  { title: 'Action', of: ({ action }) => action },
  { title: 'Target', of: ({ targetId }) => targetId },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Details', of: ({ details }) => (details === '{}' ? '' : details) },
]

/** `inflow audit` */
export function audit(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list the entries of the audit log, newest first; --json prints every field',
      example: 'audit list --action key.revoke --from 2026-11-01T00:00:00Z',
    })
      .option('--business <id>', 'only entries that concern this business')
      .option('--actor <id>', 'only changes by this token or key')
      .option('--action <action>', 'only this action, such as key.revoke')
      .option('--target <id>', 'only changes of this key, token, endpoint, …')
      .option('--from <time>', 'only entries at this time or later', time)
      .option('--to <time>', 'only entries before this time', time)
      .option('--oldest-first', 'list the oldest entries first'),
  ).action(listEntries)
  addVerb(noun, 'verify', {
    summary:
      'verify that no entry of the audit log was changed, removed, moved or inserted, by hashes and ' +
      'by MACs under the master key; prints the hash of the last entry; otherwise names the first ' +
      'bad entry and exits with 1',
    example: `audit verify --expect-head ${'5f'.repeat(32)}`,
  })
    .option(
      '--expect-head <hash>',
      'a head that an earlier run printed, or the service logged; fails if the log lacks it',
      headHash,
    )
    .action(verifyAudit)
  addServiceOptions(noun)
}

interface ListOptions extends PageOptions {
  readonly business?: string
  readonly actor?: string
  readonly action?: string
  readonly target?: string
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly oldestFirst?: boolean
}

const listEntries = serviceAction<ListOptions>(async (service, options) => {
  const { from, to } = options
  const client = service.client(AdminService)
  const request = {
    businessId: options.business ?? '',
    actorId: options.actor ?? '',
    action: options.action ?? '',
    targetId: options.target ?? '',
    oldestFirst: options.oldestFirst ?? false,
    pageSize: options.limit ?? 0,
    ...(from && { from }),
    ...(to && { to }),
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listAuditEntries({ ...request, pageToken }),
    ({ entries }) => entries.length === 0,
  )
  printResponse(options, ListAuditEntriesResponseSchema, response, () =>
    table(response.entries, ROW),
  )
  notePage(response)
})

const PAGE_SIZE = 200

/** `inflow audit verify`: recomputes every hash; the service, which has the master key, verifies the MACs. */
const verifyAudit = serviceAction<{ expectHead?: string }>(async (service, options) => {
  const chain = createChain()
  const progress = commandProgress(options.json)
  const verified = verifyEntries(service, chain, options.expectHead, progress)
  const { broken, expectedSeen } = await verified.finally(progress.end)
  const head = { number: Number(chain.number), hash: chain.hash }
  const failure = broken
    ? `entry ${broken.number} ${broken.why}`
    : expectedSeen
      ? undefined
      : 'it lacks the expected head: entries were removed at its end, or it was rewritten'
  if (options.json) {
    const first = broken ? { number: Number(broken.number), why: broken.why } : null
    print(jsonText({ intact: failure === undefined, head, broken: first }, 2))
  } else {
    print(`Verified  ${head.number} entries`)
    print(`Head      ${head.hash}`)
  }
  if (failure !== undefined) throw new Failure(EXIT.refused, `the audit log is broken: ${failure}`)
  note(
    'Store the head elsewhere: with --expect-head, a later run proves that it is still complete.',
  )
})

async function verifyEntries(
  service: Service,
  chain: Chain,
  expected: string | undefined,
  progress: Progress,
): Promise<{ readonly broken?: ChainBreak; readonly expectedSeen: boolean }> {
  const admin = service.client(AdminService)
  let expectedSeen = expected === undefined || expected === chain.hash
  let pageToken = ''
  for (;;) {
    const page = await admin.listAuditEntries({ oldestFirst: true, pageSize: PAGE_SIZE, pageToken })
    const { head } = page
    if (head === undefined) {
      const reason = 'verification needs a token that is not restricted to businesses'
      throw new Failure(EXIT.refused, reason)
    }
    for (const entry of page.entries) {
      const broken = chain.follow(toStored(entry))
      if (broken) return { broken, expectedSeen }
      if (entry.hash === expected) expectedSeen = true
    }
    progress.show('verifying entries', Number(chain.number), Number(head.number))
    pageToken = page.nextPageToken
    if (pageToken === '') {
      const broken = chain.end(head)
      return broken ? { broken, expectedSeen } : { expectedSeen }
    }
  }
}

function toStored({ actor, at, ...entry }: AuditEntry) {
  return {
    ...entry,
    atMs: at === undefined ? 0 : fromTimestamp(at),
    actorKind: actor?.kind ?? '',
    actorId: actor?.id ?? '',
    actorName: actor?.name ?? '',
  }
}

/** Parses a hash as `audit verify` prints it. */
function headHash(text: string): string {
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new InvalidArgumentError('Must be 64 hexadecimal digits.')
  return text.toLowerCase()
}
