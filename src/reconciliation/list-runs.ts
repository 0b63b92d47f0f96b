import type { BankCode } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { RowOf } from '../postgres/row-of.ts'
import type { RunEntity } from './run.entity.ts'

/** A run; times in milliseconds since the Unix epoch. */
export type RunRow = RowOf<typeof RunEntity>

/** The latest run of each bank and scope. @param bank undefined: of all banks */
export async function listRuns(on: Queryable, bank?: BankCode): Promise<readonly RunRow[]> {
  const { rows } = await on.query<RunRow>(
    `select bank, scope, in_progress, cursor, missed, failures, ${epochMs('from_at')} as from_at_ms,
        ${epochMs('to_at')} as to_at_ms, ${epochMs('next_at')} as next_at_ms
      from reconciliation_run where bank = coalesce($1, bank) order by bank, scope desc`,
    [bank ?? null],
  )
  return rows
}
