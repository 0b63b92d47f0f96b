import { type Command, InvalidArgumentError } from 'commander'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { type AuditEntry, AuditEntrySchema } from '../../gen/inflow/admin/v1/audit_pb.ts'
import { type Chain, type ChainBreak, createChain } from '../auth/audit/audit-hash.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { columnsOf } from './columns.ts'
import { EXIT, Failure, jsonText, note, print } from './output.ts'
import { PAGE, rpc } from './rpc-verb.ts'
import { pagesOf, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const ENTRIES = columnsOf(
  AuditEntrySchema,
  'number, at, Actor, address=From, action, targetId, businessId, Details',
  {
    Actor: ({ actor }) => actor?.name || actor?.id || actor?.kind || '',
    Details: ({ details }) => (details === '{}' ? '' : details),
  },
)

const AUDIT_HELP = `
  list: list the entries of the audit log, newest first; --json prints every field
  --business <id>  only entries that concern this business
  --actor <id>  only changes by this token or key
  --action <action>  only this action, such as key.revoke
  --target <id>  only changes of this key, token, endpoint, …
  --from <time>  only entries at this time or later
  --to <time>  only entries before this time
  --oldest-first  list the oldest entries first
  ${PAGE}
  Example: audit list --action key.revoke --from 2026-11-01T00:00:00Z

  verify: verify that no entry of the audit log was changed, removed, moved or inserted, by hashes and by MACs under the master key; prints the hash of the last entry; otherwise names the first bad entry and exits with 1
  --expect-head <hash>  a head that an earlier run printed, or the service logged; fails if the log lacks it
  Example: audit verify --expect-head ${'5f'.repeat(32)}`

export function audit(noun: Command): void {
  addVerbs(noun, AUDIT_HELP, {
    list: rpc(AdminService.method.listAuditEntries, { shows: ENTRIES }),
    verify: calling(verifyAudit, { expectHead: { read: headHash } }),
  })
}

const PAGE_SIZE = 200

/** `inflow audit verify`: recomputes all hashes. The service, which has the master key, verifies the MACs. */
const verifyAudit = serviceAction<{ expectHead?: string }>(async (service, options) => {
  const chain = createChain()
  const { broken, expectedSeen } = await verifyEntries(service, chain, options.expectHead)
  service.progress.end()
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
): Promise<{ readonly broken?: ChainBreak | undefined; readonly expectedSeen: boolean }> {
  const admin = service.client(AdminService)
  let expectedSeen = expected === undefined || expected === chain.hash
  let broken: ChainBreak | undefined
  const pages = pagesOf((pageToken) =>
    admin.listAuditEntries({ oldestFirst: true, pageSize: PAGE_SIZE, pageToken }),
  )
  for await (const { entries, head, nextPageToken } of pages) {
    if (head === undefined) {
      const reason = 'verification needs a token that is not restricted to businesses'
      throw new Failure(EXIT.refused, reason)
    }
    for (const entry of entries) {
      broken = chain.follow(toStored(entry))
      if (broken) return { broken, expectedSeen }
      if (entry.hash === expected) expectedSeen = true
    }
    service.progress.show('verifying entries', Number(chain.number), Number(head.number))
    if (nextPageToken === '') broken = chain.end(head)
  }
  return { broken, expectedSeen }
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

/** Parses a hash in the form that `audit verify` prints. */
function headHash(text: string): string {
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new InvalidArgumentError('Must be 64 hexadecimal digits.')
  return text.toLowerCase()
}
