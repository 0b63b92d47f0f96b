import type { Pool } from 'pg'
import type { Clock } from '../clock.ts'
import { newId } from '../ids.ts'
import type { Gate } from '../store/gate.ts'
import { inTransaction } from '../store/in-transaction.ts'
import { encodeSettlementEvent } from './message.ts'
import {
  completeSettlement,
  insertSettlementEvent,
  lockRunning,
  settleNext,
} from './parts-store.ts'
import type { Book, Settlement } from './settlement.ts'
import { findRunning, insertSettlement, lockBook } from './store.ts'
import type { Fee } from './terms.ts'

export interface SettlementContext {
  readonly pool: Pool
  readonly clock: Clock
  /** What waits for a settlement's row, or for its business, waits here first. */
  readonly gate: Gate
  /** Called after a commit that added an event. */
  readonly published: () => void
}

/** How many events one transaction works off: some twenty milliseconds. */
const EVENTS_MAX = 500

/** What is to be settled of a business. */
export interface Begin extends Book, Fee {
  readonly requestId: string | undefined
  readonly forced: boolean
  /** What was recorded before is due. */
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
  { pool, clock, gate }: SettlementContext,
  begin: Begin,
): Promise<Settlement | undefined> {
  return gate(() =>
    inTransaction(pool, async (client) => {
      await lockBook(client, begin)
      const running = await findRunning(client, begin)
      if (running !== undefined) return running
      const nowMs = clock.now()
      return insertSettlement(client, { ...begin, id: newId('stl', nowMs), nowMs })
    }),
  )
}

/**
 * Works off the next part of a settlement, in one transaction; the last part completes it and
 * tells of it. Parts of one settlement never run at once: they wait for its row.
 *
 * @returns whether it is completed
 */
export async function continueSettlement(
  { pool, clock, gate, published }: SettlementContext,
  id: string,
  eventsMax = EVENTS_MAX,
): Promise<boolean> {
  const told = await gate(() =>
    inTransaction(pool, async (client) => {
      const running = await lockRunning(client, id)
      if (running === undefined) return 'completed before'
      const nowMs = clock.now()
      const after = await settleNext(client, running, eventsMax, nowMs)
      if (after.scannedSequence < after.toSequence) return 'running'
      const completed: Settlement = { ...after, status: 'COMPLETED', completedAtMs: nowMs }
      await completeSettlement(client, id, nowMs)
      // Everything that was due may have been reversed meanwhile: then no money moved.
      if (completed.transactionCount === 0n) return 'nothing'
      const eventId = newId('evt', nowMs)
      const payload = encodeSettlementEvent(completed, eventId, nowMs)
      await insertSettlementEvent(client, completed, { id: eventId, occurredAtMs: nowMs, payload })
      return 'told'
    }),
  )
  if (told === 'told') published()
  return told !== 'running'
}
