import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { inTransaction, type Queryable } from '../../postgres/in-transaction.ts'
import type { Semaphore } from '../../postgres/semaphore.ts'
import { encodeSettlementEvent } from '../message.ts'
import { AFTER_ALL, type Book, type Settlement } from '../settlement.ts'
import { lastSequenceBefore } from '../statements/last-sequence.ts'
import { findEnds } from '../statements/store.ts'
import type { Fee } from '../terms/terms.ts'
import { insertSettlementEvent, lockRunning, settleNext } from './parts-store.ts'
import { findRunning, insertSettlement, lockBook } from './store.ts'

export interface SettlementContext {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  /** What waits for a settlement's row, or for its business, waits here first. */
  readonly semaphore: Semaphore
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/** What becomes of a part while somebody else is at the settlement. */
export type WhenBusy = 'wait' | 'skip'

/** How many events one transaction works off: some twenty milliseconds. */
const EVENTS_MAX = 500

/** By how much the clock of another instance may be ahead, when all that was received is asked for. */
const CLOCKS_APART_MS = 60_000

/** How long after it occurred an event gets its number at the latest; usually it is a moment. */
const BOOKED_LATE_MS = 3_600_000

/** What is to be settled of a business. */
export interface Begin extends Book, Fee {
  readonly requestId: string | undefined
  readonly forced: boolean
  /** What was recorded before is due; of what is forced, what was when it was asked for. */
  readonly cutOffAtMs: number
}

/**
 * Begins a settlement of a business. What it is of is fixed from then on, so that it can be gone on
 * with after a crash, by anybody.
 *
 * @returns the one that is running already, if any; undefined when nothing is due, or when the
 * request has had its settlement of this business
 */
export async function beginSettlement(
  { pool, clock, semaphore }: SettlementContext,
  begin: Begin,
): Promise<Settlement | undefined> {
  return semaphore(() =>
    inTransaction(pool, async (client) => {
      await lockBook(client, begin)
      const running = await findRunning(client, begin)
      if (running !== undefined) return running
      const nowMs = clock.now()
      // A request may be gone on with late: what came after it is not what it was for.
      const dueBeforeMs = begin.cutOffAtMs + (begin.forced ? CLOCKS_APART_MS : 0)
      const lastSequence = await lastThatMayBeDue(client, begin, dueBeforeMs, nowMs)
      const id = newId('stl', nowMs)
      return insertSettlement(client, { ...begin, id, dueBeforeMs, lastSequence, nowMs })
    }),
  )
}

/**
 * Where to look for the last event that is due. Without it all the events of the days that are not
 * due yet would be read. An event whose number was later still is of the next settlement.
 */
async function lastThatMayBeDue(
  client: Queryable,
  book: Book,
  dueBeforeMs: number,
  nowMs: number,
): Promise<bigint> {
  const untilMs = dueBeforeMs + BOOKED_LATE_MS
  if (untilMs >= nowMs) return AFTER_ALL
  const ends = await findEnds(client, book)
  return ends === undefined ? AFTER_ALL : lastSequenceBefore(client, book, untilMs, ends)
}

/**
 * Works off the next part of a settlement, in one transaction; the last part completes it and
 * tells of it. Parts of one settlement never run at once: they wait for its row, or leave it.
 */
export async function continueSettlement(
  { pool, clock, semaphore, onCommit }: SettlementContext,
  id: string,
  {
    eventsMax = EVENTS_MAX,
    whenBusy = 'wait',
  }: { readonly eventsMax?: number; readonly whenBusy?: WhenBusy } = {},
): Promise<'running' | 'completed' | 'busy'> {
  const told = await semaphore(() =>
    inTransaction(pool, async (client) => {
      const running = await lockRunning(client, id, whenBusy)
      if (running === 'busy') return 'busy'
      if (running === undefined) return 'completed before'
      const nowMs = clock.now()
      const after = await settleNext(client, running, eventsMax, nowMs)
      if (after.status === 'RUNNING') return 'running'
      // Everything that was due may have been reversed meanwhile: then no money moved.
      if (after.transactionCount === 0n) return 'nothing'
      const eventId = newId('evt', nowMs)
      const payload = encodeSettlementEvent(after, eventId, nowMs)
      await insertSettlementEvent(client, after, { id: eventId, occurredAtMs: nowMs, payload })
      return 'told'
    }),
  )
  if (told === 'told') onCommit()
  return told === 'running' || told === 'busy' ? told : 'completed'
}
