import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { bigintArray, byteaArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { bindValues } from '../postgres/statement.ts'
import type { NewTransaction } from './store.ts'
import type { PaymentKey, Resolution, StoredUnmatched, UnmatchedPayment } from './transaction.ts'
import type { Decided } from './variance/variance.ts'

type PayerColumn = 'payerName' | 'payerAccountNumber' | 'payerBankCode' | 'payerBankName'

interface Row
  extends Omit<StoredUnmatched, 'amountMinor' | 'payer' | 'live'>,
    Readonly<Record<PayerColumn, string>> {
  readonly amount: string
}

const COLUMNS = `u.id, u.bank, u.account_number as "accountNumber", u.session_id as "sessionId",
  u.amount_minor as amount, u.status, round(date_part('epoch', u.paid_at) * 1000) as "paidAtMs",
  round(date_part('epoch', u.created_at) * 1000) as "createdAtMs", u.payer_name as "payerName",
  u.payer_account_number as "payerAccountNumber", u.payer_bank_code as "payerBankCode",
  u.payer_bank_name as "payerBankName", u.narration, u.resolution,
  round(date_part('epoch', u.resolved_at) * 1000) as "resolvedAtMs", u.note,
  u.transaction_id as "transactionId", u.payout_id as "payoutId"`

export async function findUnmatched(pool: Pool, id: string): Promise<StoredUnmatched | undefined> {
  const result = await pool.query<Row>({
    name: 'unmatched-payment-find',
    text: `select ${COLUMNS} from unmatched_payment u where id = $1`,
    values: [id],
  })
  return result.rows[0] && toStored(result.rows[0])
}

/** The unmatched payments with an id or a session id, newest first, including resolved payments. */
export async function searchUnmatched(
  on: Queryable,
  text: string,
  limit: number,
): Promise<readonly StoredUnmatched[]> {
  const by = text.startsWith('unm_') ? 'id' : 'session_id'
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from unmatched_payment u where u.${by} = $1 order by u.id desc limit $2`,
    [text, limit],
  )
  return rows.map(toStored)
}

/**
 * Whether the payment of `u` was recorded later, with the same amount and account, and a status that the report neither
 * finalizes nor contradicts (see `classifyRepeat`). "offset 0" makes the planner use look-ups, whatever it expects of the
 * tables.
 */
const IS_RECORDED = `exists (
          select from payment_session s
            cross join lateral (select * from transaction where id = s.transaction_id offset 0) t
            join account a on a.id = t.account_id
          where s.session_id = u.session_id and s.bank = u.bank and s.live
            and t.amount_minor = u.amount_minor and a.account_number = u.account_number
            and (u.status in (t.status, 'PENDING') or (t.status = 'REVERSED' and u.status = 'SUCCESS')) offset 0)`

/** How many rows one page may scan; nearly all of them are listed. */
const ROWS_MAX = 1_000

interface OpenFilter {
  /** Undefined: any. */
  readonly bank?: BankCode | undefined
  /** Empty: any. */
  readonly accountNumber?: string
  readonly order: 'newest' | 'oldest'
}

/**
 * The unmatched payments that wait for an operator's decision, except payments that were recorded later with the same
 * facts. Only live payments are stored as unmatched.
 *
 * @param afterId the last payment of the previous page
 * @returns `readUpTo`: the last id that was scanned, if the scan limit ended the page
 */
export async function listOpenUnmatched(
  on: Queryable,
  { bank, accountNumber = '', order }: OpenFilter,
  afterId: string | undefined,
  limit: number,
): Promise<{ readonly payments: StoredUnmatched[]; readonly readUpTo: string | undefined }> {
  const { values, bind } = bindValues(limit)
  const [direction, comes] = order === 'newest' ? ['desc', '<'] : ['asc', '>']
  const scanned = [
    'resolution is null',
    ...(bank === undefined ? [] : [`bank = ${bind(bank)}`]),
    ...(afterId === undefined ? [] : [`id ${comes} ${bind(afterId)}`]),
  ].join(' and ')
  const of = accountNumber === '' ? 'true' : `u.account_number = ${bind(accountNumber)}`
  const { rows } = await on.query<{ readUpTo: string | null } & (Row | { id: null })>(
    `with page as materialized (
        select * from (
          select * from unmatched_payment where ${scanned} order by id ${direction} limit ${ROWS_MAX}
        ) u where ${of} and not ${IS_RECORDED}
        order by id ${direction} limit $1
      ), edge as (
        select case when (select count(*) from page) < $1 then (
          select id from unmatched_payment where ${scanned} order by id ${direction} offset ${ROWS_MAX - 1} limit 1
        ) end as read_up_to
      )
      select edge.read_up_to as "readUpTo", ${COLUMNS} from edge left join page u on true order by u.id ${direction}`,
    values,
  )
  const payments = rows.flatMap(({ readUpTo: _, ...row }) =>
    row.id === null ? [] : [toStored(row)],
  )
  return { payments, readUpTo: rows[0]?.readUpTo ?? undefined }
}

/** Counts the payments that `listOpenUnmatched` lists among the `max` oldest. */
export async function countWaitingUnmatched(on: Queryable, max: number): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count
      from (select * from unmatched_payment where resolution is null order by id limit $1) u
      where not ${IS_RECORDED}`,
    [max],
  )
  return rows[0]?.count ?? 0
}

