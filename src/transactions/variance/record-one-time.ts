import type { Pool, PoolClient } from 'pg'
import type { Logger } from 'pino'
import {
  type LockedTerms,
  lockOneTimeAccounts,
  useAccounts,
} from '../../accounts/one-time-store.ts'
import { afterCommit } from '../../core/after-commit.ts'
import { assert } from '../../core/errors.ts'
import { booleanArray, textArray } from '../../postgres/binary-arrays.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import { PAYMENT_POSTING } from '../ledger/append-postings.ts'
import {
  type Finalization,
  finalizeText,
  finalizeValues,
  type NewTransaction,
  PAYMENT_EVENT,
  type RecordParts,
  recordText,
  recordValues,
} from '../store.ts'
import type { StoredTransaction } from '../transaction.ts'
import { type HoldState, newVariance, type Variance, varianceOf } from './variance.ts'

/** A payment into a one-time account. */
interface OneTimePayment<Row> {
  readonly accountId: string
  readonly isSingleUse: boolean
  readonly transaction: StoredTransaction
  /** The row to write, with the event of the transaction as it was decided. */
  readonly toRow: (transaction: StoredTransaction) => Row
}

/** A decided payment, and whether it was written. It was not if its session is known or its account closed. */
interface Written<Row> {
  readonly isWritten: boolean
  readonly transaction: StoredTransaction
  readonly row: Row
}

interface Dependencies {
  readonly pool: Pool
  readonly log: Logger
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}

/**
 * Records payments into one-time accounts. Each is decided while its account is locked, and recorded in the same
 * transaction: of two payments at once into a single-use account, the second sees the first.
 *
 * @param onWritten called with what each transaction has written, after its commit, in the order of the payments
 */
export function recordOneTime<Payment extends OneTimePayment<NewTransaction>>(
  dependencies: Dependencies,
  payments: readonly Payment[],
  nowMs: number,
  onWritten: (payment: Payment, written: Written<NewTransaction>) => void,
): Promise<void> {
  const write = { run: insertOneTime, keyOf: ({ id }: NewTransaction) => id }
  return writeInRounds(dependencies, payments, nowMs, write, onWritten)
}

/** As `recordOneTime`, for the final reports of pending payments. */
export function finalizeOneTimePayments<Payment extends OneTimePayment<Finalization>>(
  dependencies: Dependencies,
  payments: readonly Payment[],
  nowMs: number,
  onWritten: (payment: Payment, written: Written<Finalization>) => void,
): Promise<void> {
  const write = { run: finalizeOneTime, keyOf: ({ eventId }: Finalization) => eventId }
  return writeInRounds(dependencies, payments, nowMs, write, onWritten)
}

interface Write<Row> {
  readonly run: (
    client: Parameters<typeof insertOneTime>[0],
    rows: readonly (Row & Decided)[],
  ) => Promise<ReadonlySet<string>>
  readonly keyOf: (row: Row) => string
}

async function writeInRounds<Row extends object, Payment extends OneTimePayment<Row>>(
  { pool, log, onCommit }: Dependencies,
  payments: readonly Payment[],
  nowMs: number,
  { run, keyOf }: Write<Row>,
  onWritten: (payment: Payment, written: Written<Row>) => void,
): Promise<void> {
  const accountOf = ({ accountId: id, isSingleUse }: Payment) => ({ id, isSingleUse })
  for (const round of roundsOf(payments, accountOf)) {
    const { decided, written } = await inTransaction(pool, async (client) => {
      const ids = round.map(({ accountId }) => accountId)
      const accounts = await lockOneTimeAccounts(client, ids)
      const decided = round.map((payment) => {
        const terms = accounts.get(payment.accountId)
        assert(terms, 'whether an account is for one time never changes')
        const { transaction, decided } = decidePayment(terms, payment.transaction)
        return { payment, transaction, row: { ...payment.toRow(transaction), ...decided } }
      })
      const written = await run(
        client,
        decided.map(({ row }) => row),
      )
      const used = decided.filter(({ row }) => row.isUse && written.has(keyOf(row)))
      if (used.length > 0) {
        const usedIds = used.map(({ payment }) => payment.accountId)
        await useAccounts(client, usedIds, nowMs)
      }
      return { decided, written }
    })
    for (const { payment, transaction, row } of decided) {
      onWritten(payment, { isWritten: written.has(keyOf(row)), transaction, row })
    }
    if (written.size > 0) afterCommit(log, onCommit)
  }
}

