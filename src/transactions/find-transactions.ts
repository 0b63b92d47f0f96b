import type { Pool } from 'pg'
import { getAccount } from '../accounts/get-account.ts'
import type { BankCode } from '../banks/bank.ts'
import { Fault } from '../errors.ts'
import { createBatcher } from '../store/batcher.ts'
import { cutPage, invalidPageToken, readPage } from '../store/page-token.ts'
import {
  findBySessions,
  findOwner,
  findRecorded,
  listBy,
  type SessionKey,
  type TransactionFilter,
} from './queries.ts'
import type { StoredTransaction } from './transaction.ts'

/** Finds one transaction of one business by its session id. Throws Fault not_found. */
export type GetTransaction = (key: SessionKey) => Promise<StoredTransaction>

/** Look-ups that come in while others are under way share the next statement. */
export function createGetTransaction(pool: Pool): GetTransaction {
  const find = createBatcher<SessionKey, StoredTransaction | undefined>({
    run: (keys) => findBySessions(pool, keys),
    itemsMax: 128,
    batchesMax: 2,
    queueMax: 20_000,
  })
  return async (key) => {
    const transaction = await find(key)
    // The same words for a session that is unknown and for one of another business.
    if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
    return transaction
  }
}

/** The transaction of a session at a bank; undefined when none is recorded. */
export async function findTransactionId(
  pool: Pool,
  key: { readonly bank: BankCode; readonly sessionId: string; readonly live: boolean },
): Promise<string | undefined> {
  const [recorded] = await findRecorded(pool, [key])
  return recorded?.id
}

/** The business that a transaction belongs to; undefined when there is no such transaction. */
export async function transactionOwner(pool: Pool, id: string): Promise<string | undefined> {
  return findOwner(pool, id)
}

/** What a caller asks to list. `reference` is the returned or the caller's own; empty: any. */
export interface ListTransactions extends Omit<TransactionFilter, 'accountId'> {
  readonly reference: string
  readonly pageSize: number
  readonly pageToken: string
}

/** One page, the latest payment first. An unknown reference has no transactions. */
export async function listTransactions(pool: Pool, request: ListTransactions) {
  const page = readPage(request.pageSize, request.pageToken, 2)
  const after = page.after && readKey(page.after)
  const accountId = await accountOf(pool, request)
  if (accountId === null) return { rows: [], nextPageToken: '' }
  const found = await listBy(pool, { ...request, accountId }, after, page.limit + 1)
  return cutPage(found, page, (transaction) => [`${transaction.paidAtMs}`, transaction.id])
}

function readKey([paidAt = '', id = '']: readonly string[]) {
  if (!/^\d{1,14}$/.test(paidAt)) throw invalidPageToken()
  return { paidAtMs: Number(paidAt), id }
}

/** The account's id; undefined for any account, null when there is no such account. */
async function accountOf(
  pool: Pool,
  { businessId, live, reference }: ListTransactions,
): Promise<string | undefined | null> {
  if (reference === '') return undefined
  try {
    return (await getAccount(pool, { businessId, live, reference })).id
  } catch (error) {
    if (error instanceof Fault && error.reason === 'not_found') return null
    throw error
  }
}
