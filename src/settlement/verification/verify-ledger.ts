import type { Pool, PoolClient } from 'pg'
import { listRunningSums } from '../../events/balance-changes/running-sums.ts'
import {
  type BalanceSums,
  type Discrepancy,
  verifyTransactions,
} from '../../transactions/ledger/verify-transactions.ts'
import { readBalance } from '../balances/store.ts'
import type { BalanceKey } from '../settlement.ts'
import { createSettlementTally } from './settlement-tally.ts'

/** The progress of a verification. */
export interface Verification {
  readonly transactions: number
  readonly postings: number
  /** Found since the previous progress. */
  readonly discrepancies: readonly Discrepancy[]
  /** Found in all, including those that were not returned. */
  readonly discrepancyCount: number
  readonly completed: boolean
}

const TRANSACTIONS_MAX = 5_000
const ROWS_MAX = 1_000

/** How many discrepancies are returned; the others are only counted. */
const REPORTED_MAX = 1_000

/** The statement timeout: one statement sums all events of a balance. */
const STATEMENT_MS = 600_000

/**
 * Recomputes the ledger from its postings, page by page, in one database snapshot, so that payments
 * continue meanwhile. It compares each transaction and each settlement with its postings, each
 * balance with the postings of its ledger accounts, and its running sums with its sequenced events.
 */
export async function* verifyLedger(pool: Pool): AsyncGenerator<Verification> {
  const client = await pool.connect()
  try {
    await client.query('begin isolation level repeatable read read only')
    await client.query(`set local statement_timeout = ${STATEMENT_MS}`)
    yield* verifySnapshot(client)
    await client.query('commit')
  } finally {
    // Closing the connection ends the transaction if it is still open.
    client.release(true)
  }
}

async function* verifySnapshot(client: PoolClient): AsyncGenerator<Verification> {
  const balances = new Map<string, BalanceSums>()
  const settlements = createSettlementTally()
  let transactions = 0
  let postings = 0
  let discrepancyCount = 0
  let reported = 0
  const progress = (found: readonly Discrepancy[], count = found.length, completed = false) => {
    const discrepancies = found.slice(0, REPORTED_MAX - reported)
    discrepancyCount += count
    reported += discrepancies.length
    return { transactions, postings, discrepancies, discrepancyCount, completed }
  }
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: Awaited<ReturnType<typeof verifyTransactions>> = await verifyTransactions(
      client,
      after,
      TRANSACTIONS_MAX,
    )
    transactions += page.transactions
    postings += page.postings
    for (const sums of page.balances) {
      const known = balances.get(labelOf(sums))
      balances.set(labelOf(sums), known === undefined ? sums : addSums(known, sums))
    }
    const found = await settlements.add(client, page.settlements)
    after = page.last
    yield progress([...page.discrepancies, ...found], page.discrepancyCount + found.length)
  }
  for await (const found of settlements.finish(client)) yield progress(found)
  for await (const found of verifyBalances(client, balances)) yield progress(found)
  yield progress([], 0, true)
}

/** Compares balances, and the running sums of their events, with the sums of postings. */
async function* verifyBalances(
  client: PoolClient,
  posted: Map<string, BalanceSums>,
): AsyncGenerator<Discrepancy[]> {
  const compare = (subject: string, name: string, recorded: bigint, sum: bigint): Discrepancy[] =>
    recorded === sum
      ? []
      : [{ subject, problem: `${name} is ${recorded}; its postings add up to ${sum}` }]
  const verifyOne = async (key: BalanceKey): Promise<Discrepancy[]> => {
    const balance = await readBalance(client, key)
    const subject = labelOf(key)
    const { pending = 0n, available = 0n, fees = 0n } = posted.get(subject) ?? {}
    posted.delete(subject)
    return [
      ...compare(subject, 'the pending balance', balance.pendingMinor, pending),
      ...compare(subject, 'the available balance', balance.availableMinor, available),
      ...compare(subject, 'the fee total', balance.feesMinor, fees),
      ...(pending < 0n
        ? [{ subject, problem: `the pending balance is negative: ${pending}` }]
        : []),
    ]
  }
  for (let after: BalanceKey | undefined = { businessId: '', live: false }; after !== undefined; ) {
    const rows: Awaited<ReturnType<typeof listRunningSums>> = await listRunningSums(
      client,
      after,
      ROWS_MAX,
    )
    for (const row of rows) {
      const found = await verifyOne(row)
      if (!row.isConsistent) {
        const problem = 'its running sums differ from the sums of its sequenced events'
        found.push({ subject: labelOf(row), problem })
      }
      if (found.length > 0) yield found
    }
    after = rows.length < ROWS_MAX ? undefined : rows.at(-1)
  }
  for (const key of [...posted.values()]) {
    const found = await verifyOne(key)
    if (found.length > 0) yield found
  }
}

/** "biz_…", or "biz_… in test mode". */
function labelOf({ businessId, live }: BalanceKey): string {
  return live ? businessId : `${businessId} in test mode`
}

function addSums(a: BalanceSums, b: BalanceSums): BalanceSums {
  return {
    businessId: a.businessId,
    live: a.live,
    pending: a.pending + b.pending,
    available: a.available + b.available,
    fees: a.fees + b.fees,
  }
}
