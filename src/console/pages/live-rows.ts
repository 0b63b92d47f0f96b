import type { Transaction } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'

/** The most rows that are kept of those that arrived, both shown and waiting. */
export const LIVE_ROWS_MAX = 200

/** The most rows that are marked as new, when they arrive together, and in all. */
const MARKED_TOGETHER_MAX = 10
const MARKED_MAX = 30

/** Payments that arrived while the list is open. */
export interface LiveRows {
  /** Newest first, above the rows that were read. */
  readonly shown: readonly Transaction[]
  /** Arrived while the viewer reads, newest first. */
  readonly waiting: readonly Transaction[]
  /** How many wait; more than `waiting` has if there were too many. */
  readonly waitingCount: number
  /** Payments that changed since they were read, by id. */
  readonly changed: ReadonlyMap<string, Transaction>
  /** The ids of those that are marked as new; when many arrive together none is, because drawing that costs most. */
  readonly fresh: readonly string[]
  /** Payments are missing between `shown` and the rows that were read, which are then not shown. */
  readonly isCut: boolean
}

export const NO_ROWS: LiveRows = {
  shown: [],
  waiting: [],
  waitingCount: 0,
  changed: new Map(),
  fresh: [],
  isCut: false,
}

interface Arrival {
  /** Newly recorded payments, in the order of their events. */
  readonly recorded: readonly Transaction[]
  /** Payments that changed. */
  readonly changed: readonly Transaction[]
  /** Whether a payment belongs into the list. */
  readonly matches: (payment: Transaction) => boolean
  /** The ids of the rows that were read. */
  readonly known: ReadonlySet<string>
  /** The viewer reads: no row may move. */
  readonly isHeld: boolean
  /** There were more than these. */
  readonly missed: boolean
}

/** Adds payments that arrived. One that is shown already changes in its place. */
export function arrive(rows: LiveRows, arrival: Arrival): LiveRows {
  const { recorded, matches, known, isHeld, missed } = arrival
  const latest = new Map([...recorded, ...arrival.changed].map((each) => [each.id, each]))
  const here = new Set([...rows.shown, ...rows.waiting].map(({ id }) => id))
  const fresh = recorded
    .filter(({ id }) => !here.has(id) && !known.has(id))
    .map(({ id }) => latest.get(id))
    .filter((each) => each !== undefined)
    .filter(matches)
    .reverse()
  const replace = (payment: Transaction) => latest.get(payment.id) ?? payment
  const changed = new Map(rows.changed)
  for (const [id, payment] of latest) if (known.has(id)) changed.set(id, payment)
  const next: LiveRows = {
    shown: rows.shown.map(replace),
    waiting: [...fresh, ...rows.waiting.map(replace)].slice(0, LIVE_ROWS_MAX),
    waitingCount: rows.waitingCount + fresh.length + (missed ? 1 : 0),
    changed: bounded(changed),
    fresh: rows.fresh,
    isCut: rows.isCut,
  }
  return isHeld ? next : release(next)
}

/** Shows what waits. */
export function release(rows: LiveRows): LiveRows {
  if (rows.waitingCount === 0) return rows
  const isGap = rows.waitingCount > rows.waiting.length
  const marked = rows.waitingCount > MARKED_TOGETHER_MAX ? [] : rows.waiting.map(({ id }) => id)
  const all = isGap ? rows.waiting : [...rows.waiting, ...rows.shown]
  return {
    ...rows,
    shown: all.slice(0, LIVE_ROWS_MAX),
    waiting: [],
    waitingCount: 0,
    fresh: [...marked, ...rows.fresh].slice(0, MARKED_MAX),
    isCut: rows.isCut || isGap || all.length > LIVE_ROWS_MAX,
  }
}

/** The rows of the list: what arrived, and below it what was read. */
export function joinRows(rows: LiveRows, read: readonly Transaction[]): readonly Transaction[] {
  if (rows.isCut) return rows.shown
  const ids = new Set(rows.shown.map(({ id }) => id))
  const waiting = new Set(rows.waiting.map(({ id }) => id))
  const below = read
    .filter(({ id }) => !ids.has(id) && !waiting.has(id))
    .map((payment) => rows.changed.get(payment.id) ?? payment)
  return [...rows.shown, ...below]
}

/** Keeps the latest. */
function bounded(changed: ReadonlyMap<string, Transaction>): ReadonlyMap<string, Transaction> {
  if (changed.size <= LIVE_ROWS_MAX) return changed
  return new Map([...changed].slice(-LIVE_ROWS_MAX))
}
