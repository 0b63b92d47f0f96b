import type { MikroORM } from '@mikro-orm/postgresql'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { BankCode } from '../bank.ts'
import type { BankCondition } from '../serve-banks.ts'
import { replaceBreakers } from './store.ts'

/** How often the banks' conditions are looked at. */
const INTERVAL_MS = 2_000

interface Options {
  readonly orm: MikroORM
  /** The id of this process. */
  readonly processId: string
  readonly conditions: ReadonlyMap<BankCode, () => BankCondition>
  readonly log: Logger
}

/**
 * Stores which banks have a breaker that is not closed in this process, or deny it access, so that an operator
 * sees those of all processes. While there is none it asks the database nothing.
 */
export function createReportBreakers({ orm, processId, conditions, log }: Options): Loop {
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
