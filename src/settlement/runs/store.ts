import type { Pool, PoolClient } from 'pg'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { SettlementRequest } from '../settlement.entity.ts'
import { type BalanceKey, FULL_MINOR, type Settlement } from '../settlement.ts'
import type { Fee } from '../terms.ts'

/** The columns of a `SettlementRow`: statements that return settlements select them, and `toSettlement` reads them. */
export const SETTLEMENT_COLUMNS = `id, business_id as "businessId", live, coalesce(request_id, '') as "requestId",
  coalesce((select r.idempotency_key from settlement_request r where r.id = request_id), '') as "idempotencyKey",
  status, forced, round(date_part('epoch', cut_off_at) * 1000) as "cutOffAtMs",
  from_sequence as "fromSequence", to_sequence as "toSequence", scanned_sequence as "scannedSequence",
  fee_flat_minor as "feeFlatMinor", fee_basis_points as "feeBasisPoints", fee_cap_minor as "feeCapMinor",
  transaction_count as "transactionCount", gross_minor as "grossMinor", fees_minor as "feesMinor",
  splits_minor as "splitsMinor", round(date_part('epoch', started_at) * 1000) as "startedAtMs",
  round(date_part('epoch', completed_at) * 1000) as "completedAtMs"`

/** The columns that the driver returns as strings. */
const BIGINTS = [
  ...(['fromSequence', 'toSequence', 'scannedSequence', 'feeFlatMinor', 'feeCapMinor'] as const),
  ...(['transactionCount', 'grossMinor', 'feesMinor', 'splitsMinor'] as const),
] as const

type Bigint = (typeof BIGINTS)[number]

export type SettlementRow = Omit<Settlement, Bigint | 'completedAtMs'> &
  Readonly<Record<Bigint, string>> & { readonly completedAtMs: number | null }

export function toSettlement({ completedAtMs, ...row }: SettlementRow): Settlement {
  const bigints = Object.fromEntries(BIGINTS.map((field) => [field, BigInt(row[field])]))
  return {
    ...row,
    ...(bigints as Readonly<Record<Bigint, bigint>>),
    completedAtMs: completedAtMs ?? undefined,
  }
}

/** Locks a balance until the commit: one transaction at a time starts a settlement of it. */
export async function lockBalance(
  client: PoolClient,
  { businessId, live }: BalanceKey,
): Promise<void> {
  await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `${live ? 'live' : 'test'} settlement of ${businessId}`,
  ])
}

/** The running settlement of a balance; there is at most one. */
export async function findRunning(
  client: PoolClient,
  { businessId, live }: BalanceKey,
): Promise<Settlement | undefined> {
  const { rows } = await client.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where business_id = $1 and live = $2 and status = 'RUNNING'`,
    [businessId, live],
  )
  return rows[0] && toSettlement(rows[0])
}

/**
 * One page of the running settlements, oldest first: all of them, or those that a request for all
 * businesses of a mode waits for (its own, and any that were already running when it was made).
 *
 * @param nowMs without a request, failed settlements that are postponed beyond this time are left out
 * @param after the id of the last settlement of the previous page
 */
export async function listRunning(
  pool: Pool,
  request: SettlementRequest | undefined,
  nowMs: number,
  after: string,
  limit: number,
): Promise<(BalanceKey & { readonly id: string })[]> {
  const { rows } = await pool.query<{ id: string; business_id: string; live: boolean }>(
    `select id, business_id, live from settlement s
      where status = 'RUNNING' and id > $1
        and case when $3::text is null then not exists (
          select from settlement_due d where d.business_id = s.business_id and d.live = s.live
            and d.failures > 0 and d.next_at > $6)
        else request_id = $3 or (live = $4 and started_at <= $5) end
      order by id limit $2`,
    [
      after,
      limit,
      request?.id ?? null,
      request?.live ?? null,
      request?.createdAt ?? null,
      new Date(nowMs),
    ],
  )
  return rows.map(({ id, business_id, live }) => ({ id, businessId: business_id, live }))
}

export async function findByRequest(
  client: Pool | PoolClient,
  requestId: string,
  limit: number,
): Promise<Settlement[]> {
  const { rows } = await client.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where request_id = $1 order by business_id, part limit $2`,
    [requestId, limit],
  )
  return rows.map(toSettlement)
}

/** The events that a settlement of a balance covers: `after` exclusive; undefined if there is no such settlement. */
export async function findRange(
  client: Queryable,
  { businessId, live }: BalanceKey,
  id: string,
): Promise<{ readonly after: bigint; readonly upTo: bigint } | undefined> {
  const { rows } = await client.query<{ after: string; up_to: string }>(
    `select from_sequence as after, to_sequence as up_to from settlement
      where id = $1 and business_id = $2 and live = $3`,
    [id, businessId, live],
  )
  return rows[0] && { after: BigInt(rows[0].after), upTo: BigInt(rows[0].up_to) }
}

