import type { Pool } from 'pg'
import { SYSTEM } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { findTransactionId } from '../transactions/find-transactions.ts'
import { reverseTransaction } from '../transactions/reverse-transaction.ts'
import type { ReversePayment } from './process-notification.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/** How many reversals are under way at once. */
const AT_ONCE_MAX = 4

/** Takes payments back as their banks have. What a bank tells of is of live mode. */
export function createReversePayment(dependencies: Dependencies): ReversePayment {
  const steps = { ...dependencies, semaphore: createSemaphore(AT_ONCE_MAX) }
  return async (bank, sessionId, reason) => {
    const transactionId = await findTransactionId(steps.pool, { bank, sessionId, live: true })
    if (transactionId === undefined) return 'not recorded'
    try {
      await reverseTransaction(steps, { transactionId, reason }, SYSTEM)
      return 'reversed'
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      if (error.reason === 'already_reversed') return 'reversed before'
      if (error.reason === 'not_reversible') return 'not recorded'
      throw error
    }
  }
}