/**
 * Lets an assignment of a payment and the insertion of further reports of it exclude each other until the commit:
 * an assignment resolves the reports that it finds; a report that it missed would stay open for ever.
 */
export async function lockReported(
  client: Queryable,
  payments: readonly Pick<PaymentKey, 'bank' | 'sessionId'>[],
): Promise<void> {
  await client.query({
    name: 'unmatched-payment-lock-reported',
    text: `select pg_advisory_xact_lock(key) from (
        -- Every transaction locks in the same order, to prevent deadlocks.
        select distinct hashtextextended('unmatched ' || bank || ' ' || session_id, 0) as key
        from unnest($1::text[], $2::text[]) as p(bank, session_id) order by key offset 0
      ) keys`,
    values: [
      textArray(payments.map(({ bank }) => bank)),
      textArray(payments.map(({ sessionId }) => sessionId)),
    ],
  })
}

/**
 * Locks the open reports of an unmatched payment until the commit, so that no other operator
 * resolves them.
 *
 * @returns the reports by id; none if the payment is already resolved
 */
export async function lockOpenReports(
  client: Queryable,
  unmatchedId: string,
): Promise<StoredUnmatched[]> {
  const result = await client.query<Row>({
    name: 'unmatched-payment-lock',
    text: `select ${COLUMNS} from unmatched_payment u join unmatched_payment n on u.session_id = n.session_id
        and u.bank = n.bank and u.account_number = n.account_number and u.amount_minor = n.amount_minor
      where n.id = $1 and n.resolution is null and u.resolution is null
      order by u.id for update of u`,
    values: [unmatchedId],
  })
  return result.rows.map(toStored)
}

/**
 * Records one of the locked reports of an unmatched payment for an account, with posting and event,
 * and resolves all of them. The account may be closed, since an operator chose it.
 *
 * @returns whether it was recorded; false if its session is already recorded
 */
