import type { Database } from '../../postgres/orm.ts'
import { SettlementEntity, SettlementRequestEntity } from '../settlement.entity.ts'
import { listDue } from './list-due.ts'

/** What should have been settled, or completed, by a time. */
export interface Overdue {
  /** Balances without a settlement. */
  readonly balances: number
  readonly settlements: number
  readonly requests: number
}

export async function countOverdue(database: Database, byMs: number): Promise<Overdue> {
  const em = database.orm.em.fork()
  const by = { $lt: new Date(byMs) }
  let balances = 0
  for await (const _due of listDue(database, byMs, false)) balances += 1
  return {
    balances,
    settlements: await em.count(SettlementEntity, { status: 'RUNNING', startedAt: by }),
    requests: await em.count(SettlementRequestEntity, { completedAt: null, createdAt: by }),
  }
}
