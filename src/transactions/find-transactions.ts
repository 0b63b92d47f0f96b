import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool, PoolClient } from 'pg'
import { isCreditable } from '../accounts/account.ts'
import type { FoundAmongLatest } from '../accounts/list-accounts.ts'
import type { BusinessScope } from '../auth/caller.ts'
import type { Owner } from '../auth/method-policy.ts'
import type { BankCode, IsSimulated } from '../banks/bank.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { parseAmount } from '../core/money.ts'
import { createBatcher } from '../postgres/batcher.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Read } from '../postgres/replicas.ts'
import {
  findBySessions,
  findRecorded,
  findShownBySessions,
  findTransactionById,
  lockTransaction,
  type RecordedKey,
  type SessionKey,
  TRANSACTION_COLUMNS,
  type TransactionRow,
  toStored,
} from './queries.ts'
import { ReversalEntity } from './transaction.entity.ts'
import type { Reversal, ShownTransaction, StoredTransaction } from './transaction.ts'

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

/** Batches look-ups: look-ups that arrive while a statement runs share the next statement. */
function createLookUp<Transaction>(
  run: (keys: readonly SessionKey[]) => Promise<readonly (Transaction | undefined)[]>,
): GetTransaction<Transaction> {
  const find = createBatcher({ run, itemsMax: 128 })
  return async (key) => {
    const transaction = await find(key)
    // The same message for an unknown session and for a session of another business.
    if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
    return transaction
  }
}

/**
 * The id of a business's transaction by its session.
 *
 * @param key `bank`: empty: any
 * @param prefersOneTime if several banks used the session id, whether to find the payment into a one-time account
 * @throws Fault not_found; validation_failed (two banks used the session id)
 */
export async function findIdBySession(
  pool: Pool,
  key: {
    readonly businessId: string
    readonly live: boolean
    readonly sessionId: string
    readonly bank: BankCode | ''
  },
  prefersOneTime = false,
): Promise<string> {
  interface Row {
    readonly id: string
    readonly bank: BankCode
    readonly isOneTime: boolean
  }
  const { rows } = await pool.query<Row>({
    name: 'transaction-find-session-ids',
    // "offset 0" as in `findBySessions`.
    text: `select t.id, t.bank,
        exists (select from payment_variance v where v.transaction_id = t.id offset 0) as "isOneTime"
      from (select transaction_id from payment_session s where s.session_id = $2 and s.live = $3 offset 0) s
        cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
      where t.business_id = $1`,
    values: [key.businessId, key.sessionId, key.live],
  })
  const atBank = rows.filter(({ bank }) => key.bank === '' || bank === key.bank)
  const oneTime = prefersOneTime ? atBank.filter(({ isOneTime }) => isOneTime) : []
  const found = oneTime.length > 0 ? oneTime : atBank
  if (found.length > 1) {
    const message = 'is required: two banks used the session id'
    throw invalidFields([{ field: 'bank', message }])
  }
  // The same message for an unknown session and for a session of another business.
  if (found[0] === undefined) throw new Fault('not_found', 'There is no such transaction')
  return found[0].id
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
 * next statement.
 */
export function createIsFinal(pool: Pool): (key: RecordedKey) => Promise<boolean> {
  const find = createBatcher({
    run: (keys: readonly RecordedKey[]) => findRecorded(pool, keys),
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
 * Searches the `latest` payments for a text: a part of an identifier, the session id, a reference or the payer's name, or
 * the amount. Newest first. No index serves such a search, so older payments are not searched.
 */
export async function searchLatestTransactions(
  on: Queryable,
  text: string,
  { businessIds, live }: BusinessScope,
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

/** An amount in naira, such as "₦4,200" or "4200.50", in kobo; undefined if the text is not an amount. */
function amountOf(text: string): bigint | undefined {
  return parseAmount(text.replace(/^(₦|NGN)\s*/i, '').replaceAll(',', ''))
}

/** The transactions with an id or a session id, newest first: at most one for each bank and mode. */
export async function searchTransactions(
  on: Queryable,
  text: string,
  { businessIds, live }: BusinessScope,
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

/** One transaction of any business. @throws Fault not_found */
export async function getTransactionById(on: Queryable, id: string): Promise<StoredTransaction> {
  return requireFound(await findTransactionById(on, id))
}

/** Locks a transaction until the commit. @throws Fault not_found */
export async function getLocked(client: PoolClient, id: string): Promise<StoredTransaction> {
  return requireFound(await lockTransaction(client, id))
}

function requireFound(transaction: StoredTransaction | undefined): StoredTransaction {
  if (transaction === undefined) throw new Fault('not_found', 'There is no such transaction')
  return transaction
}
