import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { isCreditable } from '../accounts/account.ts'
import { getAccount } from '../accounts/get-account.ts'
import type { FoundAmongLatest } from '../accounts/list-accounts.ts'
import type { Owner } from '../auth/method-policy.ts'
import type { BankCode, IsSimulated } from '../banks/bank.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import { parseAmount } from '../core/money.ts'
import { createBatcher } from '../postgres/batcher.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { invalidPageToken, type PageTokenField, readPage } from '../postgres/page-token.ts'
import type { Read } from '../postgres/replicas/replicas.ts'
import { ReversalEntity } from './exceptions.entity.ts'
import {
  findLatestUnsuccessful,
  listByRecordedTime,
  type Sources,
  scanAll,
  scanByPaidAt,
} from './list-by-recorded-time.ts'
import { isFiltered, matchesPayment, type PaymentFilter } from './payment-filter.ts'
import {
  findBySessions,
  findRecorded,
  findShownBySessions,
  type RecordedKey,
  type SessionKey,
  TRANSACTION_COLUMNS,
  type TransactionRow,
  toStored,
} from './queries.ts'
import type {
  Reversal,
  ShownTransaction,
  StoredTransaction,
  TransactionStatus,
} from './transaction.ts'

/** Finds one transaction of one business by its session id. Throws Fault not_found. */
export type GetTransaction<Transaction = StoredTransaction> = (
  key: SessionKey,
) => Promise<Transaction>

/** Looks up transactions with all fields. */
export function createGetTransaction(read: Read): GetTransaction {
  return createLookUp((keys) => read((on) => findBySessions(on, keys)))
}

/** Looks up transactions with the fields that a business sees. */
export function createGetShown(read: Read): GetTransaction<ShownTransaction> {
  return createLookUp((keys) => read((on) => findShownBySessions(on, keys)))
}

/** Batches look-ups: those that arrive while a statement runs share the next one. */
function createLookUp<Transaction>(
  run: (keys: readonly SessionKey[]) => Promise<readonly (Transaction | undefined)[]>,
): GetTransaction<Transaction> {
  const find = createBatcher({ run, itemsMax: 128, batchesMax: 2, queueMax: 20_000 })
  return async (key) => {
    const transaction = await find(key)
    // The same message for an unknown session and for a session of another business.
    if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
    return transaction
  }
}

/**
 * The id of the transaction that a bank reports by its session; undefined if none is recorded, or it was
 * only simulated.
 */
export async function findReportedId(
  pool: Pool,
  key: { readonly bank: BankCode; readonly sessionId: string },
  isSimulated: IsSimulated,
): Promise<string | undefined> {
  const [recorded] = await findRecorded(pool, [{ ...key, live: true }])
  if (recorded === undefined || !isCreditable({ ...recorded, live: true }, isSimulated))
    return undefined
  return recorded.id
}

/**
 * Creates a function that returns whether a session at a bank is recorded with a final status. No
 * report of such a session credits anything. Look-ups that arrive while a statement runs share the
 * next one.
 */
export function createIsFinal(pool: Pool): (key: RecordedKey) => Promise<boolean> {
  const find = createBatcher({
    run: (keys: readonly RecordedKey[]) => findRecorded(pool, keys),
    itemsMax: 256,
    batchesMax: 2,
    queueMax: 20_000,
  })
  return async (key) => {
    const recorded = await find(key)
    return recorded !== undefined && recorded.status !== 'PENDING'
  }
}

/** Why and when a transaction was reversed; undefined if it was not. */
export async function findReversal(em: EntityManager, id: string): Promise<Reversal | undefined> {
  const reversal = await em.findOne(ReversalEntity, id)
  return reversal
    ? { reason: reversal.reason, reversedAtMs: reversal.reversedAt.getTime() }
    : undefined
}

/** Whose a transaction is; undefined if there is no such transaction. */
export async function transactionOwner(pool: Pool, id: string): Promise<Owner | undefined> {
  const { rows } = await pool.query<Owner>({
    name: 'transaction-owner',
    text: 'select business_id as "businessId", live from transaction where id = $1',
    values: [id],
  })
  return rows[0]
}

/**
 * A list request. `businessId` is empty for all businesses that the caller may see. `reference` is the returned one
 * or the business's own; empty: any account.
 */
