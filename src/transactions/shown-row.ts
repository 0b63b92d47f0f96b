import type { Metadata } from '../accounts/terms/terms.ts'
import type { BankCode } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import { SHOWN_SETTLED } from './transaction.sql.ts'
import type { ShownTransaction, TransactionStatus } from './transaction.ts'
import { expectationOf, toVariance, VARIANCE, type VarianceArray } from './variance/variance.sql.ts'

/** The fields that a business sees, of a transaction `t` and its account `a`. */
export const SHOWN_COLUMNS = `t.session_id, t.bank, t.amount_minor, t.status, ${SHOWN_SETTLED},
  ${epochMs('t.paid_at')}, a.reference, a.account_number, a.account_name, a.first_name,
  a.last_name, a.email, a.one_time, a.expected_amount_minor, a.metadata, ${VARIANCE}`

/** A row of these columns, after its place in the look-up. */
export type ShownRow = [
  ...[at: number, sessionId: string, bank: BankCode, amountMinor: string],
  ...[status: TransactionStatus, settled: boolean, paidAtMs: number],
  ...[reference: string, accountNumber: string, accountName: string],
  ...[firstName: string, lastName: string, email: string],
  ...[oneTime: boolean, expectedAmountMinor: string | null, metadata: Metadata | null],
  variance: VarianceArray | null,
]

export function toShown(row: ShownRow): ShownTransaction {
  return {
    sessionId: row[1],
    bank: row[2],
    amountMinor: BigInt(row[3]),
    status: row[4],
    settled: row[5],
    paidAtMs: row[6],
    account: {
      reference: row[7],
      accountNumber: row[8],
      accountName: row[9],
      firstName: row[10],
      lastName: row[11],
      email: row[12],
      terms: expectationOf(row[13], row[14]),
      metadata: row[15] ?? undefined,
    },
    variance: toVariance(row[16]),
  }
}
