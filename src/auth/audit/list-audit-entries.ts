import { CLOCK_SKEW_MAX_MS } from '../../core/durations.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { cutScan, invalidPageToken, readPage } from '../../postgres/page-token.ts'
import { bindValues } from '../../postgres/statement.ts'
import type { Actor } from '../caller.ts'
import type { AuditAction } from './append-audit-entry.ts'
import {
  type AuditEntry,
  type AuditKeys,
  auditHash,
  entryText,
  type HashedEntry,
  isAuthenticHead,
  NO_HASH,
} from './audit-hash.ts'

/** The entries to list; an absent field does not filter. Times in epoch milliseconds. */
interface AuditFilter {
  readonly businessId?: string | undefined
  /** The businesses that the caller's token is restricted to. */
  readonly allowed?: readonly string[] | undefined
  readonly actorId?: string | undefined
  readonly action?: string | undefined
  readonly targetId?: string | undefined
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
  readonly oldestFirst: boolean
}

/** The most entries that a page scans; for a restricted token, per business. */
const SCAN_ROWS_MAX = 1_000

/** An entry with the head of the log. In the one row of an empty page, `number` is null. */
interface Row extends StoredEntry {
  readonly headNumber: string
  readonly headHash: string
  readonly headMac: Buffer
  readonly readUpTo: string | null
}

/** An entry as the database states it. */
export interface StoredEntry extends Omit<HashedEntry, 'number'> {
  readonly number: string | null
  readonly hash: string
  readonly mac: Buffer | null
}

/** Returns one page, with the last entry of the whole log at the time of reading. */
export async function listAuditEntries(
  pool: Queryable,
  keys: AuditKeys,
  filter: AuditFilter,
  pageSize: number,
  pageToken: string,
) {
  const page = readPage(pageSize, pageToken, 1)
  const after = page.after?.[0]
  if (after !== undefined && !/^\d{1,18}$/.test(after)) throw invalidPageToken()
  const bounds = await readBounds(pool, filter)
  const rows = await readEntries(pool, filter, bounds, after, page.limit + 1)
  const entries = rows.filter((row) => row.number !== null).map((row) => toEntry(keys, row))
  const [first] = rows
  const { headNumber = 0, headHash = NO_HASH, headMac = Buffer.of() } = first ?? {}
  const stored = { number: BigInt(headNumber), hash: headHash, mac: headMac }
  const { mac: _, ...head } = { ...stored, authentic: isAuthenticHead(keys, stored) }
  const edge = first?.readUpTo && [first.readUpTo]
  return { ...cutScan(entries, page, (entry) => [`${entry.number}`], edge), head }
}

interface Bounds {
  /** A number below all entries of the period. */
  readonly above: bigint
  /** A number above all entries of the period; undefined: the period has no end. */
  readonly below: bigint | undefined
}

/** Finds the numbers around a period. Times rise with numbers, except when a clock is set back. */
async function readBounds(pool: Queryable, { fromMs, toMs }: AuditFilter): Promise<Bounds> {
  if (fromMs === undefined && toMs === undefined) return { above: 0n, below: undefined }
  const { rows } = await pool.query<{ number: string }>('select number from audit_head')
  const end = BigInt(rows[0]?.number ?? 0) + 1n
  return {
    above:
      fromMs === undefined ? 0n : (await firstNumberAt(pool, fromMs - CLOCK_SKEW_MAX_MS, end)) - 1n,
    below:
      toMs === undefined ? undefined : await firstNumberAt(pool, toMs + CLOCK_SKEW_MAX_MS, end),
  }
}

/** Finds the first entry at a time or later, by binary search. @param end the number after the last entry */
async function firstNumberAt(pool: Queryable, atMs: number, end: bigint): Promise<bigint> {
  let low = 1n
  let high = end
  while (low < high) {
    const middle = (low + high) / 2n
    const { rows } = await pool.query<{ earlier: boolean }>({
      name: 'audit-entry-earlier',
      text: 'select at < $2 as earlier from audit_entry where number = $1',
      values: [middle, new Date(atMs)],
    })
    if (rows[0]?.earlier) low = middle + 1n
    else high = middle
  }
  return low
}

