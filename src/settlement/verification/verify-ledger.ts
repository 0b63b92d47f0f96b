import type { Pool, PoolClient } from 'pg'
import { readBalance } from '../balances/store.ts'
import { createSettlementTally } from '../runs/settlement-tally.ts'
import type { Book } from '../settlement.ts'
import { type BookSums, listSummaries, verifyPage } from './store.ts'

/** Something that the ledger says and something else does not. */
export interface Difference {
  /** A transaction, a settlement or a business. */
  readonly subject: string
  readonly problem: string
}

/** How far a verification is. */
export interface Verification {
  readonly transactions: number
  readonly postings: number
  /** Found since the progress before. */
  readonly differences: readonly Difference[]
  /** Found in all; more than were told when there are very many. */
  readonly differenceCount: number
  readonly completed: boolean
}

const TRANSACTIONS_MAX = 5_000
const ROWS_MAX = 1_000

/** How many differences are told, beside their number. */
const TOLD_MAX = 1_000

/** For one statement: a business's whole books are summed by one. */
const STATEMENT_MS = 600_000

/**
 * Computes everything anew from the postings, a part at a time, in one view of the database, so that
 * payments may go on meanwhile: each transaction against its own postings, each settlement against
 * those made for it, each balance and each business's books against all of the business's.
 */
export async function* verifyLedger(pool: Pool): AsyncGenerator<Verification> {
  const client = await pool.connect()
  try {
    await client.query('begin isolation level repeatable read read only')
    await client.query(`set local statement_timeout = ${STATEMENT_MS}`)
    yield* verifyIn(client)
    await client.query('commit')
  } finally {
    // Whatever is left of the transaction ends with its connection.
    client.release(true)
  }
}

async function* verifyIn(client: PoolClient): AsyncGenerator<Verification> {
  const books = new Map<string, BookSums>()
  const settlements = createSettlementTally()
  let transactions = 0
  let postings = 0
  let differenceCount = 0
  let told = 0
  const progress = (found: readonly Difference[], count = found.length, completed = false) => {
    const differences = found.slice(0, TOLD_MAX - told)
    differenceCount += count
    told += differences.length
    return { transactions, postings, differences, differenceCount, completed }
  }
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: Awaited<ReturnType<typeof verifyPage>> = await verifyPage(
      client,
      after,
      TRANSACTIONS_MAX,
    )
    transactions += page.transactions
    postings += page.postings
    for (const sums of page.books) {
      const known = books.get(nameOf(sums))
      books.set(nameOf(sums), known === undefined ? sums : addBook(known, sums))
    }
    const wrong = await settlements.add(client, page.settlements)
    after = page.last
    yield progress([...page.wrong, ...wrong], page.wrongCount + wrong.length)
  }
  for await (const found of settlements.finish(client)) yield progress(found)
  for await (const found of verifySummaries(client, books)) yield progress(found)
  yield progress([], 0, true)
}

/** Balances, and the sums of what events did, against the sums of postings. */
async function* verifySummaries(
  client: PoolClient,
  posted: Map<string, BookSums>,
): AsyncGenerator<Difference[]> {
  const compare = (subject: string, what: string, said: bigint, is: bigint): Difference[] =>
    said === is ? [] : [{ subject, problem: `${what} is ${said}; its postings come to ${is}` }]
  const one = async (book: Book): Promise<Difference[]> => {
    const balance = await readBalance(client, book)
    const subject = nameOf(book)
    const { pending = 0n, available = 0n, fees = 0n } = posted.get(subject) ?? {}
    posted.delete(subject)
    return [
      ...compare(subject, 'the pending balance', balance.pendingMinor, pending),
      ...compare(subject, 'the available balance', balance.availableMinor, available),
      ...compare(subject, 'the sum of fees', balance.feesMinor, fees),
      ...(pending < 0n ? [{ subject, problem: `${pending} is pending` }] : []),
    ]
  }
  for (let after: Book | undefined = { businessId: '', live: false }; after !== undefined; ) {
    const rows: Awaited<ReturnType<typeof listSummaries>> = await listSummaries(
      client,
      after,
      ROWS_MAX,
    )
    for (const row of rows) {
      const found = await one(row)
      if (!row.agrees) {
        const problem = 'the sums beside its last number are not those of its numbered events'
        found.push({ subject: nameOf(row), problem })
      }
      if (found.length > 0) yield found
    }
    after = rows.length < ROWS_MAX ? undefined : rows.at(-1)
  }
  for (const book of [...posted.values()]) {
    const found = await one(book)
    if (found.length > 0) yield found
  }
}

/** "biz_…", or "biz_… in test mode". */
function nameOf({ businessId, live }: Book): string {
  return live ? businessId : `${businessId} in test mode`
}

function addBook(a: BookSums, b: BookSums): BookSums {
  return {
    businessId: a.businessId,
    live: a.live,
    pending: a.pending + b.pending,
    available: a.available + b.available,
    fees: a.fees + b.fees,
  }
}