export interface ListTransactions extends PaymentFilter {
  readonly businessId: string
  /** Undefined: both modes. */
  readonly live: boolean | undefined
  readonly statuses: readonly TransactionStatus[] | undefined
  /** When they were paid; epoch milliseconds. */
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  /** The businesses that the caller may see, if none is named; absent: all. */
  readonly allowed?: ReadonlySet<string> | undefined
  readonly reference: string
  /** Empty: any. Otherwise there is one page, with every payment of the session. */
  readonly sessionId: string
  /** With either, the list is in the order in which payments were recorded; epoch milliseconds. */
  readonly recordedFromMs: number | undefined
  readonly recordedToMs: number | undefined
  readonly pageSize: number
  readonly pageToken: string
  readonly pageTokenField?: PageTokenField
}

/**
 * One page, the latest payment first, or by recorded time: see `listByRecordedTime`. An unknown reference has no
 * transactions. A list of all businesses has the latest recorded first: see `scanAll`.
 */
export async function listTransactions(pool: Queryable, request: ListTransactions) {
  if (request.sessionId !== '') return listOfSession(pool, request)
  if (request.businessId === '') return listOfAll(pool, request)
  if (request.recordedFromMs !== undefined || request.recordedToMs !== undefined) {
    const accountId = await accountOf(pool, request)
    if (accountId === null) return { rows: [], nextPageToken: '' }
    return listByRecordedTime(pool, { ...request, accountId })
  }
  const { pageSize, pageToken, pageTokenField } = request
  const page = readPage(pageSize, pageToken, 2, pageTokenField)
  const after = page.after && readKey(page.after, pageTokenField)
  const accountId = await accountOf(pool, request)
  if (accountId === null) return { rows: [], nextPageToken: '' }
  const modes = request.live === undefined ? [true, false] : [request.live]
  const sources: Sources = accountId
    ? { column: 'account_id', ids: [accountId], modes: [] }
    : { column: 'business_id', ids: [request.businessId], modes }
  return scanByPaidAt(pool, request, sources, page, after)
}

/**
 * A token that is restricted to businesses reads their indexes, which are in the order of payment. So does a list of the
 * rare statuses alone: each business has an index of these.
 */
async function listOfAll(pool: Queryable, request: ListTransactions) {
  const { live, allowed, statuses, recordedFromMs, recordedToMs, pageSize, pageToken } = request
  assert(live !== undefined, 'validation requires a mode')
  const isRare =
    statuses?.includes('SUCCESS') === false &&
    !isFiltered(request) &&
    recordedFromMs === undefined &&
    recordedToMs === undefined
  if (allowed === undefined && !isRare) {
    return scanAll(pool, { ...request, live }, readPage(pageSize, pageToken, 1))
  }
  const page = readPage(pageSize, pageToken, 2)
  const after = page.after && readKey(page.after, undefined)
  const ids = allowed
    ? [...allowed]
    : await findLatestUnsuccessful(pool, { live, statuses: statuses ?? [] }, after, page.limit + 1)
  if (ids.length === 0) return { rows: [], nextPageToken: '' }
  const sources: Sources = { column: 'business_id', ids, modes: [live] }
  return scanByPaidAt(pool, request, sources, page, after)
}

function readKey([paidAt = '', id = '']: readonly string[], field: PageTokenField | undefined) {
  if (!/^\d{1,14}$/.test(paidAt)) throw invalidPageToken(field)
  return { paidAtMs: Number(paidAt), id }
}

