import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { bigintArray, textArray } from '../postgres/binary-arrays.ts'
import { classifyRepeat, type TransactionStatus } from '../transactions/transaction.ts'

/** A payment as a bank's list or statement tells of it. */
export interface ReportedPayment {
  /** The bank's key of it; empty when it is not told. */
  readonly bankKey: string
  /** Empty when it is not told: then the key stands in. */
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: Exclude<TransactionStatus, 'PENDING'>
}

/** What is recorded under the session of a told payment. */
export interface RecordedPayment {
  readonly transactionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
}

/**
 * What a told payment is to what is recorded: the same; not there; another amount, account or final
 * status; or kept as nobody's, which it still is.
 */
export type Finding = 'matches' | 'missing' | 'differs' | 'unmatched'

export interface Found {
  readonly finding: Finding
  readonly recorded: RecordedPayment | undefined
  /** Whether the difference is kept for a person already. */
  readonly held: boolean
}

interface Row {
  transaction_id: string | null
  account_number: string | null
  amount_minor: string | null
  status: TransactionStatus | null
  resolution: string | null
  kept: boolean
  payee: boolean
  held: boolean
}

/** Compares told payments with what is recorded, in one statement; in their order. */
export async function matchPayments(
  pool: Pool,
  bank: BankCode,
  told: readonly ReportedPayment[],
): Promise<Found[]> {
  if (told.length === 0) return []
  const result = await pool.query<Row>({
    name: 'reconciliation-find-told',
    text: `select t.id as transaction_id, a.account_number, t.amount_minor, t.status, u.resolution,
        u.id is not null as kept,
        exists (select from account o
          where o.account_number = k.account_number and o.bank = $1 and o.live
            and o.status = 'ACTIVE') as payee,
        exists (select from payment_conflict c
          where c.transaction_id = t.id and c.account_number = k.account_number
            and c.amount_minor = k.amount_minor and c.status = k.status) as held
      from unnest($2::text[], $3::text[], $4::text[], $5::bigint[],
        $6::text[]) with ordinality as k(bank_key, session_id, account_number, amount_minor, status, at)
      left join bank_payment_key p on p.bank = $1 and p.bank_key = k.bank_key
      left join transaction t
        on t.session_id = coalesce(p.session_id, k.session_id) and t.bank = $1 and t.live
      left join account a on a.id = t.account_id
      left join unmatched_payment u
        on u.session_id = coalesce(p.session_id, k.session_id) and u.bank = $1
          and u.account_number = k.account_number and u.amount_minor = k.amount_minor
          and u.status = 'SUCCESS'
      order by k.at`,
    values: [
      bank,
      textArray(told.map(({ bankKey }) => bankKey)),
      textArray(told.map(({ bankKey, sessionId }) => sessionId || bankKey)),
      textArray(told.map(({ accountNumber }) => accountNumber)),
      bigintArray(told.map(({ amountMinor }) => amountMinor)),
      textArray(told.map(({ status }) => status)),
    ],
  })
  return told.map((payment, index) => toFound(payment, result.rows[index] as Row))
}

function toFound(told: ReportedPayment, row: Row): Found {
  if (row.transaction_id === null) {
    return { finding: ofNobody(told, row), recorded: undefined, held: false }
  }
  const recorded: RecordedPayment = {
    transactionId: row.transaction_id,
    accountNumber: row.account_number ?? '',
    amountMinor: BigInt(row.amount_minor ?? 0),
    status: row.status ?? 'PENDING',
  }
  const finding = ofRecorded(told, recorded, row.resolution === 'ASSIGNED')
  return { finding, recorded, held: row.held }
}

function ofNobody({ status }: ReportedPayment, { kept, resolution, payee }: Row): Finding {
  // Money that did not come, or went back, is rightly not here.
  if (status !== 'SUCCESS' || resolution === 'RETURNED') return 'matches'
  // An account that was opened since takes it.
  return kept && !payee ? 'unmatched' : 'missing'
}

/** @param assigned a person gave the payment to another account than it was paid to */
function ofRecorded(told: ReportedPayment, recorded: RecordedPayment, assigned: boolean): Finding {
  const accountNumber = assigned ? told.accountNumber : recorded.accountNumber
  const { status } = told
  if (status === 'REVERSED') {
    const same = recorded.amountMinor === told.amountMinor && accountNumber === told.accountNumber
    return same && ['REVERSED', 'FAILED'].includes(recorded.status) ? 'matches' : 'differs'
  }
  const repeat = classifyRepeat({ ...recorded, accountNumber }, { ...told, status })
  if (repeat === 'final') return status === 'SUCCESS' ? 'missing' : 'differs'
  return repeat === 'duplicate' ? 'matches' : 'differs'
}