/** A settlement to insert. */
interface NewSettlement extends BalanceKey, Fee {
  readonly id: string
  readonly requestId: string | undefined
  readonly forced: boolean
  readonly cutOffAtMs: number
  /** Payments recorded before this time are due. */
  readonly dueBeforeMs: number
  /** No event above this sequence number is due. */
  readonly lastSequence: bigint
  readonly nowMs: number
}

/**
 * Inserts the next settlement of a locked balance. It covers all events from the end of the last
 * settlement to the last event recorded before `dueBeforeMs`. Sequence numbers may deviate slightly
 * from the order of recording: events numbered below the last due one are settled with it.
 *
 * @returns undefined if the range has no unsettled payment, or the request already has its settlement of this business
 */
export async function insertSettlement(
  client: PoolClient,
  settlement: NewSettlement,
): Promise<Settlement | undefined> {
  const { rows } = await client.query<SettlementRow>(
    `with last as (
        select to_sequence, balance_pending_minor, balance_available_minor, balance_fees_minor
        from settlement where business_id = $2 and live = $10
        order by to_sequence desc limit 1
      ), start as (
        select coalesce((select to_sequence from last), -(2::numeric ^ 62)::bigint) as at
      ), final as (
        select business_sequence as at from (
          (select a.business_sequence from archived_entry a
            where a.business_id = $2 and a.live = $10
              and a.business_sequence > (select at from start) and a.business_sequence <= $11
              and a.occurred_at < $12
            order by a.business_sequence desc limit 1)
          union all
          (select l.business_sequence from event_log l
            cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
            where l.business_id = $2 and l.live = $10
              and l.business_sequence > (select at from start) and l.business_sequence <= $11
              and o.occurred_at < $12
              and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
              -- The row of an archived event remains until its partition is dropped.
              and l.position > (select archived from event_retention where id = 1)
            order by l.business_sequence desc limit 1)
        ) event order by business_sequence desc limit 1
      )
      insert into settlement (id, business_id, live, request_id, status, forced, cut_off_at, from_sequence,
        to_sequence, scanned_sequence, fee_flat_minor, fee_basis_points, fee_cap_minor,
        transaction_count, gross_minor, fees_minor, part, started_at, balance_pending_minor, balance_available_minor,
        balance_fees_minor)
      select $1, $2, $10, $3, 'RUNNING', $4, $5, start.at, final.at, start.at, $6, $7, $8, 0, 0, 0,
        (select count(*) from settlement f where f.request_id = $3 and f.business_id = $2
          and f.gross_minor >= ${FULL_MINOR}), $9,
        coalesce((select balance_pending_minor from last), 0),
        coalesce((select balance_available_minor from last), 0),
        coalesce((select balance_fees_minor from last), 0)
      from start cross join final
      where exists (
        (select a.business_sequence, a.occurred_at from archived_entry a
          cross join lateral (select * from transaction where id = a.subject_id offset 0) t
          where a.business_id = $2 and a.live = $10
            and a.business_sequence > (select at from start)
            and a.business_sequence <= (select at from final)
            and a.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
            and t.status = 'SUCCESS' and not exists (select from ledger_posting p
              where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
          order by a.business_sequence limit 1)
        union all
        (select l.business_sequence, o.occurred_at from event_log l
          cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
          cross join lateral (select * from transaction where id = o.subject_id offset 0) t
          where l.business_id = $2 and l.live = $10
            and l.business_sequence > (select at from start)
            and l.business_sequence <= (select at from final)
            and o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
            and t.status = 'SUCCESS' and not exists (select from ledger_posting p
              where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
            and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
            -- The row of an archived event remains until its partition is dropped.
            and l.position > (select archived from event_retention where id = 1)
          order by l.business_sequence limit 1)
      )
      on conflict do nothing
      returning ${SETTLEMENT_COLUMNS}`,
    [
      settlement.id,
      settlement.businessId,
      settlement.requestId ?? null,
      settlement.forced,
      new Date(settlement.cutOffAtMs),
      settlement.feeFlatMinor,
      settlement.feeBasisPoints,
      settlement.feeCapMinor,
      new Date(settlement.nowMs),
      settlement.live,
      settlement.lastSequence,
      new Date(settlement.dueBeforeMs),
    ],
  )
  return rows[0] && toSettlement(rows[0])
}
