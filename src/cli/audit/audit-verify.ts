import { InvalidArgumentError } from 'commander'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { AuditEntry } from '../../../gen/inflow/admin/v1/audit_pb.ts'
import { type Chain, type ChainBreak, createChain } from '../../auth/audit/audit-chain.ts'
import { fromTimestamp } from '../../protobuf/timestamp.ts'
import { EXIT, Failure } from '../failure.ts'
import { jsonText, note, print } from '../output.ts'
import { commandProgress, type Progress } from '../progress.ts'
import { type Service, serviceAction } from '../service-action.ts'

const PAGE_SIZE = 200

/** `inflow audit verify`: recomputes every hash; the service, which has the master key, verifies the MACs. */
export const verifyAudit = serviceAction<{ expectHead?: string }>(async (service, options) => {
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
export function headHash(text: string): string {
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new InvalidArgumentError('Must be 64 hexadecimal digits.')
  return text.toLowerCase()
}
