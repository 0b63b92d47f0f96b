import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import type { AuditEntry } from '../../gen/inflow/admin/v1/audit_pb.ts'
import { appendAudit } from '../../src/auth/audit/append-audit-entry.ts'
import { createChain } from '../../src/auth/audit/audit-hash.ts'
import { listAuditEntries } from '../../src/auth/audit/list-audit-entries.ts'
import type { Actor } from '../../src/auth/caller.ts'
import { toAuditEntryMessage } from '../../src/auth/rpc.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { tampering } from '../support/database.ts'
import { MASTER_KEY } from '../support/master-key.ts'

export const keys = createEncrypter(MASTER_KEY)

export const OPERATOR: Actor = {
  kind: 'token',
  id: 'tok_1',
  name: 'Ngọzi 😀 "?\' \\',
  address: '::1',
  requestId: 'req_1',
  auditKeys: keys,
}

/** Changes rows with the triggers disabled, as a superuser can. Verification must detect it. */
export async function withoutTriggers(
  pool: Pool,
  ...statements: readonly [string, ...unknown[]][]
): Promise<void> {
  await tampering(pool, async (client) => {
    for (const [sql, ...values] of statements) await client.query(sql, values)
  })
}

/** Appends an entry, as an operator's change does. */
export function append(pool: Pool, targetId: string, actor = OPERATOR): Promise<void> {
  const change = { action: 'key.revoke', targetId } as const
  return inTransaction(pool, (client) => appendAudit(client, actor, change))
}

/** The filter of a list of all entries. */
export const ALL = { oldestFirst: true }

/** The whole log, as the service returns it. */
export async function readAll(pool: Pool, auditKeys = keys) {
  const entries: AuditEntry[] = []
  let pageToken = ''
  for (;;) {
    const page = await listAuditEntries(pool, auditKeys, ALL, 5, pageToken)
    entries.push(...page.rows.map(toAuditEntryMessage))
    pageToken = page.nextPageToken
    if (pageToken === '') return { entries, head: page.head }
  }
}

/** The number of the first bad entry, as `audit verify` finds it; undefined: the log is intact. */
export async function firstBad(pool: Pool, auditKeys = keys): Promise<bigint | undefined> {
  const { entries, head } = await readAll(pool, auditKeys)
  const chain = createChain()
  for (const entry of entries) {
    const { actor, at } = entry
    const { kind: actorKind, id: actorId, name: actorName } = actor!
    const broken = chain.follow({ ...entry, atMs: timestampMs(at!), actorKind, actorId, actorName })
    if (broken) return broken.number
  }
  return chain.end(head as never)?.number
}
