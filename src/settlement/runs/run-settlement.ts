import { CLOCK_SKEW_MAX_MS, HOUR_MS } from '../../core/durations.ts'
import { newId } from '../../core/ids.ts'
import { findSequenceBounds, lastSequenceBefore } from '../../events/business-sequences.ts'
import { inTransaction, type Queryable } from '../../postgres/in-transaction.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { Semaphore } from '../../postgres/semaphore.ts'
import { appendShareEvents } from '../../transactions/share-store.ts'
import { lockDue, refreshDue } from '../due-index.ts'
import { encodeSettlementEvent } from '../message.ts'
import { SETTLEMENT_INTERVAL_MS } from '../schedule.ts'
import { AFTER_ALL, type BalanceKey, FULL_MINOR, type Settlement } from '../settlement.ts'
import type { Fee } from '../terms.ts'
import { insertSettlementEvent, lockRunning, type OnLocked, settleBatch } from './batch-store.ts'
import { findRunning, insertSettlement, lockBalance } from './store.ts'

export interface SettlementContext extends Runtime {
  /** Bounds the transactions that wait for the lock of a settlement or a balance. */
  readonly semaphore: Semaphore
  /** Waits until all committed events of a balance have sequence numbers. */
  readonly awaitNumbers: (key: BalanceKey, signal: AbortSignal) => Promise<void>
}

/** How many events one transaction processes, which takes about twenty milliseconds. */
const EVENTS_MAX = 500

/** The longest delay between an event and its sequence number; normally milliseconds. */
const SEQUENCING_DELAY_MAX_MS = HOUR_MS

/** A settlement of one balance to start. */
export interface SettlementInput extends BalanceKey, Fee {
  readonly requestId: string | undefined
  readonly forced: boolean
  /** Payments recorded before this time are due. If `forced`, it is the time of the request. */
  readonly cutOffAtMs: number
}

/**
 * Starts a settlement of a balance. Its range is fixed from then on, so that any instance can
 * continue it after a crash.
 *
 * @returns the new settlement, or the one that is already running; undefined if no payment is due, or
 * if the request already has its settlement of this business
 */
export async function startSettlement(
  { database, clock, semaphore }: SettlementContext,
  input: SettlementInput,
): Promise<Settlement | undefined> {
  return semaphore(() =>
    inTransaction(database.durablePool, async (client) => {
      await lockBalance(client, input)
      const running = await findRunning(client, input)
      if (running !== undefined) return running
      const nowMs = clock.now()
      // A request may be resumed late: it must not settle payments that arrived after it.
      const dueBeforeMs = input.cutOffAtMs + (input.forced ? CLOCK_SKEW_MAX_MS : 0)
      const lastSequence = await findLastDueSequence(client, input, dueBeforeMs, nowMs)
      const id = newId('stl', nowMs)
      const range = { dueBeforeMs, lastSequence }
      const started = await insertSettlement(client, { ...input, ...range, id, nowMs })
      if (started === undefined) {
        // The balance is in the index too early: its payments were reversed, or a holiday was added. If it is due
        // nevertheless, its payments were numbered so late that they belong to the next settlement.
        await updateDue(client, input, nowMs + SETTLEMENT_INTERVAL_MS)
      }
      return started
    }),
  )
}

/**
 * An upper bound for the sequence number of the last due event. Without it, the query would read
 * all events of the days that are not due yet. An event that was numbered even later belongs to the
 * next settlement.
 */
async function findLastDueSequence(
  client: Queryable,
  key: BalanceKey,
  dueBeforeMs: number,
  nowMs: number,
): Promise<bigint> {
  const untilMs = dueBeforeMs + SEQUENCING_DELAY_MAX_MS
  if (untilMs >= nowMs) return AFTER_ALL
  const bounds = await findSequenceBounds(client, key)
  return bounds === undefined ? AFTER_ALL : lastSequenceBefore(client, key, untilMs, bounds)
}

/**
 * Processes the next batch of a settlement in one transaction, with an event for each business that has shares in
 * its payments. The last batch completes the settlement and appends its event. A row lock keeps two batches of one
 * settlement from running at once: the second one waits or is skipped.
 *
 * @returns `full`: the settlement is completed, and the next settlement continues after it
 */
export async function processNextBatch(
  { database, clock, semaphore, onCommit }: SettlementContext,
  id: string,
  {
    eventsMax = EVENTS_MAX,
    onLocked = 'wait',
  }: { readonly eventsMax?: number; readonly onLocked?: OnLocked } = {},
): Promise<'running' | 'completed' | 'full' | 'locked'> {
  const outcome = await semaphore(() =>
    inTransaction(database.durablePool, async (client) => {
      const running = await lockRunning(client, id, onLocked)
      if (typeof running === 'string') return { state: running } as const
      const nowMs = clock.now()
      const { settlement: after, shares } = await settleBatch(client, running, eventsMax, nowMs)
      const { id: subjectId, businessId: ownerId, live } = after
      const change = { kind: 'SHARE_SETTLED', subjectId, ownerId, live, atMs: nowMs } as const
      await appendShareEvents(client, change, shares)
      const hasShares = shares.length > 0
      if (after.status === 'RUNNING') return { state: 'running', hasEvents: hasShares } as const
      await updateDue(client, after)
      const state = after.grossMinor >= FULL_MINOR ? 'full' : 'completed'
      // If all due payments were reversed since the start, no money moved and there is no event.
      if (after.transactionCount === 0n) return { state } as const
      const eventId = newId('evt', nowMs)
      const payload = encodeSettlementEvent(after, eventId, nowMs)
      await insertSettlementEvent(client, after, { id: eventId, occurredAtMs: nowMs, payload })
      return { state, hasEvents: true } as const
    }),
  )
  if ('hasEvents' in outcome && outcome.hasEvents) onCommit()
  return outcome.state
}

/** Updates the row of a balance in the index to its next unsettled payment. */
async function updateDue(
  client: Queryable,
  { businessId, live }: BalanceKey,
  notBeforeMs?: number,
): Promise<void> {
  await lockDue(client, 'shared')
  await refreshDue(client, [{ businessId, live }], notBeforeMs)
}
