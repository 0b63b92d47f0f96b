import { isRetryable } from '../../postgres/is-retryable.ts'
import type { Book } from '../settlement.ts'
import { readCalendar } from '../terms/terms.ts'
import type { Waiting } from './due-store.ts'
import { listDue } from './list-due.ts'
import { completeRequest, listOpenRequests, type SettlementRequest } from './requests-store.ts'
import {
  type Begin,
  beginSettlement,
  continueSettlement,
  type SettlementContext,
  type WhenBusy,
} from './run-settlement.ts'
import { listRunning } from './store.ts'

/** How far it has come; `later`: what is left failed, or another instance is at it. */
export type Progress = 'done' | 'more' | 'later'

/** One go at everything, in which nobody waits for a business that cannot be settled. */
export interface Run extends SettlementContext {
  /** Whether to go on; asked between one part and the next. */
  readonly goOn: () => boolean
  readonly whenBusy: WhenBusy
  /** Books that failed, and why: they are left alone for the rest of the run. */
  readonly failed: Map<string, unknown>
}

/** What to settle of the businesses that are due. */
interface Options {
  /** undefined: by the schedule. */
  readonly request: SettlementRequest | undefined
  readonly nowMs: number
}

const RUNNING_MAX = 100
const REQUESTS_MAX = 100

/** How many parts of a settlement are worked off before it is the next one's turn: about a second. */
const TURN_PARTS = 10

/** A part is followed by a pause that is three times as long: the database belongs to payments. */
const PAUSE_TIMES = 3
const PAUSE_MAX_MS = 1_000

/** Of two things, how far the one that has come less far is. */
export function further(one: Progress, other: Progress): Progress {
  if (one === 'more' || other === 'more') return 'more'
  return one === 'later' || other === 'later' ? 'later' : 'done'
}

/** Gives each settlement that is not completed a turn: all, or those that a request waits for. */
export async function advanceSettlements(run: Run, request?: SettlementRequest): Promise<Progress> {
  let progress: Progress = 'done'
  for (let after: string | undefined = ''; after !== undefined; ) {
    const running: Awaited<ReturnType<typeof listRunning>> = await listRunning(
      run.pool,
      request,
      after,
      RUNNING_MAX,
    )
    for (const { id, ...book } of running) {
      if (!run.goOn()) return 'more'
      progress = further(progress, await attempt(run, book, () => takeTurn(run, id)))
    }
    after = running.length < RUNNING_MAX ? undefined : running.at(-1)?.id
  }
  return progress
}

/** Begins what is due, one business after the other, and gives each of them a turn. */
export async function settleDue(run: Run, options: Options): Promise<Progress> {
  const { request, nowMs } = options
  let progress: Progress = 'done'
  for await (const { calendar, ...waiting } of listDue(run.pool, nowMs, request?.forced === true)) {
    if (!run.goOn()) return 'more'
    // A request is of one mode; the schedule settles both.
    if (request !== undefined && request.live !== waiting.live) continue
    const cutOffAtMs = request?.forced ? nowMs : calendar.cutOffAt(nowMs)
    const begin = toBegin(request, waiting, cutOffAtMs)
    progress = further(progress, await attempt(run, waiting, () => settleBook(run, begin)))
  }
  return progress
}

/** Goes on with the requests made before a time that did not come to their end. */
export async function takeUpRequests(run: Run, beforeMs: number): Promise<Progress> {
  let progress: Progress = 'done'
  for (let after: string | undefined = ''; after !== undefined; ) {
    const open: SettlementRequest[] = await listOpenRequests(
      run.pool,
      { beforeMs, after },
      REQUESTS_MAX,
    )
    for (const request of open) {
      if (!run.goOn()) return 'more'
      progress = further(progress, await attempt(run, request, () => processRequest(run, request)))
    }
    after = open.length < REQUESTS_MAX ? undefined : open.at(-1)?.id
  }
  return progress
}

/** One turn of a request. What it is for is reckoned at the time it was made, however late it is. */
export async function processRequest(run: Run, request: SettlementRequest): Promise<Progress> {
  const options = { request, nowMs: request.createdAtMs }
  const progress =
    request.businessId === ''
      ? further(await advanceSettlements(run, request), await settleDue(run, options))
      : await settleOne(run, request)
  if (progress === 'done') await completeRequest(run.pool, request.id, run.clock.now())
  return progress
}

/** Whatever becomes of one business, the others are settled; it is told of in the log. */
async function attempt(
  run: Run,
  { businessId, live }: Book,
  work: () => Promise<Progress>,
): Promise<Progress> {
  const book = `${live ? 'live' : 'test'} ${businessId}`
  if (run.failed.has(book)) return 'later'
  try {
    return await work()
  } catch (error) {
    const isTooSlow = (error as { readonly code?: unknown }).code === STATEMENT_TIMEOUT
    // Without the database nobody can be settled.
    if (isRetryable(error) && !isTooSlow) throw error
    run.failed.set(book, error)
    run.log.error({ err: error, businessId, live }, 'settling failed; the others are settled')
    return 'later'
  }
}

const STATEMENT_TIMEOUT = '57014'

async function settleOne(run: Run, request: SettlementRequest): Promise<Progress> {
  const { businessId, live, forced, createdAtMs } = request
  const { terms, calendar } = await readCalendar(run.pool, businessId)
  const cutOffAtMs = forced ? createdAtMs : calendar.cutOffAt(createdAtMs)
  return settleBook(run, toBegin(request, { businessId, live, terms }, cutOffAtMs))
}

function toBegin(
  request: SettlementRequest | undefined,
  { businessId, live, terms }: Omit<Waiting, 'recordedAtMs'>,
  cutOffAtMs: number,
): Begin {
  const { feeFlatMinor, feeBasisPoints, feeCapMinor } = terms
  const fee = { feeFlatMinor, feeBasisPoints, feeCapMinor }
  const forced = request?.forced === true
  return { businessId, live, requestId: request?.id, forced, cutOffAtMs, ...fee }
}

/** A turn of a business: of what runs for it, and then of what is due. */
async function settleBook(run: Run, begin: Begin): Promise<Progress> {
  for (;;) {
    if (!run.goOn()) return 'more'
    const settlement = await beginSettlement(run, begin)
    if (settlement === undefined) return 'done'
    const progress = await takeTurn(run, settlement.id)
    if (progress !== 'done') return progress
    if (settlement.requestId === (begin.requestId ?? '')) return 'done'
  }
}

/** Works off a few parts of a settlement. */
async function takeTurn(run: Run, id: string): Promise<Progress> {
  for (let parts = 0; parts < TURN_PARTS; parts++) {
    const startedAtMs = run.clock.now()
    const state = await continueSettlement(run, id, { whenBusy: run.whenBusy })
    if (state === 'completed') return 'done'
    if (state === 'busy') return 'later'
    if (!run.goOn()) return 'more'
    const tookMs = run.clock.now() - startedAtMs
    const pauseMs = Math.min(PAUSE_TIMES * tookMs, PAUSE_MAX_MS)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
  return 'more'
}
