import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { bigintArray, textArray } from '../postgres/binary-arrays.ts'
import { classifyRepeat, type TransactionStatus } from '../transactions/transaction.ts'

/** A payment as a bank's list or statement describes it. */
export interface ReportedPayment {
  /** The bank's key; empty if it is not given. */
  readonly bankKey: string
  /** Empty if it is not given: then the key takes its place. */
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: Exclude<TransactionStatus, 'PENDING'>
}

/** The transaction with the session id of a reported payment. */
export interface RecordedPayment {
  readonly transactionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
}

/**
 * How a reported payment compares with the recorded ones: the same; not recorded; recorded with
 * another amount, account or final status; or recorded as unmatched, and still without an account.
 */
export type Finding = 'MATCHED' | 'MISSING' | 'MISMATCHED' | 'UNMATCHED'

export interface Match {
  readonly finding: Finding
  readonly recorded: RecordedPayment | undefined
  /** Whether this conflict is already in manual review. */
  readonly conflictRecorded: boolean
}

interface Row {
  transaction_id: string | null
  account_number: string | null
  amount_minor: string | null
  status: TransactionStatus | null
  resolution: string | null
  is_unmatched: boolean
  account_open: boolean
  conflict_recorded: boolean
}

/** Compares reported payments with the recorded ones in one statement; returns them in order. */
export async function matchPayments(
  pool: Pool,
  bank: BankCode,
  reported: readonly ReportedPayment[],
): Promise<Match[]> {
  if (reported.length === 0) return []
  const result = await pool.query<Row>({
    name: 'reconciliation-match-payments',
    text: `select t.id as transaction_id, a.account_number, t.amount_minor, t.status, u.resolution,
        u.id is not null as is_unmatched,
        exists (select from account o
          where o.account_number = r.account_number and o.bank = $1 and o.live
            and o.status = 'ACTIVE') as account_open,
        exists (select from payment_conflict c
          where c.transaction_id = t.id and c.account_number = r.account_number
            and c.amount_minor = r.amount_minor and c.status = r.status) as conflict_recorded
      from unnest($2::text[], $3::text[], $4::text[], $5::bigint[],
        $6::text[]) with ordinality as r(bank_key, session_id, account_number, amount_minor, status, at)
      left join bank_payment_key p on p.bank = $1 and p.bank_key = r.bank_key
      left join transaction t
        on t.session_id = coalesce(p.session_id, r.session_id) and t.bank = $1 and t.live
      left join account a on a.id = t.account_id
      left join unmatched_payment u
        on u.session_id = coalesce(p.session_id, r.session_id) and u.bank = $1
          and u.account_number = r.account_number and u.amount_minor = r.amount_minor
          and u.status = 'SUCCESS'
      order by r.at`,
    values: [
      bank,
      textArray(reported.map(({ bankKey }) => bankKey)),
      textArray(reported.map(({ bankKey, sessionId }) => sessionId || bankKey)),
      textArray(reported.map(({ accountNumber }) => accountNumber)),
      bigintArray(reported.map(({ amountMinor }) => amountMinor)),
      textArray(reported.map(({ status }) => status)),
    ],
  })
  return reported.map((payment, index) => toMatch(payment, result.rows[index] as Row))
}

function toMatch(reported: ReportedPayment, row: Row): Match {
  if (row.transaction_id === null) {
    const finding = compareUnrecorded(reported, row)
    return { finding, recorded: undefined, conflictRecorded: false }
  }
  const recorded: RecordedPayment = {
    transactionId: row.transaction_id,
    accountNumber: row.account_number ?? '',
    amountMinor: BigInt(row.amount_minor ?? 0),
    status: row.status ?? 'PENDING',
  }
  const finding = compareRecorded(reported, recorded, row.resolution === 'ASSIGNED')
  return { finding, recorded, conflictRecorded: row.conflict_recorded }
}

function compareUnrecorded({ status }: ReportedPayment, row: Row): Finding {
  // Money that did not arrive, or was returned, is rightly not recorded.
  if (status !== 'SUCCESS' || row.resolution === 'RETURNED') return 'MATCHED'
  // If its account has been opened since, the payment can be recorded.
  return row.is_unmatched && !row.account_open ? 'UNMATCHED' : 'MISSING'
}

/** @param assigned whether an operator assigned the payment to another account than the payer named */
function compareRecorded(
  reported: ReportedPayment,
  recorded: RecordedPayment,
  assigned: boolean,
): Finding {
  const accountNumber = assigned ? reported.accountNumber : recorded.accountNumber
  const { status } = reported
  if (status === 'REVERSED') {
    const same =
      recorded.amountMinor === reported.amountMinor && accountNumber === reported.accountNumber
    return same && ['REVERSED', 'FAILED'].includes(recorded.status) ? 'MATCHED' : 'MISMATCHED'
  }
  const repeat = classifyRepeat({ ...recorded, accountNumber }, { ...reported, status })
  if (repeat === 'final') return status === 'SUCCESS' ? 'MISSING' : 'MISMATCHED'
  return repeat === 'duplicate' ? 'MATCHED' : 'MISMATCHED'
}
