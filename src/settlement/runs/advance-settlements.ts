import type { Pool } from 'pg'
import { forEachConcurrently } from '../../core/concurrency.ts'
import { errorTypeOf } from '../../core/tracing.ts'
import { isRetryable } from '../../postgres/is-retryable.ts'
import { nameOf } from '../due-index.ts'
import { type SettlementRequest, SettlementRequestEntity } from '../settlement.entity.ts'
import type { BalanceKey } from '../settlement.ts'
import { followPayments, sweepDue } from '../sweep-due.ts'
import { readCalendar, readCalendars, type Terms } from '../terms.ts'
import type { OnLocked } from './batch-store.ts'
import {
  processNextBatch,
  type SettlementContext,
  type SettlementInput,
  startSettlement,
} from './run-settlement.ts'
import { listRunning } from './store.ts'

/** `more`: work is left. `later`: the rest failed, or another instance is processing it. */
export type Progress = 'done' | 'more' | 'later'

/** One run over all settlements. A balance that fails does not hold up the others. */
export interface Run extends SettlementContext {
  /** Called between batches. */
  readonly shouldContinue: () => boolean
  readonly onLocked: OnLocked
  /** The balances that failed, with their errors: the rest of the run skips them. */
  readonly failed: Map<string, unknown>
}

const RUNNING_MAX = 100

const REQUESTS_MAX = 100

/** How many balances an instance settles concurrently. */
const BALANCES_AT_ONCE = 4

/** How many batches of a settlement run before the next settlement's turn: about a second. */
const BATCHES_PER_TURN = 10

/** After each batch the job pauses three times as long as the batch took, so that payments get the database. */
const PAUSE_FACTOR = 3

const PAUSE_MAX_MS = 1_000

/** The lesser progress of two. */
export function leastProgress(one: Progress, other: Progress): Progress {
  if (one === 'more' || other === 'more') return 'more'
  return one === 'later' || other === 'later' ? 'later' : 'done'
}

/** Gives each running settlement a turn; with a request, only the settlements that the request waits for. */
export async function advanceSettlements(run: Run, request?: SettlementRequest): Promise<Progress> {
  let progress: Progress = 'done'
  for (let after: string | undefined = ''; after !== undefined; ) {
    const running: Awaited<ReturnType<typeof listRunning>> = await listRunning(
      run.database.durablePool,
      request,
      run.clock.now(),
      after,
      RUNNING_MAX,
    )
    const advanced = await attemptAll(run, running, async ({ id, ...key }) =>
      request && (await isPostponed(run, key)) ? 'later' : processBatches(run, id),
    )
    progress = leastProgress(progress, advanced)
    after = running.length < RUNNING_MAX ? undefined : running.at(-1)?.id
  }
  return progress
}

/**
 * Claims the balances that are due by the schedule, the longest due first, and settles each
 * for one turn.
 *
 * @param untilMs claims nothing after this time
 */
export async function settleDue(run: Run, untilMs: number): Promise<Progress> {
  const { durablePool } = run.database
  let progress: Progress = 'done'
  while (run.shouldContinue() && run.clock.now() <= untilMs) {
    const claimed = await claimDue(durablePool, run.clock.now())
    if (claimed.length === 0) return progress
    const calendarOf = await readCalendars(
      durablePool,
      new Set(claimed.map((key) => key.businessId)),
    )
    const settled = await attemptAll(run, claimed, (key) => {
      const { terms, calendar } = calendarOf(key.businessId)
      const cutOffAtMs = calendar.cutOffAt(run.clock.now())
      return settleBalance(run, toInput(undefined, { ...key, terms }, cutOffAtMs))
    })
    progress = leastProgress(progress, settled)
  }
  return 'more'
}

/** Settles the balances that a request for all businesses of a mode covers. */
async function settleAll(run: Run, request: SettlementRequest): Promise<Progress> {
  const { forced } = request
  const nowMs = request.createdAt.getTime()
  await followPayments(run)
  // A holiday that was added or removed moves what is due.
  if (!(await sweepDue(run))) return 'more'
  return attemptAll(run, listDue(run.database.durablePool, request), ({ calendar, ...balance }) => {
    const cutOffAtMs = forced ? nowMs : calendar.cutOffAt(nowMs)
    return settleBalance(run, toInput(request, balance, cutOffAtMs))
  })
}