export async function assignOpen(
  client: Queryable,
  unmatchedId: string,
  reportIds: readonly string[],
  row: Pick<
    NewTransaction,
    'id' | 'accountId' | 'businessId' | 'createdAtMs' | 'eventId' | 'payload' | 'recordedBy'
  > &
    Decided,
  note: string,
): Promise<boolean> {
  const result = await client.query({
    name: 'unmatched-payment-assign',
    text: `with payment as (
        select p.*, a.id as account_id, a.business_id, a.live
        from unmatched_payment p join account a on a.id = $3 and a.business_id = $4
          and a.bank = p.bank and a.status <> 'PENDING'
        where p.id = $1
      ), new_session as (
        insert into payment_session (session_id, bank, live, transaction_id)
        select session_id, bank, live, $2 from payment
        on conflict (session_id, bank, live) do nothing returning transaction_id
      ), recorded as (
        insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor,
          status, paid_at, created_at, payer_name, payer_account_number, payer_bank_code,
          payer_bank_name, narration, recorded_by)
        select $2, business_id, live, account_id, bank, session_id, amount_minor, status, paid_at,
          $5, payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration, $10
        from payment cross join new_session returning *, $11::text as variance, $12::text as hold,
          $13::boolean as is_use
      ), posted as (
        insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        select id, 'payment', business_id, live, 'clearing:' || bank,
          case when hold is null then 'pending' else 'held' end, amount_minor, created_at
        from recorded where status = 'SUCCESS'
      ), published as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
          pending_minor)
        select $6, business_id, live,
          case when hold is null then 'PAYMENT_NOTIFICATION' else 'PAYMENT_ON_HOLD' end, created_at, $7,
          id, case when hold is null then amount_minor else 0 end
        from recorded where status = 'SUCCESS'
      ), varied as (
        insert into payment_variance (transaction_id, business_id, live, account_id, variance, hold, is_use)
        select id, business_id, live, account_id, variance, hold, is_use
        from recorded where variance is not null
      )
      update unmatched_payment set resolution = 'ASSIGNED', resolved_at = $5, note = $8,
        transaction_id = $2
      where id = any ($9) and exists (select from recorded)`,
    values: [
      unmatchedId,
      row.id,
      row.accountId,
      row.businessId,
      new Date(row.createdAtMs),
      row.eventId,
      row.payload,
      note,
      reportIds,
      row.recordedBy,
      row.variance,
      row.hold,
      row.isUse,
    ],
  })
  return result.rowCount === reportIds.length
}

/**
 * Whether the session of an unmatched payment has been decided in another way: it is recorded, or a report of it was
 * assigned or is returned, whatever that report said. The caller has locked its reports.
 */
export async function isSessionTaken(
  client: Queryable,
  { bank, sessionId }: Pick<PaymentKey, 'bank' | 'sessionId'>,
): Promise<boolean> {
  const { rows } = await client.query<{ is_taken: boolean }>(
    `select exists (select from payment_session where session_id = $1 and bank = $2 and live)
      or exists (select from unmatched_payment
        where session_id = $1 and bank = $2 and resolution is not null) as is_taken`,
    [sessionId, bank],
  )
  return rows[0]?.is_taken === true
}

/** Whether a payment of a session was returned, or is being returned by a payout. The caller has locked its reports. */
export async function isSessionReturned(
  client: Queryable,
  { bank, sessionId }: Pick<PaymentKey, 'bank' | 'sessionId'>,
): Promise<boolean> {
  const { rows } = await client.query<{ is_returned: boolean }>(
    `select exists (select from unmatched_payment
        where session_id = $1 and bank = $2 and resolution in ('RETURNED', 'RETURNING')) as is_returned`,
    [sessionId, bank],
  )
  return rows[0]?.is_returned === true
}

/** Marks the locked reports of an unmatched payment as being returned by a payout. */
export async function beginReturn(
  client: Queryable,
  reportIds: readonly string[],
  {
    payoutId,
    note,
    nowMs,
  }: { readonly payoutId: string; readonly note: string; readonly nowMs: number },
): Promise<void> {
  await client.query(
    `update unmatched_payment set resolution = 'RETURNING', resolved_at = $3, note = $4, payout_id = $2
      where id = any ($1)`,
    [reportIds, payoutId, new Date(nowMs), note],
  )
}

