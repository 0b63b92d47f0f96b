import type { Pool } from 'pg'
import type { Actor } from '../auth/caller.ts'
import type { IsSimulated } from '../banks/bank.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { findReportedId } from '../transactions/find-transactions.ts'
import { reverseTransaction } from '../transactions/reverse-transaction.ts'
import type { ReversePayment } from './process-notification.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly isSimulated: IsSimulated
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
  /** The service, as the audit log records it. */
  readonly actor: Actor
}

/** How many reversals run concurrently. */
const REVERSALS_MAX = 4

/** Reverses payments that their banks have reversed. Banks report payments of live mode only. */
export function createReversePayment(dependencies: Dependencies): ReversePayment {
  const reversal = { ...dependencies, semaphore: createSemaphore(REVERSALS_MAX) }
  return async (bank, sessionId, reason) => {
    const { pool, isSimulated } = reversal
    const transactionId = await findReportedId(pool, { bank, sessionId }, isSimulated)
    if (transactionId === undefined) return 'not recorded'
    try {
      await reverseTransaction(reversal, { transactionId, reason }, dependencies.actor)
      return 'reversed'
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      if (error.reason === 'already_reversed') return 'already reversed'
      if (error.reason === 'not_reversible') return 'not recorded'
      if (error.reason === 'imported_transaction') return 'imported'
      throw error
    }
  }
}