/** Reads entries and head in one statement, so that both are of one snapshot. */
async function readEntries(
  pool: Queryable,
  filter: AuditFilter,
  { above, below }: Bounds,
  after: string | undefined,
  limit: number,
): Promise<Row[]> {
  const { values, bind } = bindValues()
  const order = filter.oldestFirst ? 'asc' : 'desc'
  const range = [
    `number > ${bind(above)}`,
    ...(below === undefined ? [] : [`number < ${bind(below)}`]),
    ...(after === undefined ? [] : [`number ${filter.oldestFirst ? '>' : '<'} ${bind(after)}`]),
  ]
  const source = sourceOf(filter, range, order, bind)
  const scanned = source.range.join(' and ')
  const filters = filtersOf(filter, bind).join(' and ')
  const most = bind(limit)
  const result = await pool.query<Row>(
    `with page as materialized (
        select * from (
          select * from ${source.from} where ${scanned} order by number ${order} limit ${SCAN_ROWS_MAX}
        ) candidate where ${filters} order by number ${order} limit ${most}
      ), edge as (
        select case when (select count(*) from page) < ${most} then (
          select number from ${source.from} where ${scanned} order by number ${order}
          offset ${SCAN_ROWS_MAX - 1} limit 1
        ) end as read_up_to
      )
      select h.number as "headNumber", encode(h.hash, 'hex') as "headHash", h.mac as "headMac",
        edge.read_up_to as "readUpTo", e.number,
        round(date_part('epoch', e.at) * 1000) as "atMs", e.actor_kind as "actorKind",
        e.actor_id as "actorId", e.actor_name as "actorName", e.address, e.request_id as "requestId",
        e.action, e.target_kind as "targetKind", e.target_id as "targetId",
        coalesce(e.business_id, '') as "businessId", e.details,
        encode(e.previous_hash, 'hex') as "previousHash", encode(e.hash, 'hex') as hash,
        (select m.mac from audit_mac m where m.number = e.number) as mac
      from audit_head h cross join edge left join page e on true
      order by e.number ${order}`,
    values,
  )
  return result.rows
}

/** Chooses the index to read: that of the filter that usually matches the fewest entries. */
function sourceOf(
  filter: AuditFilter,
  range: readonly string[],
  order: 'asc' | 'desc',
  bind: (value: unknown) => string,
): { readonly from: string; readonly range: readonly string[] } {
  const from = 'audit_entry'
  const { targetId, actorId, action, businessId, allowed } = filter
  const by = (column: string, value: string) => ({
    from,
    range: [`${column} = ${bind(value)}`, ...range],
  })
  if (targetId !== undefined) return by('target_id', targetId)
  if (actorId !== undefined) return by('actor_id', actorId)
  if (businessId !== undefined) return by('business_id', businessId)
  if (action !== undefined) return by('action', action)
  if (allowed === undefined) return { from, range }
  const each = `select e.* from unnest(${bind(allowed)}::text[]) as b(id) cross join lateral (
      select * from audit_entry where business_id = b.id and ${range.join(' and ')}
      order by number ${order} limit ${SCAN_ROWS_MAX}
    ) e`
  return { from: `(${each}) audit_entry`, range: ['true'] }
}

/** The conditions of all filters, applied to the rows that were read. */
function filtersOf(filter: AuditFilter, bind: (value: unknown) => string): readonly string[] {
  const { businessId, allowed, actorId, action, targetId, fromMs, toMs } = filter
  const conditions: string[] = ['true']
  if (allowed !== undefined) conditions.push(`business_id = any(${bind(allowed)})`)
  if (businessId !== undefined) conditions.push(`business_id = ${bind(businessId)}`)
  if (actorId !== undefined) conditions.push(`actor_id = ${bind(actorId)}`)
  if (action !== undefined) conditions.push(`action = ${bind(action)}`)
  if (targetId !== undefined) conditions.push(`target_id = ${bind(targetId)}`)
  if (fromMs !== undefined) conditions.push(`at >= ${bind(new Date(fromMs))}`)
  if (toMs !== undefined) conditions.push(`at < ${bind(new Date(toMs))}`)
  return conditions
}

function toEntry(keys: AuditKeys, row: Row): AuditEntry {
  const { headNumber, headHash, headMac, readUpTo, mac, ...stored } = row
  const entry = { ...stored, number: BigInt(row.number ?? 0) }
  return { ...entry, authentic: isAuthenticEntry(keys, entry, mac) }
}

/** Whether the service appended an entry with exactly this content. */
export function isAuthenticEntry(
  keys: AuditKeys,
  entry: HashedEntry,
  mac: Uint8Array | null,
): boolean {
  return mac !== null && keys.isMacOf(entryText(entry.number, auditHash(entry)), mac)
}

/** Who made a change, as the audit log states it. */
export interface AuditedActor extends Pick<Actor, 'kind' | 'id' | 'name'> {
  /** The number of the entry. */
  readonly number: bigint
}

/** Returns who made the latest change of some actions to a target; undefined: there is no entry. */
export async function findLatestActor(
  on: Queryable,
  actions: readonly AuditAction[],
  targetId: string,
): Promise<AuditedActor | undefined> {
  const { rows } = await on.query<Omit<AuditedActor, 'number'> & { readonly number: string }>({
    name: 'audit-entry-latest-actor',
    text: `select number, actor_kind as kind, actor_id as id, actor_name as name from audit_entry
      where target_id = $1 and action = any ($2::text[]) order by number desc limit 1`,
    values: [targetId, actions],
  })
  const [row] = rows
  return row && { ...row, number: BigInt(row.number) }
}

/** Returns the details, as JSON, of the latest entry with an action and a target. */
export async function findLatestDetails(
  client: Queryable,
  action: AuditAction,
  targetId: string,
): Promise<string | undefined> {
  const { rows } = await client.query<{ details: string }>({
    name: 'audit-entry-latest',
    text: `select details from audit_entry where target_id = $1 and action = $2
      order by number desc limit 1`,
    values: [targetId, action],
  })
  return rows[0]?.details
}