/** Resumes the uncompleted requests made at or before a time. */
export async function resumeRequests(run: Run, beforeMs: number): Promise<Progress> {
  let progress: Progress = 'done'
  for (let after: string | undefined = ''; after !== undefined; ) {
    const open: SettlementRequest[] = await run.database.orm.em
      .fork()
      .find(
        SettlementRequestEntity,
        { completedAt: null, createdAt: { $lte: new Date(beforeMs) }, id: { $gt: after } },
        { orderBy: { id: 'asc' }, limit: REQUESTS_MAX },
      )
    for (const request of open) {
      if (!run.shouldContinue()) return 'more'
      progress = leastProgress(
        progress,
        await attempt(run, request, () => processRequest(run, request)),
      )
    }
    after = open.length < REQUESTS_MAX ? undefined : open.at(-1)?.id
  }
  return progress
}

/** One turn of a request, which settles the payments that were due at the time of the request. */
export async function processRequest(run: Run, request: SettlementRequest): Promise<Progress> {
  const progress =
    request.businessId === ''
      ? leastProgress(await advanceSettlements(run, request), await settleAll(run, request))
      : await settleRequested(run, request)
  if (progress === 'done') {
    // From now on, a repeated request starts no settlement.
    const open = { id: request.id, completedAt: null }
    const completedAt = new Date(run.clock.now())
    await run.database.orm.em.fork().nativeUpdate(SettlementRequestEntity, open, { completedAt })
  }
  return progress
}

/** Works on several balances concurrently. */
async function attemptAll<Balance extends BalanceKey>(
  run: Run,
  balances: Iterable<Balance> | AsyncIterable<Balance>,
  work: (balance: Balance) => Promise<Progress>,
): Promise<Progress> {
  let progress: Progress = 'done'
  await forEachConcurrently(balances, BALANCES_AT_ONCE, async (balance) => {
    const made = run.shouldContinue() ? await attempt(run, balance, () => work(balance)) : 'more'
    progress = leastProgress(progress, made)
  })
  return progress
}

/** Logs the failure of one balance and postpones it; the others continue. */
async function attempt(
  run: Run,
  { businessId, live }: BalanceKey,
  work: () => Promise<Progress>,
): Promise<Progress> {
  const key = nameOf({ businessId, live })
  if (run.failed.has(key)) return 'later'
  try {
    return await work()
  } catch (error) {
    const isTooSlow = (error as { readonly code?: unknown }).code === STATEMENT_TIMEOUT
    // If the database is unavailable, no balance can be settled.
    if (isRetryable(error) && !isTooSlow) throw error
    run.failed.set(key, error)
    run.log.error(
      { err: error, businessId, live },
      'settlement failed: continuing with other balances',
    )
    if (businessId !== '') {
      await postponeDue(run.database.durablePool, { businessId, live }, run.clock.now())
    }
    return 'later'
  }
}

const STATEMENT_TIMEOUT = '57014'

async function settleRequested(run: Run, request: SettlementRequest): Promise<Progress> {
  const { businessId, live, forced } = request
  const createdAtMs = request.createdAt.getTime()
  const { terms, calendar } = await readCalendar(run.database.durablePool, businessId)
  const cutOffAtMs = forced ? createdAtMs : calendar.cutOffAt(createdAtMs)
  return settleBalance(run, toInput(request, { businessId, live, terms }, cutOffAtMs))
}

function toInput(
  request: SettlementRequest | undefined,
  { businessId, live, terms }: BalanceKey & { readonly terms: Terms },
  cutOffAtMs: number,
): SettlementInput {
  const { feeFlatMinor, feeBasisPoints, feeCapMinor } = terms
  const fee = { feeFlatMinor, feeBasisPoints, feeCapMinor }
  const forced = request?.forced === true
  return { businessId, live, requestId: request?.id, forced, cutOffAtMs, ...fee }
}

/** One turn of a balance: completes its running settlement, then settles the payments that are due. */
async function settleBalance(run: Run, input: SettlementInput): Promise<Progress> {
  if (input.requestId !== undefined && (await isPostponed(run, input))) return 'later'
  for (;;) {
    if (!run.shouldContinue()) return 'more'
    const settlement = await startSettlement(run, input)
    if (settlement === undefined) return 'done'
    const progress = await processBatches(run, settlement.id)
    if (progress !== 'done') return progress
    const { businessId, live } = input
    const fields = { settlement: settlement.id, business_id: businessId, live }
    run.log.info(fields, 'settlement completed')
    if (settlement.requestId === (input.requestId ?? '')) return 'done'
  }
}

