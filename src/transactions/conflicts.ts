import type { EntityManager } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor, BusinessScope } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import { afterCommit, inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import { queriesOf, queryableOf } from '../postgres/queries-of.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { encodeConflictEvent } from './message.ts'
import type { PaymentConflictEntity } from './transaction.entity.ts'
import type {
  IncomingPayment,
  ListedConflict,
  StoredConflict,
  TransactionStatus,
} from './transaction.ts'

/** The unresolved reports that contradict recorded payments, newest first. */
export async function listConflicts(
  on: Queryable,
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
) {
  const page = readPage(pageSize, pageToken, 1)
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from (
        select * from payment_conflict where resolved_at is null and ($1::text is null or id < $1)
          order by id desc limit $2
      ) c join transaction t on t.id = c.transaction_id join account a on a.id = t.account_id
      order by c.id desc`,
    [page.after?.[0] ?? null, page.limit + 1],
  )
  return cutPage(rows.map(toListed), page, ({ id }) => [id])
}

/**
 * Ends the manual review of a report. The recorded payment does not change.
 *
 * Faults: not_found.
 */
export async function resolveConflict(
  { database: { durablePool }, clock }: Runtime,
  { conflictId, note }: { readonly conflictId: string; readonly note: string },
  actor: Actor,
): Promise<ListedConflict> {
  await inTransaction(durablePool, async (client) => {
    const { rowCount } = await client.query(
      `update payment_conflict set resolved_at = $2, note = $3
        where id = $1 and resolved_at is null`,
      [conflictId, new Date(clock.now()), note],
    )
    if (rowCount === 0) return
    await appendAudit(client, actor, {
      action: 'payment_conflict.resolve',
      targetId: conflictId,
      details: { note },
    })
  })
  const conflict = await findConflict(durablePool, conflictId)
  if (conflict === undefined) throw new Fault('not_found', 'There is no such conflict')
  return conflict
}

interface Row
  extends Omit<ListedConflict, 'amountMinor' | 'createdAt' | 'resolvedAtMs' | 'recorded'> {
  readonly amount: string
  readonly createdAtMs: number
  readonly resolvedAtMs: number | null
  readonly businessId: string
  readonly live: boolean
  readonly recordedAccountNumber: string
  readonly recordedAmount: string
  readonly recordedStatus: TransactionStatus
}

/** The columns of a `Row`, of a conflict `c`, its transaction `t` and the transaction's account `a`. */
const COLUMNS = `c.id, t.bank, c.transaction_id as transaction, c.account_number as "accountNumber",
  c.amount_minor as amount, c.status, round(date_part('epoch', c.created_at) * 1000) as "createdAtMs",
  round(date_part('epoch', c.resolved_at) * 1000) as "resolvedAtMs", c.note, t.session_id as "sessionId",
  t.business_id as "businessId", t.live, a.account_number as "recordedAccountNumber",
  t.amount_minor as "recordedAmount", t.status as "recordedStatus"`

/** The reports that contradict a transaction, including resolved reports, oldest first. */
export async function listConflictsOf(
  on: Queryable,
  transactionId: string,
  limit: number,
): Promise<readonly ListedConflict[]> {
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from payment_conflict c join transaction t on t.id = c.transaction_id join account a on a.id = t.account_id
      where c.transaction_id = $1 order by c.id limit $2`,
    [transactionId, limit],
  )
  return rows.map(toListed)
}

export async function findConflict(on: Queryable, id: string): Promise<ListedConflict | undefined> {
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from payment_conflict c join transaction t on t.id = c.transaction_id join account a on a.id = t.account_id
      where c.id = $1`,
    [id],
  )
  return rows[0] && toListed(rows[0])
}

function toListed({ amount, createdAtMs, resolvedAtMs, ...row }: Row): ListedConflict {
  const { businessId, live, recordedAccountNumber, recordedAmount, recordedStatus, ...conflict } =
    row
  return {
    ...conflict,
    amountMinor: BigInt(amount),
    createdAt: new Date(createdAtMs),
    resolvedAtMs: resolvedAtMs ?? undefined,
    recorded: {
      businessId,
      live,
      recordedAccountNumber,
      recordedAmountMinor: BigInt(recordedAmount),
      recordedStatus,
    },
  }
}

/** How many rows one page may scan. */
const ROWS_MAX = 1_000

/**
 * The open reports that contradict recorded payments, oldest first.
 *
 * @param after the id of the last report of the previous page; empty: the first page
 * @returns `readUpTo`: the last id that was scanned, if the scan limit ended the page
 */
export async function listOldestConflicts(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  after: string,
  limit: number,
) {
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from (
        select * from payment_conflict where resolved_at is null and id > $1 order by id limit ${ROWS_MAX}
      ) c join transaction t on t.id = c.transaction_id join account a on a.id = t.account_id
      where ($2::text[] is null or t.business_id = any ($2)) and ($3::boolean is null or t.live = $3)
      order by c.id limit $4`,
    [after, businessIds ?? null, live ?? null, limit],
  )
  const conflicts = rows.map(toListed)
  const readUpTo = conflicts.length < limit ? await lastScanned(on, after) : undefined
  return { conflicts, readUpTo }
}

