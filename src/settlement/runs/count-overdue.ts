import type { Pool } from 'pg'
import type { Database } from '../../postgres/orm.ts'
import { SettlementEntity, SettlementRequestEntity } from '../settlement.entity.ts'

/** What should have been settled, or completed, by a time. */
export interface Overdue {
  /** Balances without a settlement. */
  readonly balances: number
  readonly settlements: number
  readonly requests: number
}

export async function countOverdue({ pool, orm }: Database, byMs: number): Promise<Overdue> {
  const em = orm.em.fork()
  const by = { $lt: new Date(byMs) }
  return {
    balances: await countBalances(pool, byMs),
    settlements: await em.count(SettlementEntity, { status: 'RUNNING', startedAt: by }),
    requests: await em.count(SettlementRequestEntity, { completedAt: null, createdAt: by }),
  }
}

async function countBalances(pool: Pool, byMs: number): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from settlement_due d where d.due_at <= $1 and not exists (
        select from settlement s where s.business_id = d.business_id and s.live = d.live
          and s.status = 'RUNNING')`,
    [new Date(byMs)],
  )
  return rows[0]?.count ?? 0
}