/** One turn of a settlement. A turn that another instance takes leaves no span. */
async function processBatches(run: Run, id: string): Promise<Progress> {
  const span = run.tracing?.start('settle', { attributes: { 'inflow.settlement.id': id } })
  try {
    const progress = await processFewBatches(run, id)
    if (progress !== 'later') span?.end()
    return progress
  } catch (error) {
    span?.end(errorTypeOf(error))
    throw error
  }
}

async function processFewBatches(run: Run, id: string): Promise<Progress> {
  for (let batch = 0; batch < BATCHES_PER_TURN; batch++) {
    const startedAtMs = run.clock.now()
    const state = await processNextBatch(run, id, { onLocked: run.onLocked })
    if (state === 'completed') return 'done'
    if (state === 'locked') return 'later'
    if (state === 'full') return 'more'
    if (!run.shouldContinue()) return 'more'
    const tookMs = run.clock.now() - startedAtMs
    const pauseMs = Math.min(PAUSE_FACTOR * tookMs, PAUSE_MAX_MS)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
  return 'more'
}

/** How long a claim keeps other instances off a balance. A crash delays the settlement by this time. */
const LEASE_MS = 30_000

/** The wait after the first failure; it doubles with each further failure. */
const BACKOFF_MIN_MS = 5_000

const BACKOFF_MAX_MS = 600_000

/** The most balances that one claim takes. */
const CLAIMS_MAX = 20

/**
 * Claims the balances that have been due for longest, so that other instances skip them. A claim is not a lock:
 * `lockBalance` prevents two concurrent settlements of a balance.
 */
export async function claimDue(pool: Pool, nowMs: number): Promise<BalanceKey[]> {
  // Not prepared: a plan that was made while the table was empty would use a sequential scan.
  const { rows } = await pool.query<{ business_id: string; live: boolean }>(
    `with due as (
        select business_id, live from settlement_due where next_at <= $1
        order by next_at limit ${CLAIMS_MAX} for update skip locked
      )
      update settlement_due d set next_at = $2 from due
      where d.business_id = due.business_id and d.live = due.live
      returning d.business_id, d.live`,
    [new Date(nowMs), new Date(nowMs + LEASE_MS)],
  )
  return rows.map(({ business_id, live }) => ({ businessId: business_id, live }))
}

/** Whether the job waits before it tries a balance again that failed. The call of an operator tries it at once. */
async function isPostponed(run: Run, { businessId, live }: BalanceKey): Promise<boolean> {
  if (run.onLocked === 'wait') return false
  const { rows } = await run.database.durablePool.query(
    'select from settlement_due where business_id = $1 and live = $2 and failures > 0 and next_at > $3',
    [businessId, live, new Date(run.clock.now())],
  )
  return rows.length > 0
}

/** Postpones a balance that could not be settled. Adds it to the index if it is missing. */
export async function postponeDue(
  pool: Pool,
  { businessId, live }: BalanceKey,
  nowMs: number,
): Promise<void> {
  await pool.query(
    `insert into settlement_due as d (business_id, live, due_at, next_at, failures)
      values ($1, $2, $3, $3::timestamptz + $4 * interval '1 ms', 1)
      on conflict (business_id, live) do update set failures = d.failures + 1,
        next_at = $3::timestamptz + least($4 * 2 ^ least(d.failures, 30), $5) * interval '1 ms'`,
    [businessId, live, new Date(nowMs), BACKOFF_MIN_MS, BACKOFF_MAX_MS],
  )
}

const PAGE_MAX = 500

/** The balances of a mode that a request settles, the longest due first. */
async function* listDue(pool: Pool, { live, forced, createdAt }: SettlementRequest) {
  let after: readonly [dueAt: Date | string, businessId: string] | undefined = ['-infinity', '']
  while (after !== undefined) {
    const found: { rows: { businessId: string; dueAt: Date | string }[] } = await pool.query(
      `select business_id as "businessId", due_at as "dueAt" from settlement_due
        where (due_at, business_id, live) > ($1::timestamptz, $2, $3::boolean) and live = $3
          and due_at <= $4::timestamptz
        order by due_at, business_id, live limit $5`,
      [...after, live, forced ? 'infinity' : createdAt, PAGE_MAX],
    )
    const { rows } = found
    const calendarOf = await readCalendars(pool, new Set(rows.map((row) => row.businessId)))
    for (const { businessId } of rows) yield { businessId, live, ...calendarOf(businessId) }
    const last = rows.at(-1)
    after = rows.length < PAGE_MAX || last === undefined ? undefined : [last.dueAt, last.businessId]
  }
}
