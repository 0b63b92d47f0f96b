import type { Pool } from 'pg'
import type { AccountAtBank, BankCode } from '../banks/bank.ts'

interface AccountsRequest {
  readonly bank: BankCode
  /** The last account of the page before; empty at the beginning. */
  readonly afterId: string
  /** Only accounts with a payment since then; undefined: all. */
  readonly paidSinceMs: number | undefined
  readonly limit: number
}

interface AccountsPage {
  readonly accounts: readonly AccountAtBank[]
  /** Where the next page begins; undefined at the end. */
  readonly cursor: string | undefined
}

/** How many accounts one statement reads, whether or not they have payments. */
const SCANNED_MAX = 2_000

/** Lists the open live accounts of a bank: the bank does not know those of test mode. */
export async function listAccountsPage(
  pool: Pool,
  { bank, afterId, paidSinceMs, limit }: AccountsRequest,
): Promise<AccountsPage> {
  const scannedMax = paidSinceMs === undefined ? limit : SCANNED_MAX
  const result = await pool.query<{
    id: string
    reference: string
    account_number: string
    bank_account_id: string
    requested: boolean
  }>({
    name: 'reconciliation-list-accounts',
    text: `select a.id, a.reference, a.account_number, a.bank_account_id,
        $3::timestamptz is null or exists (
          select from transaction t where t.account_id = a.id and t.paid_at >= $3) as requested
      from (select * from account where bank = $1 and status = 'ACTIVE' and live and id > $2
        order by id limit $4) a order by a.id`,
    values: [bank, afterId, paidSinceMs === undefined ? null : new Date(paidSinceMs), scannedMax],
  })
  const requested = result.rows.filter((row) => row.requested)
  const page = requested.slice(0, limit)
  const last = requested.length > limit ? page.at(-1) : result.rows.at(-1)
  const more = requested.length > limit || result.rows.length === scannedMax
  return {
    accounts: page.map((row) => ({
      reference: row.reference,
      accountNumber: row.account_number,
      bankAccountId: row.bank_account_id,
    })),
    cursor: more ? last?.id : undefined,
  }
}
