import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { readPlace } from '../../events/follow-log.ts'
import { readLogState } from '../../events/log-state.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { FIGURES, followPayments } from './follow-payments.ts'

interface Dependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
}

/** How long figures are kept: the same hour of last year is among them. */
const RETENTION_MS = 400 * 86_400_000

const DELETE_EVERY_MS = 600_000
const DELETED_MAX = 5_000

/** Counts the payments of the event log by the hour, and deletes old figures. */
export function createFiguresJob({
  database,
  clock,
  log,
}: Dependencies): Pick<Loop, 'start' | 'stop'> {
  const counting = createLoop({
    name: 'figures of payments',
    log,
    turn: async (signal) => void (await followPayments({ database, log }, signal)),
  })
  const retention = createLoop({
    name: 'retention of figures',
    log,
    everyMs: DELETE_EVERY_MS,
    async turn() {
      const deleted = await deleteOldHours(database.pool, clock.now() - RETENTION_MS)
      return deleted === DELETED_MAX ? 0 : undefined
    },
  })
  return {
    start() {
      counting.start()
      retention.start()
    },
    stop: async () => void (await Promise.all([counting.stop(), retention.stop()])),
  }
}

/** @returns how many rows it deleted */
export async function deleteOldHours(on: Queryable, beforeMs: number): Promise<number> {
  const { rowCount } = await on.query({
    name: 'payment-hour-delete',
    text: `delete from payment_hour where ctid = any (array(
      select ctid from payment_hour where hour < $1 limit ${DELETED_MAX}))`,
    values: [new Date(beforeMs)],
  })
  return rowCount ?? 0
}

/** How many events of the log the figures do not contain yet. */
export async function countUncounted(on: Queryable): Promise<bigint> {
  const [{ end }, { position }] = await Promise.all([readLogState(on), readPlace(on, FIGURES)])
  return end.position > position ? end.position - position : 0n
}
