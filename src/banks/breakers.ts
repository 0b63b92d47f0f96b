import { defineEntity, p } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { sql } from 'kysely'
import { createLoop, type Loop } from '../core/loop.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { BankCode } from './bank.ts'
import type { BreakerState } from './http/circuit-breaker.ts'
import type { BankCondition } from './serve-banks.ts'

/** How often the conditions of the banks are checked. */
const INTERVAL_MS = 2_000

interface Options {
  /** The id of this process. */
  readonly processId: string
  readonly conditions: ReadonlyMap<BankCode, () => BankCondition>
}

/**
 * Stores which banks have a breaker in this process that is not closed, or deny it access, so that operators
 * see the breakers of all processes. While all breakers are closed, it runs no statement.
 */
export function createReportBreakers(
  { database: { orm }, log }: Runtime,
  { processId, conditions }: Options,
): Loop {
  let reported = 0
  const loop = createLoop({
    name: 'bank breakers',
    log,
    everyMs: INTERVAL_MS,
    async turn() {
      const tripped = [...conditions].flatMap(([bank, conditionOf]) => {
        const { breaker: state, denial } = conditionOf()
        return state === 'closed' && denial === '' ? [] : [{ bank, state, denial }]
      })
      if (tripped.length === 0 && reported === 0) return undefined
      await replaceBreakers(orm.em.fork(), processId, tripped)
      reported = tripped.length
      return undefined
    },
  })
  return {
    ...loop,
    async stop() {
      await loop.stop()
      // If the database is unavailable, the report expires by itself.
      if (reported > 0) await replaceBreakers(orm.em.fork(), processId, []).catch(() => undefined)
    },
  }
}

/** A bank whose circuit breaker is not closed, or that denies access. */
interface TrippedBreaker {
  readonly bank: BankCode
  readonly state: BreakerState
  readonly denial: string
}

const NOW = sql<Date>`clock_timestamp()`

/** Replaces the stored breakers of a process that are not closed, and the banks that deny it access. */
async function replaceBreakers(
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

/** A report expires after this time, because a crashed process sends no further reports; a few reports may be lost. */
const REPORT_SECONDS_MAX = 30

/** Lists the banks whose circuit breaker is not closed, or that deny access, by running process. */
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

/**
 * A live bank whose circuit breaker is not closed in a process of the service, or that denies this process access.
 */
export const BreakerEntity = defineEntity({
  name: 'BankBreaker',
  tableName: 'bank_breaker',
  properties: {
    bank: p.text().$type<BankCode>().primary(),
    processId: p.text().primary(),
    state: p.text().$type<BreakerState>(),
    /** The reason why the bank denied the latest call access; empty if it did not. */
    denial: p.text().default(''),
    /** When the breaker opened, or the bank began to deny access. */
    openedAt: p.datetime(3),
    /** The time of the last report, by the clock of the database. A crashed process sends no further reports. */
    seenAt: p.datetime(3),
  },
})
