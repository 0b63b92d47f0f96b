import type { PoolClient } from 'pg'
import { booleanArray, textArray } from '../../postgres/binary-arrays.ts'
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
import type { HoldState, Variance } from './variance.ts'

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
export async function insertOneTime(
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
export async function finalizeOneTime(
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
