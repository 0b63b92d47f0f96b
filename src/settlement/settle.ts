import { appendAuditOn } from '../audit.ts'
import { getBusiness } from '../businesses/get-business.ts'
import type { Actor } from '../caller.ts'
import { Fault } from '../errors.ts'
import { newId } from '../ids.ts'
import { inTransaction } from '../store/in-transaction.ts'
import type { Database } from '../store/orm.ts'
import { BEFORE_WAITING, listWaiting, type Waiting } from './due-store.ts'
import {
  completeRequest,
  insertRequest,
  readRequest,
  type SettlementRequest,
} from './requests-store.ts'
import {
  type Begin,
  beginSettlement,
  continueSettlement,
  type SettlementContext,
} from './run-settlement.ts'
import { createCalendar } from './schedule.ts'
import type { Book, Settlement } from './settlement.ts'
import { findByRequest } from './store.ts'
import { readCalendar } from './terms.ts'
import { listAllHolidays } from './terms-store.ts'

interface Settle {
  /** Empty: all that are due. */
  readonly businessId: string
  readonly live: boolean
  /** Empty: one is made. */
  readonly requestId: string
  readonly force: boolean
}

/** What a request has come to. */
interface Settled {
  readonly requestId: string
  readonly settlements: readonly Settlement[]
  /** Whether everything that was due then is settled. */
  readonly completed: boolean
}

/** Whether to go on; asked between one part and the next. */
type GoOn = () => boolean

/** How long one call works. What is left goes on by itself. */
const WORK_MS = 20_000

const SETTLEMENTS_MAX = 1_000
const WAITING_MAX = 500

/**
 * Settles what a request is for, as far as it comes in its time.
 *
 * @throws Fault not_found (the business), duplicate_request
 */
export async function settle(
  context: SettlementContext & { readonly database: Database },
  wanted: Settle,
  caller: { readonly signal: AbortSignal; readonly actor: Actor },
): Promise<Settled> {
  const { pool, clock, database } = context
  if (wanted.businessId !== '') await getBusiness(database, wanted.businessId)
  const nowMs = clock.now()
  const request = await keepRequest(context, wanted, caller.actor)
  const { businessId, live, forced } = request
  if (businessId !== wanted.businessId || live !== wanted.live || forced !== wanted.force) {
    throw new Fault('duplicate_request', 'The request id was used to settle something else')
  }
  const untilMs = nowMs + WORK_MS
  const goOn = () => !caller.signal.aborted && clock.now() < untilMs
  const completed = request.isCompleted || (await work(context, request, goOn))
  const settlements = await findByRequest(pool, request.id, SETTLEMENTS_MAX)
  return { requestId: request.id, settlements, completed }
}

/** The request of an id is the first that had it; only that one is new to the audit log. */
function keepRequest(
  { pool, clock }: SettlementContext,
  wanted: Settle,
  actor: Actor,
): Promise<SettlementRequest> {
  const createdAtMs = clock.now()
  const { businessId, live, force: forced } = wanted
  const id = wanted.requestId || newId('str', createdAtMs)
  return inTransaction(pool, async (client) => {
    if (await insertRequest(client, { id, businessId, live, forced, createdAtMs })) {
      await appendAuditOn(client, actor, {
        action: 'settlement.settle',
        targetId: id,
        businessId: businessId || undefined,
        details: { live, forced },
      })
    }
    return readRequest(client, id)
  })
}

/** @returns whether everything was done */
async function work(
  context: SettlementContext,
  request: SettlementRequest,
  goOn: GoOn,
): Promise<boolean> {
  // What a request is for is reckoned at the time it was made, also when it is gone on with later.
  const options = { request, nowMs: request.createdAtMs }
  const done =
    request.businessId === ''
      ? await settleWaiting(context, options, goOn)
      : await settleOne(context, options, request, goOn)
  if (done) await completeRequest(context.pool, request.id, context.clock.now())
  return done
}

interface Options {
  /** undefined: by the schedule. */
  readonly request: SettlementRequest | undefined
  readonly nowMs: number
}

async function settleOne(
  context: SettlementContext,
  options: Options,
  { businessId, live }: Book,
  goOn: GoOn,
): Promise<boolean> {
  const { terms, calendar } = await readCalendar(context.pool, businessId)
  const cutOffAtMs = options.request?.forced ? options.nowMs : calendar.cutOffAt(options.nowMs)
  return settleBusiness(context, toBegin(options, { businessId, live, terms }, cutOffAtMs), goOn)
}

/**
 * Settles every business that is due, one after the other.
 *
 * @returns whether everything was done
 */
export async function settleWaiting(
  context: SettlementContext,
  options: Options,
  goOn: GoOn,
): Promise<boolean> {
  const holidays = await listAllHolidays(context.pool)
  let after: Book | undefined = BEFORE_WAITING
  while (after !== undefined) {
    const { waiting, last }: Awaited<ReturnType<typeof listWaiting>> = await listWaiting(
      context.pool,
      after,
      WAITING_MAX,
    )
    for (const each of waiting) {
      if (!goOn()) return false
      // A request is of one mode; the schedule settles both.
      if (options.request !== undefined && options.request.live !== each.live) continue
      const calendar = createCalendar(each.terms, holidays)
      const forced = options.request?.forced === true
      if (!forced && calendar.settlesAt(each.recordedAtMs) > options.nowMs) continue
      const cutOffAtMs = forced ? options.nowMs : calendar.cutOffAt(options.nowMs)
      if (!(await settleBusiness(context, toBegin(options, each, cutOffAtMs), goOn))) return false
    }
    after = last
  }
  return true
}

function toBegin(
  { request }: Options,
  { businessId, live, terms }: Omit<Waiting, 'recordedAtMs'>,
  cutOffAtMs: number,
): Begin {
  const { feeFlatMinor, feeBasisPoints, feeCapMinor } = terms
  const fee = { feeFlatMinor, feeBasisPoints, feeCapMinor }
  const forced = request?.forced === true
  return { businessId, live, requestId: request?.id, forced, cutOffAtMs, ...fee }
}

/** Ends what runs for a business, and then settles what is due. @returns whether that is done */
async function settleBusiness(
  context: SettlementContext,
  begin: Begin,
  goOn: GoOn,
): Promise<boolean> {
  for (;;) {
    if (!goOn()) return false
    const settlement = await beginSettlement(context, begin)
    if (settlement === undefined) return true
    if (!(await finish(context, settlement.id, goOn))) return false
    if (settlement.requestId === (begin.requestId ?? '')) return true
  }
}

/**
 * Works off a settlement part by part, with a pause after each that is three times as long as the
 * part was: most of the time, the database belongs to payments.
 *
 * @returns whether it is completed
 */
export async function finish(context: SettlementContext, id: string, goOn: GoOn): Promise<boolean> {
  for (;;) {
    const startedAtMs = context.clock.now()
    if (await continueSettlement(context, id)) return true
    if (!goOn()) return false
    const tookMs = context.clock.now() - startedAtMs
    await new Promise((resolve) =>
      setTimeout(resolve, Math.min(PAUSE_TIMES * tookMs, PAUSE_MAX_MS)),
    )
  }
}

const PAUSE_TIMES = 3
const PAUSE_MAX_MS = 1_000
