import type { Pool } from 'pg'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import type { Database } from '../../postgres/orm.ts'
import { type SettlementRequest, SettlementRequestEntity } from '../settlement.entity.ts'
import type { BalanceKey, Settlement } from '../settlement.ts'
import { type Fee, readCalendar } from '../terms.ts'
import { processRequest, type Run } from './advance-settlements.ts'
import type { SettlementContext } from './run-settlement.ts'
import { findByRequest } from './store.ts'

interface SettleInput {
  /** Empty: all businesses that are due. */
  readonly businessId: string
  readonly live: boolean
  /** Empty: an id is generated. */
  readonly requestId: string
  readonly force: boolean
}

/** The current state of a request. */
interface SettleResult {
  readonly requestId: string
  readonly settlements: readonly Settlement[]
  /** Whether all payments that were due at the request are settled. */
  readonly completed: boolean
}

/** How long one call runs. The job continues unfinished work. */
export const CALL_MAX_MS = 20_000

const SETTLEMENTS_MAX = 1_000

/**
 * Processes a settlement request for up to `CALL_MAX_MS`. A forced request for one business settles all payments that were
 * acknowledged before the request.
 *
 * @throws Fault not_found (the business), duplicate_request
 */
export async function settle(
  context: SettlementContext,
  input: SettleInput,
  caller: { readonly signal: AbortSignal; readonly actor: Actor },
): Promise<SettleResult> {
  const { clock, database } = context
  if (input.businessId !== '') await getBusiness(database, input.businessId)
  const nowMs = clock.now()
  const request = await saveRequest(context, input, caller.actor)
  if (request.forced !== input.force) {
    throw new Fault('duplicate_request', 'The request id was already used with other parameters')
  }
  if (input.force && input.businessId !== '') {
    await context.awaitNumbers(input, caller.signal)
  }
  const untilMs = nowMs + CALL_MAX_MS
  const shouldContinue = () => !caller.signal.aborted && clock.now() < untilMs
  const run: Run = { ...context, shouldContinue, onLocked: 'wait', failed: new Map() }
  const completed = Boolean(request.completedAt) || (await processUntilDone(run, request))
  const settlements = await findByRequest(database.durablePool, request.id, SETTLEMENTS_MAX)
  return { requestId: request.idempotencyKey, settlements, completed }
}

/** Returns the first request of the business with this id. Only a new request is added to the audit log. */
function saveRequest(
  { database, clock }: SettlementContext,
  input: SettleInput,
  actor: Actor,
): Promise<SettlementRequest> {
  const nowMs = clock.now()
  const { businessId, live, force: forced } = input
  const id = newId('str', nowMs)
  const idempotencyKey = input.requestId || id
  const createdAt = new Date(nowMs)
  return database.orm.em.fork().transactional(async (em) => {
    const request = await em.upsert(
      SettlementRequestEntity,
      { id, businessId, live, idempotencyKey, forced, createdAt, completedAt: null },
      { onConflictFields: ['businessId', 'live', 'idempotencyKey'], onConflictAction: 'ignore' },
    )
    if (request.id === id) {
      await appendAudit(em, actor, {
        action: 'settlement.settle',
        targetId: idempotencyKey,
        businessId: businessId || undefined,
        details: { live, forced },
      })
    }
    return request
  })
}

/** @returns whether the request is completed */
async function processUntilDone(run: Run, request: SettlementRequest): Promise<boolean> {
  for (;;) {
    const progress = await processRequest(run, request)
    if (progress !== 'more' || !run.shouldContinue()) return progress === 'done'
  }
}

/** The totals that settling a business now would produce. Times in epoch milliseconds. */
interface SettlementPreview extends Preview {
  readonly cutOffAtMs: number
  /** When the oldest unsettled payment is due; undefined if there is none. */
  readonly nextSettlementAtMs: number | undefined
}

/** @throws Fault not_found if the business does not exist */
export async function previewSettlement(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  request: BalanceKey & { readonly force: boolean },
): Promise<SettlementPreview> {
  const { businessId, live, force } = request
  await getBusiness(database, businessId)
  const { terms, calendar } = await readCalendar(database.durablePool, businessId)
  const nowMs = clock.now()
  const cutOffAtMs = force ? nowMs : calendar.cutOffAt(nowMs)
  const preview = await readPreview(
    database.durablePool,
    { businessId, live },
    terms,
    force ? undefined : cutOffAtMs,
  )
  const { oldestRecordedAtMs: oldestMs } = preview
  const nextSettlementAtMs = oldestMs === undefined ? undefined : calendar.settlesAt(oldestMs)
  return { ...preview, cutOffAtMs, nextSettlementAtMs }
}

/** The totals that settling a business would produce. Times in epoch milliseconds. */
interface Preview {
  readonly transactionCount: bigint
  readonly grossMinor: bigint
  readonly feesMinor: bigint
  readonly splitsMinor: bigint
  /** When the oldest unsettled payment was recorded. */
  readonly oldestRecordedAtMs: number | undefined
}

/** @param cutOffAtMs only payments recorded before this time; undefined: all */
export async function readPreview(
  pool: Pool,
  { businessId, live }: BalanceKey,
  terms: Fee,
  cutOffAtMs: number | undefined,
): Promise<Preview> {
  const { rows } = await pool.query<{
    count: string
    gross: string
    fees: string
    splits: string
    recorded_at_ms: number | null
  }>(
    `select count(*) filter (where due) as count,
        coalesce(sum(amount_minor) filter (where due), 0) as gross,
        coalesce(sum(fee_minor) filter (where due), 0) as fees,
        coalesce(sum(split_minor) filter (where due), 0) as splits,
        round(date_part('epoch', min(occurred_at)) * 1000) as recorded_at_ms
      from (
        select rest.amount_minor, f.fee_minor, x.split_minor, e.occurred_at,
          $5::timestamptz is null or e.occurred_at < $5 as due
        from money_event e join transaction t on t.id = e.subject_id
          left join lateral refunded_pending(t.id) r (minor) on true
          cross join lateral (select t.amount_minor - coalesce(r.minor, 0)) rest (amount_minor)
          cross join lateral (select settlement_fee(rest.amount_minor, $2, $3, $4) as fee_minor) f
          cross join lateral (select sum(share_minor) as split_minor
            from split_shares(t.account_id, t.created_at, rest.amount_minor, f.fee_minor)) x
        where e.business_id = $1 and e.live = $6 and e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
          and e.business_sequence > coalesce((
            select scanned_sequence from settlement s where s.business_id = $1 and s.live = $6
            order by to_sequence desc limit 1), -(2::numeric ^ 62)::bigint)
          and t.status = 'SUCCESS' and not exists (select from ledger_posting s
            where s.transaction_id = t.id and s.kind = 'settlement' offset 0)
      ) unsettled`,
    [
      businessId,
      terms.feeFlatMinor,
      terms.feeBasisPoints,
      terms.feeCapMinor,
      cutOffAtMs === undefined ? null : new Date(cutOffAtMs),
      live,
    ],
  )
  const row = rows[0]
  if (row === undefined) throw new Error('an aggregate query must return a row')
  return {
    transactionCount: BigInt(row.count),
    grossMinor: BigInt(row.gross),
    feesMinor: BigInt(row.fees),
    splitsMinor: BigInt(row.splits),
    oldestRecordedAtMs: row.recorded_at_ms ?? undefined,
  }
}
