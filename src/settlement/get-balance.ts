import { getBusiness } from '../businesses/get-business.ts'
import { Fault } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import { bindValues } from '../postgres/statement.ts'
import { SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './runs/store.ts'
import {
  type Balance,
  type BalanceKey,
  type BalanceRow,
  type Settlement,
  toBalance,
} from './settlement.ts'

/** A balance with the sum that is reserved for payouts. The reserved sum is no longer in the other parts. */
interface CurrentBalance extends Balance {
  readonly reservedMinor: bigint
}

interface ReadBalance extends CurrentBalance {
  readonly isCurrent: boolean
}

/**
 * The current balance of a business, including every committed payment.
 *
 * @throws Fault not_found (the business), unavailable (after a restore, until its events are numbered)
 */
export async function getBalance(database: Database, key: BalanceKey): Promise<CurrentBalance> {
  await getBusiness(database, key.businessId)
  return database.read((on) => readCurrentBalance(on, key))
}

/** @throws Fault unavailable (after a restore, until its events are numbered) */
export async function readCurrentBalance(on: Queryable, key: BalanceKey): Promise<CurrentBalance> {
  return requireCurrent(await readBalance(on, key))
}

/**
 * As `readCurrentBalance`, without what is reserved: the sum takes the longer, the more payouts are open, and the caller holds
 * the lock of the balance.
 *
 * @throws Fault unavailable
 */
export async function readBalanceToReserve(on: Queryable, key: BalanceKey): Promise<Balance> {
  return requireCurrent(await readBalance(on, key, false))
}

/** @throws Fault unavailable */
function requireCurrent({ isCurrent, ...balance }: ReadBalance): CurrentBalance {
  if (!isCurrent) {
    throw new Fault('unavailable', 'The database was restored and its event log is not ready yet', {
      retryAfterSeconds: 1,
    })
  }
  return balance
}

/**
 * The balance is the sum of three parts: the events that the sequencer has numbered, the committed
 * events that have no sequence number yet (from the last milliseconds), and the money that a
 * running settlement has moved so far. One statement reads all three in one snapshot.
 *
 * @param addsReserved false: the reserved sum is not computed, and returned as 0
 * @returns `isCurrent`: false after a restore until the second part is known
 */
export async function readBalance(
  client: Queryable,
  { businessId, live }: BalanceKey,
  addsReserved = true,
): Promise<ReadBalance> {
  const { rows } = await client.query<
    BalanceRow & { readonly reserved_minor: string; readonly is_current: boolean }
  >({
    name: 'balance-read',
    // The two parts from the outbox are the events that were not visible to the last tick: they began after its
    // snapshot, or were in progress then. The index of transaction ids finds them.
    text: `with state as materialized (
        select s.snapshot, s.target, s.done_seq, s.base_seq, s.low_seq, s.restored_seq is null
          and s.system_identifier = c.system_identifier as is_current
        from sequencer s cross join pg_control_system() c
      ), committed as (
        select pending_minor, available_minor, fees_minor from (
          select * from event_business_counter where business_id = $1 and live = $2
          order by last_sequence desc limit 1) newest
        union all
        select o.pending_minor, o.available_minor, o.fees_minor from outbox o, state
          where o.seq > (select low_seq from state)
            and o.xid >= (select pg_snapshot_xmax(snapshot) from state)
            and o.xid < pg_snapshot_xmax(pg_current_snapshot())
            and o.business_id = $1 and o.live = $2
            and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
              and pg_visible_in_snapshot(o.xid, state.target))
        union all
        select o.pending_minor, o.available_minor, o.fees_minor from outbox o, state
          where o.seq > (select low_seq from state)
            and o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
            and o.xid < pg_snapshot_xmax(pg_current_snapshot())
            and o.business_id = $1 and o.live = $2
            and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
              and pg_visible_in_snapshot(o.xid, state.target))
      ), part as (
        select * from committed
        union all
        select -gross_minor, gross_minor - fees_minor - splits_minor, fees_minor from settlement
        where business_id = $1 and live = $2 and status = 'RUNNING'
      )
      select coalesce(sum(pending_minor), 0) as pending_minor,
        coalesce(sum(available_minor), 0) as available_minor,
        coalesce(sum(fees_minor), 0) as fees_minor,
        -- Read in the same snapshot. The function belongs to the payouts domain, which depends on this one.
        case when $3::boolean then (select reserved_minor($1, $2)) else 0 end as reserved_minor,
        (select is_current from state) as is_current
      from part`,
    values: [businessId, live, addsReserved],
  })
  const row = rows[0]
  if (row === undefined) throw new Error('an aggregate query must return a row')
  const reservedMinor = BigInt(row.reserved_minor)
  return { ...toBalance(row), reservedMinor, isCurrent: row.is_current }
}

/**
 * One page of settlements, newest first.
 *
 * @param restriction the businesses that the caller may read; undefined: all
 * @throws Fault validation_failed (the page token)
 */
export async function listSettlements(
  pool: Queryable,
  request: {
    /** Empty: all businesses. */
    readonly businessId: string
    readonly live: boolean | undefined
    /** When the settlements started, in epoch milliseconds. */
    readonly fromMs?: number | undefined
    readonly toMs?: number | undefined
    /** Empty: any. */
    readonly settlementId?: string
    readonly pageSize: number
    readonly pageToken: string
  },
  restriction: ReadonlySet<string> | undefined,
) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { values, bind } = bindValues(page.limit + 1)
  const { businessId, live, fromMs, toMs, settlementId } = request
  // A requested business has already passed the caller's restriction.
  const businesses = businessId === '' ? restriction && [...restriction] : [businessId]
  const businessIds = businesses && bind(businesses)
  // Ids begin with the time at which settlements started.
  const idAt = (atMs: number) => bind(firstIdAt('stl', atMs))
  const range = [
    ...(page.after === undefined ? [] : [` and id < ${bind(page.after[0])}`]),
    ...(fromMs === undefined ? [] : [` and id >= ${idAt(fromMs)}`]),
    ...(toMs === undefined ? [] : [` and id < ${idAt(toMs)}`]),
    ...(settlementId ? [` and id = ${bind(settlementId)}`] : []),
  ].join('')
  // One subquery for each mode and business, so that each reads an index in order.
  const newest = (live === undefined ? [true, false] : [live]).map((mode) => {
    const where = `live = ${mode}${range} order by id desc limit $1`
    if (businessIds === undefined) return `(select * from settlement where ${where})`
    return `(select s.* from unnest(${businessIds}::text[]) as b(id) cross join lateral (
        select * from settlement where business_id = b.id and ${where}) s)`
  })
  const { rows } = await pool.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from (${newest.join(' union all ')}) newest
      order by id desc limit $1`,
    values,
  )
  return cutPage(rows.map(toSettlement), page, (settlement) => [settlement.id])
}

export async function findSettlement(on: Queryable, id: string): Promise<Settlement | undefined> {
  const { rows } = await on.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where id = $1`,
    [id],
  )
  return rows[0] && toSettlement(rows[0])
}