/** @returns the last id that a page after `after` scans; undefined if it scans all */
async function lastScanned(on: Queryable, after: string): Promise<string | undefined> {
  const { rows } = await on.query<{ id: string }>(
    `select id from payment_conflict where resolved_at is null and id > $1
      order by id offset ${ROWS_MAX - 1} limit 1`,
    [after],
  )
  return rows[0]?.id
}

/** Counts the reports that pass the filter among the `max` oldest open reports. */
export async function countWaitingConflicts(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  max: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count
      from (select * from payment_conflict where resolved_at is null order by id limit $1) c
      join transaction t on t.id = c.transaction_id
      where ($2::text[] is null or t.business_id = any ($2)) and ($3::boolean is null or t.live = $3)`,
    [max, businessIds ?? null, live ?? null],
  )
  return rows[0]?.count ?? 0
}

/** A report that contradicts a recorded transaction. */
export interface ConflictingReport {
  readonly bank: BankCode
  readonly transactionId: string
  readonly reported: Pick<IncomingPayment, 'sessionId' | 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  }
}

interface Dependencies {
  /** Called once for each distinct report. */
  readonly onConflict: (conflict: StoredConflict) => void
}

/**
 * Stores reports that contradict recorded transactions for manual review, in one commit. The same
 * report is stored once.
 */
export async function recordConflicts(
  { database: { orm }, clock, log }: Runtime,
  { onConflict }: Dependencies,
  reports: readonly ConflictingReport[],
): Promise<void> {
  const createdAt = new Date(clock.now())
  const rows = reports.map(({ transactionId, reported }) => {
    const { accountNumber, amountMinor, status } = reported
    const id = newId('cfl', createdAt.getTime())
    return { transaction: transactionId, accountNumber, amountMinor, status, id, createdAt }
  })
  // Every statement inserts in the same order, to prevent deadlocks.
  const keyOf = (row: (typeof rows)[number]) =>
    `${row.transaction} ${row.accountNumber} ${row.amountMinor} ${row.status}`
  rows.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  const reportOf = new Map(reports.map((report) => [report.transactionId, report]))
  const inserted = await orm.em.fork().transactional(async (em) => {
    const stored = await queriesOf<typeof PaymentConflictEntity>(em)
      .insertInto('payment_conflict')
      .values(rows)
      .onConflict((conflicting) => conflicting.doNothing())
      .returning(['id', 'transaction', 'accountNumber', 'amountMinor', 'status', 'createdAt'])
      .execute()
    const held = stored.map((row) => {
      const { bank, reported } = reportOf.get(row.transaction) as ConflictingReport
      return { ...row, bank, sessionId: reported.sessionId }
    })
    if (held.length > 0) await appendHeld(em, held, createdAt.getTime())
    return held
  })
  for (const conflict of inserted) afterCommit(log, () => onConflict(conflict))
}

/** The events belong to no business, so only operators receive them. */
async function appendHeld(
  em: EntityManager,
  conflicts: readonly StoredConflict[],
  nowMs: number,
): Promise<void> {
  const ids = conflicts.map(() => newId('evt', nowMs))
  const payloads = conflicts.map((conflict, index) =>
    encodeConflictEvent(conflict, ids[index] as string, nowMs),
  )
  await queryableOf(em).query({
    text: `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
      select event_id, '', true, 'PAYMENT_HELD', $3::timestamptz, payload
      from unnest($1::text[], $2::bytea[]) as i(event_id, payload)`,
    values: [textArray(ids), byteaArray(payloads), new Date(nowMs)],
  })
}
