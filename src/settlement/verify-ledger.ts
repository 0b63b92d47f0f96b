import type { Pool } from 'pg'
import { invalidFields } from '../core/errors.ts'
import { pageTokenOf, partsOf } from '../postgres/page-token.ts'
import {
  type Discrepancy,
  estimateTransactions,
  FIRST_SESSION,
  findOrphanPostings,
  verifySessions,
} from '../transactions/verify-transactions.ts'
import type { BalanceKey } from './settlement.ts'
import {
  findNextBalance,
  found,
  type Part,
  pagesOf,
  readDatabaseTime,
  type VerifyPayouts,
  verifyBalance,
} from './verify-balance.ts'

/** The progress of a verification. */
export interface Verification {
  readonly transactions: number
  /** The estimated number of all transactions, by the statistics of PostgreSQL; 0: unknown. */
  readonly estimatedTransactions: number
  readonly postings: number
  /** The discrepancies that were found since the previous progress. */
  readonly discrepancies: readonly Discrepancy[]
  /** The number of all discrepancies found so far, including those that were not returned. */
  readonly discrepancyCount: number
  readonly completed: boolean
  /** Where a later verification continues. */
  readonly cursor: string
}

/** The most discrepancies that are returned; further ones are only counted. */
const REPORTED_MAX = 1_000

const POSTINGS_MAX = 20_000

const SESSIONS_MAX = 20_000

/** The statement timeout. It is long, because one statement sums all events of a balance. */
const STATEMENT_MS = 600_000

/** A key that sorts before all balances. */
const FIRST: BalanceKey = { businessId: '', live: false }

/**
 * Recomputes the ledger, one balance after another. Each balance is read in a snapshot of its own, so payments continue
 * and no snapshot is held for longer than one balance takes.
 *
 * @param from the cursor of an earlier verification. If that was interrupted, this one continues with the next balance. If it
 * completed, this one verifies what was written since it began. Empty: verifies everything.
 * @throws Fault validation_failed (the cursor)
 */
export async function* verifyLedger(
  pool: Pool,
  verifyPayouts: VerifyPayouts,
  from = '',
): AsyncGenerator<Verification> {
  const nowMs = await readDatabaseTime(pool)
  let cursor: VerificationCursor = { sinceMs: 0, startedAtMs: nowMs, after: undefined }
  if (from !== '') {
    const earlier = decodeCursor(from)
    cursor =
      earlier.after === undefined
        ? { ...cursor, sinceMs: Math.min(earlier.sinceMs, nowMs) }
        : earlier
  }
  const estimate = cursor.sinceMs === 0 ? await estimateTransactions(pool) : 0
  let [transactions, postings, discrepancyCount, reported] = [0, 0, 0, 0]
  const progress = (part: Part, completed = false): Verification => {
    transactions += part.transactions
    postings += part.postings
    discrepancyCount += part.discrepancyCount
    const discrepancies = part.discrepancies.slice(0, REPORTED_MAX - reported)
    reported += discrepancies.length
    const estimatedTransactions = estimate === 0 ? 0 : Math.max(estimate, transactions)
    const result = { transactions, estimatedTransactions, postings, discrepancies }
    return { ...result, discrepancyCount, completed, cursor: encodeCursor(cursor) }
  }
  for (;;) {
    const key = await findNextBalance(pool, cursor.after ?? FIRST)
    if (key === undefined) break
    for await (const part of inSnapshot(pool, verifyPayouts, key, cursor.sinceMs)) {
      if (part.transactions > 0 || part.discrepancyCount > 0) yield progress(part)
    }
    cursor = { ...cursor, after: key }
  }
  if (cursor.sinceMs === 0) {
    for await (const part of verifyOrphans(pool)) yield progress(part)
    for await (const part of verifyAllSessions(pool)) yield progress(part)
  }
  cursor = { sinceMs: cursor.startedAtMs, startedAtMs: cursor.startedAtMs, after: undefined }
  yield progress(found([]), true)
}

async function* inSnapshot(
  pool: Pool,
  verifyPayouts: VerifyPayouts,
  key: BalanceKey,
  sinceMs: number,
): AsyncGenerator<Part> {
  const client = await pool.connect()
  let isDone = false
  try {
    await client.query(
      `begin isolation level repeatable read read only; set local statement_timeout = ${STATEMENT_MS}; lock table only event_log, only outbox in access share mode`,
    )
    yield* verifyBalance(client, verifyPayouts, key, sinceMs)
    await client.query('commit')
    isDone = true
  } finally {
    // Closing the connection ends the transaction if it is still open.
    client.release(!isDone)
  }
}

/** Finds postings whose transaction does not exist: they belong to no balance. */
async function* verifyOrphans(pool: Pool): AsyncGenerator<Part> {
  const read = (after: string) => findOrphanPostings(pool, after, POSTINGS_MAX)
  for await (const { ids } of pagesOf('', read)) {
    const problem = 'has postings, but the transaction does not exist'
    if (ids.length > 0) yield found(ids.map((subject) => ({ subject, problem })))
  }
}

/** Finds sessions whose transaction does not exist or has another session. */
async function* verifyAllSessions(pool: Pool): AsyncGenerator<Part> {
  const read = (after: typeof FIRST_SESSION) => verifySessions(pool, after, SESSIONS_MAX)
  for await (const { discrepancies } of pagesOf(FIRST_SESSION, read)) {
    if (discrepancies.length > 0) yield found(discrepancies)
  }
}

/** Where a verification continues. Times by the database's clock, in epoch milliseconds. */
interface VerificationCursor {
  /** Rows that were written before this time were verified earlier. */
  readonly sinceMs: number
  /** When this verification began. The next verification starts from this time. */
  readonly startedAtMs: number
  /** The last balance that was verified; undefined: the verification has not begun. */
  readonly after: BalanceKey | undefined
}

function encodeCursor({ sinceMs, startedAtMs, after }: VerificationCursor): string {
  return pageTokenOf([
    `${sinceMs}`,
    `${startedAtMs}`,
    ...(after === undefined ? [] : [after.businessId, `${after.live}`]),
  ])
}

/** @throws Fault validation_failed */
function decodeCursor(text: string): VerificationCursor {
  const parts = partsOf(text)
  const [sinceMs, startedAtMs] = parts.slice(0, 2).map(Number)
  const [, , businessId, live] = parts
  if (
    (parts.length !== 2 && parts.length !== 4) ||
    !isTime(sinceMs) ||
    !isTime(startedAtMs) ||
    (live !== undefined && live !== 'true' && live !== 'false')
  ) {
    throw invalidFields([{ field: 'from', message: 'is not a cursor of a verification' }])
  }
  const after = businessId === undefined ? undefined : { businessId, live: live === 'true' }
  return { sinceMs, startedAtMs, after }
}

/** A time that PostgreSQL and ids can hold. */
function isTime(ms: number | undefined): ms is number {
  return Number.isInteger(ms) && ms !== undefined && ms >= 0 && ms < 32 ** 9
}