/** A payment into a one-time account, and what is decided of it. */
interface DecidedPayment {
  readonly transaction: StoredTransaction
  readonly decided: Decided
}

/** Decides about a payment by the terms of its account, which the caller has locked until the commit. */
export function decidePayment(terms: LockedTerms, payment: StoredTransaction): DecidedPayment {
  if (payment.status !== 'SUCCESS') {
    return { transaction: payment, decided: { variance: null, hold: null, isUse: false } }
  }
  const isUsed = terms.usedAtMs !== undefined
  const variance = newVariance(varianceOf(terms, isUsed, payment))
  return {
    transaction: { ...payment, variance },
    decided: {
      variance: variance.variance,
      hold: variance.hold ?? null,
      isUse: terms.singleUse && variance.hold === undefined,
    },
  }
}

/**
 * Splits payments into rounds, each with at most one payment into a single-use account: its outcome decides about the
 * next one.
 */
export function roundsOf<Payment>(
  payments: readonly Payment[],
  accountOf: (payment: Payment) => { readonly id: string; readonly isSingleUse: boolean },
): readonly (readonly Payment[])[] {
  const counts = new Map<string, number>()
  const rounds: Payment[][] = []
  for (const payment of payments) {
    const { id, isSingleUse } = accountOf(payment)
    const round = counts.get(id) ?? 0
    if (isSingleUse) counts.set(id, round + 1)
    rounds[round] ??= []
    rounds[round]?.push(payment)
  }
  return rounds
}

/** What is decided of a payment whose money has arrived, while its account is locked. */
export interface Decided {
  /** Null: the money has not arrived. */
  readonly variance: Variance | null
  /** Null: it is credited. */
  readonly hold: HoldState | null
  /** Whether it uses up its single-use account. */
  readonly isUse: boolean
}

/** The posting of a payment that may be held: the source has a column `hold`, which is null if it is not. */
export const HELD_POSTING: typeof PAYMENT_POSTING = {
  ...PAYMENT_POSTING,
  credit_account: "case when hold is null then 'pending' else 'held' end",
}

/** The event of such a payment: a held one changes no balance, and has a kind of its own. */
export const HELD_EVENT: typeof PAYMENT_EVENT = {
  ...PAYMENT_EVENT,
  kind: "case when hold is null then 'PAYMENT_NOTIFICATION' else 'PAYMENT_ON_HOLD' end",
  pending_minor: 'case when hold is null then amount_minor else 0 end',
}

/** SQL that inserts variances. @param source SQL that begins with `from`, with the columns of both */
export function insertVariances(source: string): string {
  return `insert into payment_variance (transaction_id, business_id, live, account_id, variance, hold, is_use)
          select id, business_id, live, account_id, variance, hold, is_use ${source}`
}

const ONE_TIME: RecordParts = {
  columns: ', variance, hold, is_use',
  posting: HELD_POSTING,
  event: HELD_EVENT,
  further: (source) => `, varied as (
        ${insertVariances(source)}
      )`,
}

const RECORD = recordText(ONE_TIME, ', $20::text[], $21::text[], $22::boolean[]')

const FINALIZE = finalizeText(ONE_TIME, ', $8::text[], $9::text[], $10::boolean[]')

/** As `insertTransactions`, for payments into one-time accounts that the transaction has locked. */
async function insertOneTime(
  client: PoolClient,
  rows: readonly (NewTransaction & Decided)[],
): Promise<ReadonlySet<string>> {
  const { rows: recorded } = await client.query<{ id: string }>({
    name: 'transaction-record-one-time',
    text: RECORD,
    values: [...recordValues(rows), ...decidedArrays(rows)],
  })
  return new Set(recorded.map((row) => row.id))
}

/** As `finalizeTransactions`, for payments into one-time accounts that the transaction has locked. */
async function finalizeOneTime(
  client: PoolClient,
  rows: readonly (Finalization & Decided)[],
): Promise<ReadonlySet<string>> {
  const { rows: finalized } = await client.query<{ event_id: string }>({
    name: 'transaction-finalize-one-time',
    text: FINALIZE,
    values: [...finalizeValues(rows), ...decidedArrays(rows)],
  })
  return new Set(finalized.map((row) => row.event_id))
}

function decidedArrays(rows: readonly Decided[]): Buffer[] {
  return [
    textArray(rows.map((row) => row.variance)),
    textArray(rows.map((row) => row.hold)),
    booleanArray(rows.map((row) => row.isUse)),
  ]
}
