import type { EntityManager } from '@mikro-orm/postgresql'
import { sql } from 'kysely'
import { queriesOf } from '../../postgres/queries-of.ts'
import type { BreakerEntity } from './breaker.entity.ts'

/** A process that died does not report any more; a few reports may be lost. */
const REPORT_SECONDS_MAX = 30

/** The banks whose circuit breaker is not closed, or that deny access, as every running process finds them. */
export function listBreakers(em: EntityManager) {
  return queriesOf<typeof BreakerEntity>(em)
    .selectFrom('bank_breaker')
    .select(['bank', 'processId', 'state', 'denial', 'openedAt'])
    .where(
      'seenAt',
      '>',
      sql<Date>`clock_timestamp() - ${REPORT_SECONDS_MAX} * interval '1 second'`,
    )
    .orderBy('bank')
    .orderBy('openedAt')
    .execute()
}
