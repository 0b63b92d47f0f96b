import type { Pool } from 'pg'
import { type HashedEntry, NO_HASH } from '../audit-hash.ts'
import { cutPage, invalidPageToken, readPage } from '../store/page-token.ts'

/** An entry of the audit log, with its hash: 64 hexadecimal digits. */
export interface AuditEntry extends HashedEntry {
  readonly hash: string
}

/** Which entries to list; what is undefined lets all through. Times in epoch milliseconds. */
export interface AuditFilter {
  readonly businessId: string | undefined
  /** The only businesses that the caller may see entries of. */
  readonly allowed: readonly string[] | undefined
  readonly actorId: string | undefined
  readonly action: string | undefined
  readonly targetId: string | undefined
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  readonly oldestFirst: boolean
}

interface Row {
  head_number: string
  head_hash: string
  /** Null in the one row of an empty page. */
  number: string | null
  at_ms: string
  actor_kind: string
  actor_id: string
  actor_name: string
  address: string
  request_id: string
  action: string
  target_kind: string
  target_id: string
  business_id: string | null
  details: string
  previous_hash: string
  hash: string
}

/** One page, and the last entry of the whole log at the time of reading. */
export async function listAuditEntries(
  pool: Pool,
  filter: AuditFilter,
  pageSize: number,
  pageToken: string,
) {
  const page = readPage(pageSize, pageToken, 1)
  const after = page.after?.[0]
  if (after !== undefined && !/^\d{1,18}$/.test(after)) throw invalidPageToken()
  const rows = await readEntries(pool, filter, after, page.limit + 1)
  const entries = rows.filter((row) => row.number !== null).map(toEntry)
  const [first] = rows
  const head = { number: BigInt(first?.head_number ?? 0), hash: first?.head_hash ?? NO_HASH }
  return { ...cutPage(entries, page, (entry) => [`${entry.number}`]), head }
}

/** In one statement, so that entries and head are of one moment. */
async function readEntries(
  pool: Pool,
  filter: AuditFilter,
  after: string | undefined,
  limit: number,
): Promise<Row[]> {
  const values: unknown[] = []
  const where: string[] = ['true']
  const add = (condition: (place: string) => string, value: unknown): void => {
    if (value !== undefined) where.push(condition(`$${values.push(value)}`))
  }
  add((place) => `business_id = any(${place})`, filter.allowed)
  add((place) => `business_id = ${place}`, filter.businessId)
  add((place) => `actor_id = ${place}`, filter.actorId)
  add((place) => `action = ${place}`, filter.action)
  add((place) => `target_id = ${place}`, filter.targetId)
  add(
    (place) => `at >= ${place}`,
    filter.fromMs === undefined ? undefined : new Date(filter.fromMs),
  )
  add((place) => `at < ${place}`, filter.toMs === undefined ? undefined : new Date(filter.toMs))
  add((place) => `number ${filter.oldestFirst ? '>' : '<'} ${place}`, after)
  const order = filter.oldestFirst ? 'asc' : 'desc'
  const result = await pool.query<Row>(
    `select h.number as head_number, encode(h.hash, 'hex') as head_hash, e.*
      from audit_head h left join (
        select number, (extract(epoch from at) * 1000)::bigint as at_ms, actor_kind, actor_id,
          actor_name, address, request_id, action, target_kind, target_id, business_id, details,
          encode(previous_hash, 'hex') as previous_hash, encode(hash, 'hex') as hash
        from audit_entry where ${where.join(' and ')}
        order by number ${order} limit $${values.push(limit)}
      ) e on true
      order by e.number ${order}`,
    values,
  )
  return result.rows
}

function toEntry(row: Row): AuditEntry {
  return {
    number: BigInt(row.number ?? 0),
    atMs: Number(row.at_ms),
    actorKind: row.actor_kind,
    actorId: row.actor_id,
    actorName: row.actor_name,
    address: row.address,
    requestId: row.request_id,
    action: row.action,
    targetKind: row.target_kind,
    targetId: row.target_id,
    businessId: row.business_id ?? '',
    details: row.details,
    previousHash: row.previous_hash,
    hash: row.hash,
  }
}