/** The account's id; undefined for any account, null if there is no such account. */
async function accountOf(
  pool: Queryable,
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

/**
 * The payments with one session id of a business, or of all that the caller may see, on one page: two banks may
 * use the same one.
 *
 * @throws Fault validation_failed with a recorded period, or the token of another page
 */
async function listOfSession(
  pool: Queryable,
  request: ListTransactions,
): Promise<{ readonly rows: readonly StoredTransaction[]; readonly nextPageToken: string }> {
  const { recordedFromMs, recordedToMs, pageToken, pageTokenField } = request
  if (recordedFromMs !== undefined || recordedToMs !== undefined || pageToken !== '') {
    const field = pageTokenField === 'page_token' ? 'session_id' : 'sessionId'
    const message = 'cannot be combined with a recorded period or a page token'
    throw invalidFields([{ field, message }])
  }
  const { reference, fromMs, toMs } = request
  const found = await findAll(pool, request)
  const rows = found.filter(
    (each) =>
      (reference === '' ||
        [each.account.reference, each.account.merchantReference].includes(reference)) &&
      matchesPayment(request, each) &&
      (fromMs === undefined || each.paidAtMs >= fromMs) &&
      (toMs === undefined || each.paidAtMs < toMs),
  )
  return { rows, nextPageToken: '' }
}

/** At every bank, the latest payment first. */
async function findAll(
  pool: Queryable,
  { businessId, live, sessionId, allowed }: ListTransactions,
): Promise<readonly StoredTransaction[]> {
  const businessIds = businessId === '' ? allowed && [...allowed] : [businessId]
  const { rows } = await pool.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from payment_session s
      cross join lateral (select * from transaction where id = s.transaction_id offset 0) t
      join account a on a.id = t.account_id
      where s.session_id = $1 and s.live = coalesce($2, s.live)
        and (t.business_id = any ($3::text[]) or $3 is null)
      order by t.paid_at desc, t.id desc`,
    [sessionId, live ?? null, businessIds ?? null],
  )
  return rows.map(toStored)
}

/**
 * The payments, of the latest so many, that have a text as a part of an identifier, the session id, a reference or the
 * payer's name, or as the amount, newest first. No index has parts, so the rest is not looked at.
 */
export async function searchLatestTransactions(
  on: Queryable,
  text: string,
  { businessIds, live }: Scope,
  { latest, limit }: { readonly latest: number; readonly limit: number },
): Promise<FoundAmongLatest<StoredTransaction>> {
  const perRange = Math.max(1, Math.ceil(latest / (businessIds?.length || 1)))
  const scanned =
    businessIds === undefined
      ? `select '' as range, t.* from (
          select * from transaction ${live === false ? 'where not live' : ''} order by id desc limit $2) t`
      : `select b.id as range, t.* from unnest($6::text[]) as b(id)
          cross join lateral (select f.* from unnest(array[true, false]) as m(live)
            cross join lateral (select * from transaction where business_id = b.id and live = m.live
              order by paid_at desc, id desc limit $2) f order by f.paid_at desc, f.id desc limit $2) t`
  const ranges = businessIds === undefined ? "array['']" : '$6::text[]'
  const values = [text.toLowerCase(), perRange, limit, live ?? null, amountOf(text) ?? null]
  const { rows } = await on.query<TransactionRow & { id: string | null; since_ms: number | null }>(
    `with scanned as materialized (${scanned}), edge as (
        select max(since) as since from unnest(${ranges}) as r(id) cross join lateral (
          select min(created_at) as since from scanned where range = r.id having count(*) >= $2) e
      ), found as (
        select * from scanned where live = coalesce($4, live) and (
          amount_minor = $5 or position($1 in lower(payer_name)) > 0 or position($1 in lower(session_id)) > 0
          or position($1 in id) > 0)
        order by id desc limit $3
      )
      select round(date_part('epoch', edge.since) * 1000) as since_ms, ${TRANSACTION_COLUMNS}
      from edge left join (found t join account a on a.id = t.account_id) on true order by t.id desc`,
    businessIds === undefined ? values : [...values, businessIds],
  )
  return {
    rows: rows.flatMap((row) => (row.id === null ? [] : [toStored(row as TransactionRow)])),
    sinceMs: rows[0]?.since_ms ?? undefined,
  }
}

/** An amount in naira, such as "₦4,200" or "4200.50", in kobo; undefined: the text is none. */
function amountOf(text: string): bigint | undefined {
  return parseAmount(text.replace(/^(₦|NGN)\s*/i, '').replaceAll(',', ''))
}

/** What to search among; undefined: all. */
interface Scope {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
}

/** The transactions of an id or of a session id, newest first: at most one of each bank and mode. */
export async function searchTransactions(
  on: Queryable,
  text: string,
  { businessIds, live }: Scope,
): Promise<readonly StoredTransaction[]> {
  const { rows } = await on.query<TransactionRow>(
    `select ${TRANSACTION_COLUMNS} from (
        select id from transaction where id = $1
        union
        select transaction_id from payment_session where session_id = $1
      ) found
      cross join lateral (select * from transaction where id = found.id offset 0) t
      join account a on a.id = t.account_id
      where ($2::text[] is null or t.business_id = any ($2)) and ($3::boolean is null or t.live = $3)
      order by t.id desc`,
    [text, businessIds ?? null, live ?? null],
  )
  return rows.map(toStored)
}