/** Marks the unmatched payment of a payout as returned. The caller has changed the payout. */
export async function completeReturn(
  client: Queryable,
  payoutId: string,
  nowMs: number,
): Promise<void> {
  await client.query(
    `update unmatched_payment set resolution = 'RETURNED', resolved_at = $2 where payout_id = $1`,
    [payoutId, new Date(nowMs)],
  )
}

/** Reopens the unmatched payment of a payout that did not return it. The caller has changed the payout. */
export async function reopenUnmatched(client: Queryable, payoutId: string): Promise<void> {
  await client.query(
    `update unmatched_payment set resolution = null, resolved_at = null, note = '', payout_id = null
      where payout_id = $1`,
    [payoutId],
  )
}

/**
 * Resolves the open reports of a payment whose session is recorded already.
 *
 * @returns whether there were any
 */
export async function attachOpen(
  client: Queryable,
  id: string,
  transactionId: string,
  note: string,
  nowMs: number,
): Promise<boolean> {
  const reports = await lockOpenReports(client, id)
  await client.query(
    `update unmatched_payment set resolution = 'ASSIGNED', resolved_at = $3, note = $4, transaction_id = $2
      where id = any ($1)`,
    [reports.map((report) => report.id), transactionId, new Date(nowMs), note],
  )
  return reports.length > 0
}

/**
 * Marks all open reports of an unmatched payment as returned to the payer, unless the session is recorded, or a payout
 * returns another report of it. The caller has locked the session.
 *
 * @returns the updated payment; undefined if it was not updated
 */
export async function returnOpen(
  client: Queryable,
  id: string,
  note: string,
  nowMs: number,
): Promise<StoredUnmatched | undefined> {
  const reports = await lockOpenReports(client, id)
  const result = await client.query<Row>({
    name: 'unmatched-payment-return',
    text: `update unmatched_payment u set resolution = 'RETURNED', resolved_at = $2, note = $3
      where id = any ($1)
        and not exists (select from payment_session s
          where s.session_id = u.session_id and s.bank = u.bank and s.live offset 0)
        and not exists (select from unmatched_payment r
          where r.session_id = u.session_id and r.bank = u.bank and r.resolution = 'RETURNING' offset 0)
      returning ${COLUMNS}`,
    values: [reports.map((report) => report.id), new Date(nowMs), note],
  })
  const returned = result.rows.find((row) => row.id === id)
  return returned && toStored(returned)
}

/** Locks all reports of a session, including the resolved ones, by id, as recording does, too. */
export async function lockReports(
  client: Queryable,
  { bank, sessionId }: Pick<PaymentKey, 'bank' | 'sessionId'>,
): Promise<readonly StoredUnmatched[]> {
  const { rows } = await client.query<Row>(
    `select ${COLUMNS} from unmatched_payment u where session_id = $1 and bank = $2 order by id for update`,
    [sessionId, bank],
  )
  return rows.map(toStored)
}

/**
 * How unmatched payments were resolved, in their order; undefined if they were not. ASSIGNED takes
 * precedence over RETURNED.
 */
export async function resolutionsOf(
  on: Queryable,
  payments: readonly PaymentKey[],
): Promise<readonly (Resolution | undefined)[]> {
  const { rows } = await on.query<{ resolution: Resolution | null }>({
    name: 'unmatched-payment-resolution',
    text: `select (select resolution from unmatched_payment u where u.session_id = n.session_id
        and u.bank = n.bank and u.account_number = n.account_number and u.amount_minor = n.amount_minor
        and resolution is not null order by resolution = 'ASSIGNED' desc limit 1)
      from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
        with ordinality as n(session_id, bank, account_number, amount_minor, at) order by n.at`,
    values: [
      textArray(payments.map((payment) => payment.sessionId)),
      textArray(payments.map((payment) => payment.bank)),
      textArray(payments.map((payment) => payment.accountNumber)),
      bigintArray(payments.map((payment) => payment.amountMinor)),
    ],
  })
  return rows.map((row) => row.resolution ?? undefined)
}

