import type { Pool } from 'pg'
import type { AccountAtBank, BankCode } from '../banks/bank.ts'

interface Walk {
  readonly bank: BankCode
  /** The account that was looked at last; empty at the beginning. */
  readonly afterId: string
  /** Those alone that were paid into since; undefined: all. */
  readonly paidSinceMs: number | undefined
  readonly limit: number
}

/** A portion of the open accounts that a bank has: those of test mode it does not know. */
interface Portion {
  readonly accounts: readonly AccountAtBank[]
  /** Where the next one begins; undefined at the end. */
  readonly place: string | undefined
}

/** How many accounts one statement looks at, whether or not they were paid into. */
const SCANNED_MAX = 2_000

export async function listAccountsPage(pool: Pool, walk: Walk): Promise<Portion> {
  const { bank, afterId, paidSinceMs, limit } = walk
  const scannedMax = paidSinceMs === undefined ? limit : SCANNED_MAX
  const result = await pool.query<{
    id: string
    reference: string
    account_number: string
    bank_account_id: string
    wanted: boolean
  }>({
    name: 'reconciliation-accounts-walk',
    text: `select a.id, a.reference, a.account_number, a.bank_account_id,
        $3::timestamptz is null or exists (
          select from transaction t where t.account_id = a.id and t.paid_at >= $3) as wanted
      from (select * from account where bank = $1 and status = 'ACTIVE' and live and id > $2
        order by id limit $4) a order by a.id`,
    values: [bank, afterId, paidSinceMs === undefined ? null : new Date(paidSinceMs), scannedMax],
  })
  const wanted = result.rows.filter((row) => row.wanted)
  const taken = wanted.slice(0, limit)
  const last = wanted.length > limit ? taken.at(-1) : result.rows.at(-1)
  const more = wanted.length > limit || result.rows.length === scannedMax
  return {
    accounts: taken.map((row) => ({
      reference: row.reference,
      accountNumber: row.account_number,
      bankAccountId: row.bank_account_id,
    })),
    place: more ? last?.id : undefined,
  }
}
