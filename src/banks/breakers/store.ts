import type { EntityManager } from '@mikro-orm/postgresql'
import { sql } from 'kysely'
import { queriesOf } from '../../postgres/queries-of.ts'
import type { BankCode } from '../bank.ts'
import type { BreakerState } from '../http/circuit-breaker.ts'
import type { BreakerEntity } from './breaker.entity.ts'

/** A bank whose circuit breaker is not closed, or that denies access. */
interface TrippedBreaker {
  readonly bank: BankCode
  readonly state: BreakerState
  readonly denial: string
}

const NOW = sql<Date>`clock_timestamp()`

/** Stores which breakers of a process are not closed and which banks deny it access, in place of those before. */
export async function replaceBreakers(
  em: EntityManager,
  processId: string,
  tripped: readonly TrippedBreaker[],
): Promise<void> {
  const queries = queriesOf<typeof BreakerEntity>(em)
  const banks = tripped.map(({ bank }) => bank)
  await queries
    .deleteFrom('bank_breaker')
    .where(({ or, and, eb }) =>
      or([
        and([
          eb('processId', '=', processId),
          ...(banks.length > 0 ? [eb('bank', 'not in', banks)] : []),
        ]),
        eb('seenAt', '<', sql<Date>`clock_timestamp() - interval '1 day'`),
      ]),
    )
    .execute()
  if (tripped.length === 0) return
  await queries
    .insertInto('bank_breaker')
    .values(tripped.map((each) => ({ ...each, processId, openedAt: NOW, seenAt: NOW })))
    .onConflict((conflict) =>
      conflict.columns(['bank', 'processId']).doUpdateSet(({ ref }) => ({
        state: ref('excluded.state'),
        denial: ref('excluded.denial'),
        seenAt: NOW,
      })),
    )
    .execute()
}
