import type { PoolClient } from 'pg'
import { MINUTE_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import {
  findSequenceBounds,
  hasConsistentSums,
  lastSequenceBefore,
} from '../events/business-sequences.ts'
import { findWrongEventCounts, verifyEvents } from '../transactions/ledger/verify-events.ts'
import { verifyShares } from '../transactions/ledger/verify-shares.ts'
import {
  type Discrepancy,
  type Scope,
  type TransactionKey,
  verifyTransactions,
} from '../transactions/ledger/verify-transactions.ts'
import { readBalance } from './get-balance.ts'
import { type BalanceKey, BEFORE_ALL } from './settlement.ts'
import { findUnknownSettlements, listSettlements, verifySettlement } from './verification-store.ts'

/** A part of a verification. */
export interface Part {
  readonly transactions: number
  readonly postings: number
  readonly discrepancies: readonly Discrepancy[]
  /** More than the discrepancies, if not all are returned. */
  readonly discrepancyCount: number
}

const TRANSACTIONS_MAX = 5_000

/** How many payloads are decoded at once: a few milliseconds of this process. */
const EVENTS_MAX = 500
const SETTLEMENTS_MAX = 100

/**
 * How far a verification goes back before the point where it continues. Clocks differ, and an event gets its
 * number after its transaction: the events begin earlier than the transactions that they are searched for.
 */
const OVERLAP_MS = { transactions: 30 * MINUTE_MS, events: 60 * MINUTE_MS }

/**
 * Verifies a balance in the snapshot of the client's transaction: each transaction against its postings and
 * events, each event against its transaction, each settlement against the payments in its range, its shares of the
 * payments of others against their events, and the sums.
 *
 * @param sinceMs verifies only what was written since then; 0: everything
 */
export async function* verifyBalance(
  client: PoolClient,
  key: BalanceKey,
  sinceMs: number,
): AsyncGenerator<Part> {
  const subject = labelOf(key)
  const after = await findStart(client, key, sinceMs)
  const scope = { ...key, fromId: firstIdOf(sinceMs) }
  const balance = await readBalance(client, key)
  if (!balance.isCurrent) {
    throw new Fault('unavailable', 'The database was restored and its event log is not ready yet', {
      retryAfterSeconds: 1,
    })
  }
  const posted = yield* verifyPostings(client, scope)
  if (sinceMs === 0) {
    const shares = await verifyShares(client, key)
    yield found(shares.discrepancies, shares.count)
    const compare = (name: string, recorded: bigint, sum: bigint): Discrepancy[] =>
      recorded === sum
        ? []
        : [{ subject, problem: `${name} is ${recorded}; its postings add up to ${sum}` }]
    yield found([
      ...compare('the pending balance', balance.pendingMinor, posted.pending),
      ...compare(
        'the available balance',
        balance.availableMinor,
        posted.available + shares.available,
      ),
      ...compare('the fee total', balance.feesMinor, posted.fees),
    ])
  }
  if (balance.pendingMinor < 0n) {
    yield found([{ subject, problem: `the pending balance is negative: ${balance.pendingMinor}` }])
  }
  if (!(await hasConsistentSums(client, key, after))) {
    const problem = 'its running sums differ from the sums of its sequenced events'
    yield found([{ subject, problem }])
  }
  for (let last: bigint | undefined = after; last !== undefined; ) {
    const page: Awaited<ReturnType<typeof verifyEvents>> = await verifyEvents(
      client,
      scope,
      last,
      EVENTS_MAX,
    )
    yield found(page.discrepancies)
    last = page.last
  }
  const wrong = await findWrongEventCounts(client, scope, after)
  yield found(wrong.discrepancies, wrong.count)
  yield* verifySettlements(client, key, sinceMs)
}

/** The sequence number after which events are verified. */
async function findStart(client: PoolClient, key: BalanceKey, sinceMs: number): Promise<bigint> {
  if (sinceMs === 0) return BEFORE_ALL
  const bounds = await findSequenceBounds(client, key)
  if (bounds === undefined) return BEFORE_ALL
  return lastSequenceBefore(client, key, sinceMs - OVERLAP_MS.events, bounds)
}

/** The prefix of the ids from a time on; empty: all ids. */
function firstIdOf(sinceMs: number): string {
  if (sinceMs === 0) return ''
  return newId('txn', Math.max(0, sinceMs - OVERLAP_MS.transactions)).slice(0, 'txn_'.length + 10)
}

/** @returns the sums of the postings */
async function* verifyPostings(
  client: PoolClient,
  scope: Scope,
): AsyncGenerator<Part, { pending: bigint; available: bigint; fees: bigint }> {
  const sums = { pending: 0n, available: 0n, fees: 0n }
  const first: TransactionKey = { paidAtMs: -Infinity, id: '' }
  for (let after: TransactionKey | undefined = first; after !== undefined; ) {
    const page: Awaited<ReturnType<typeof verifyTransactions>> = await verifyTransactions(
      client,
      scope,
      after,
      TRANSACTIONS_MAX,
    )
    sums.pending += page.pending
    sums.available += page.available
    sums.fees += page.fees
    const unknown = await findUnknownSettlements(client, scope, page.settlementIds)
    yield {
      transactions: page.transactions,
      postings: page.postings,
      discrepancies: [
        ...page.discrepancies,
        ...unknown.map((subject) => ({
          subject,
          problem: 'has postings, but the settlement does not exist',
        })),
      ],
      discrepancyCount: page.discrepancyCount + unknown.length,
    }
    after = page.last
  }
  return sums
}

async function* verifySettlements(
  client: PoolClient,
  key: BalanceKey,
  sinceMs: number,
): AsyncGenerator<Part> {
  const since = Math.max(0, sinceMs - OVERLAP_MS.events)
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: Awaited<ReturnType<typeof listSettlements>> = await listSettlements(client, key, {
      sinceMs: since,
      after,
      limit: SETTLEMENTS_MAX,
    })
    for (const settlement of page) {
      const { discrepancies, count } = await verifySettlement(client, settlement)
      yield found(discrepancies, count)
    }
    after = page.length < SETTLEMENTS_MAX ? undefined : page.at(-1)?.id
  }
}

function found(discrepancies: readonly Discrepancy[], count = discrepancies.length): Part {
  return { transactions: 0, postings: 0, discrepancies, discrepancyCount: count }
}

/** "biz_…", or "biz_… in test mode". */
function labelOf({ businessId, live }: BalanceKey): string {
  return live ? businessId : `${businessId} in test mode`
}
