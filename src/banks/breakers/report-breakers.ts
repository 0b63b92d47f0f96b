import type { MikroORM } from '@mikro-orm/postgresql'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { BankCode } from '../bank.ts'
import type { BreakerState } from '../http/circuit-breaker.ts'
import { replaceBreakers } from './store.ts'

/** How often the breakers are looked at. */
const INTERVAL_MS = 2_000

interface Options {
  readonly orm: MikroORM
  /** The id of this process. */
  readonly processId: string
  readonly breakers: ReadonlyMap<BankCode, () => BreakerState>
  readonly log: Logger
}

/**
 * Stores which breakers of this process are not closed, so that an operator sees those of all
 * processes. While all are closed it asks the database nothing.
 */
export function createReportBreakers({ orm, processId, breakers, log }: Options): Loop {
  let reported = 0
  const loop = createLoop({
    name: 'bank breakers',
    log,
    everyMs: INTERVAL_MS,
    async turn() {
      const tripped = [...breakers].flatMap(([bank, stateOf]) => {
        const state = stateOf()
        return state === 'closed' ? [] : [{ bank, state }]
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