function toStored({
  amount,
  resolution,
  resolvedAtMs,
  transactionId,
  payoutId,
  ...row
}: Row): StoredUnmatched {
  const { payerName, payerAccountNumber, payerBankCode, payerBankName, ...payment } = row
  return {
    ...payment,
    amountMinor: BigInt(amount),
    payer: {
      name: payerName,
      accountNumber: payerAccountNumber,
      bankCode: payerBankCode,
      bankName: payerBankName,
    },
    live: true,
    // The driver returns null.
    resolution: resolution ?? undefined,
    resolvedAtMs: resolvedAtMs ?? undefined,
    transactionId: transactionId ?? undefined,
    payoutId: payoutId ?? undefined,
  }
}

/** An unmatched payment about to be stored, with its event. */
export interface NewUnmatched extends UnmatchedPayment {
  readonly eventId: string
  readonly payload: Uint8Array
}

/** The result of inserting reports of unmatched payments, by the ids of their rows. */
interface InsertedReports {
  readonly inserted: ReadonlySet<string>
  /** An operator has assigned their payments in the meantime, so they are reports of recorded payments. */
  readonly assigned: ReadonlySet<string>
}

/**
 * Stores unmatched payments and their events in one commit. The same report is stored once. The
 * event belongs to no business.
 */
export function insertUnmatched(
  pool: Pool,
  rows: readonly NewUnmatched[],
): Promise<InsertedReports> {
  return inTransaction(pool, async (client) => {
    await lockReported(client, rows)
    const resolutions = await resolutionsOf(client, rows)
    const assigned = rows.filter((_, index) => resolutions[index] === 'ASSIGNED')
    const rest = rows.filter((_, index) => resolutions[index] !== 'ASSIGNED')
    const inserted = rest.length > 0 ? await insert(client, rest) : new Set<string>()
    return { inserted, assigned: new Set(assigned.map(({ id }) => id)) }
  })
}

async function insert(
  client: Queryable,
  rows: readonly NewUnmatched[],
): Promise<ReadonlySet<string>> {
  const result = await client.query<{ id: string }>({
    name: 'unmatched-payment-insert',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[],
          $6::text[], $7::timestamptz[], $8::timestamptz[], $9::text[], $10::text[], $11::text[],
          $12::text[], $13::text[], $14::text[], $15::bytea[])
          as i(id, bank, account_number, session_id, amount_minor, status, paid_at, created_at,
            payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration,
            event_id, payload)
      ), inserted as (
        insert into unmatched_payment (id, bank, account_number, session_id, amount_minor, status,
          paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
          narration)
        select id, bank, account_number, session_id, amount_minor, status, paid_at, created_at,
          payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration
        from input order by session_id, bank, account_number, amount_minor, status
        on conflict do nothing returning id
      ), published as (
        -- The event belongs to no business, so only operators receive it.
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        select event_id, '', true, 'PAYMENT_UNMATCHED', created_at, payload
        from input join inserted using (id)
      )
      select id from inserted`,
    values: [
      textArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.bank)),
      textArray(rows.map((row) => row.accountNumber)),
      textArray(rows.map((row) => row.sessionId)),
      bigintArray(rows.map((row) => row.amountMinor)),
      textArray(rows.map((row) => row.status)),
      timestampArray(rows.map((row) => row.paidAtMs)),
      timestampArray(rows.map((row) => row.createdAtMs)),
      textArray(rows.map((row) => row.payer.name)),
      textArray(rows.map((row) => row.payer.accountNumber)),
      textArray(rows.map((row) => row.payer.bankCode)),
      textArray(rows.map((row) => row.payer.bankName)),
      textArray(rows.map((row) => row.narration)),
      textArray(rows.map((row) => row.eventId)),
      byteaArray(rows.map((row) => row.payload)),
    ],
  })
  return new Set(result.rows.map((row) => row.id))
}
