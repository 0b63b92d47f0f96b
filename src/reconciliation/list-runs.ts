import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type ReconciliationRun,
  ReconciliationRunSchema,
  RunScope as ScopeMessage,
} from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { BankCode } from '../banks/bank.ts'
import { fromBankCode } from '../banks/message.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { RowOf } from '../postgres/row-of.ts'
import type { RunEntity, RunScope } from './run.entity.ts'

const SCOPES: Readonly<Record<RunScope, ScopeMessage>> = {
  payments: ScopeMessage.PAYMENTS,
  'active accounts': ScopeMessage.ACTIVE_ACCOUNTS,
  'all accounts': ScopeMessage.ALL_ACCOUNTS,
}

/** The latest run of each bank and scope. @param bank undefined: of all banks */
export async function listRuns(
  on: Queryable,
  bank: BankCode | undefined,
): Promise<ReconciliationRun[]> {
  const { rows } = await on.query<RowOf<typeof RunEntity>>(
    `select bank, scope, in_progress, cursor, missed, failures, ${epochMs('from_at')} as from_at_ms,
        ${epochMs('to_at')} as to_at_ms, ${epochMs('next_at')} as next_at_ms
      from reconciliation_run where bank = coalesce($1, bank) order by bank, scope desc`,
    [bank ?? null],
  )
  return rows.map((row) =>
    create(ReconciliationRunSchema, {
      bank: fromBankCode(row.bank),
      scope: SCOPES[row.scope],
      inProgress: row.in_progress,
      from: timestampFromMs(row.from_at_ms),
      to: timestampFromMs(row.to_at_ms),
      missedCount: row.missed,
      failureCount: row.failures,
      nextAt: timestampFromMs(row.next_at_ms),
      cursor: row.cursor,
    }),
  )
}
