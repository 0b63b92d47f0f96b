import type { MikroORM } from '@mikro-orm/postgresql'
import type { Logger } from 'pino'
import type { BankCode, BankPayment, IsSimulated, NotificationOutcome } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import {
  confirmAndRecord,
  type ProcessDependencies,
} from '../notifications/process-notification.ts'
import { paymentTraceOf } from '../tracing/payment-trace.ts'
import { inSpan } from '../tracing/tracing.ts'
import { matchPayments } from './match-payments.ts'

export interface RecordMissingDependencies extends ProcessDependencies {
  readonly orm: MikroORM
  readonly isSimulated: IsSimulated
  readonly log: Logger
  /** Called for each listed payment whose notification was missed. */
  readonly onMissed: (bank: BankCode, outcome: NotificationOutcome) => void
}

/** How many payments of a page are requeried concurrently. */
const REQUERIES_MAX = 8

/**
 * Records listed payments that are not recorded as if the bank had sent their notifications: confirmed
 * by the bank, once, and as unmatched or as a conflict where they are.
 *
 * @returns how many it recorded, as transactions or as unmatched payments
 */
export async function recordMissing(
  dependencies: RecordMissingDependencies,
  bank: BankCode,
  served: ServedBank,
  payments: readonly BankPayment[],
): Promise<number> {
  const { clock, log, tracing, onMissed } = dependencies
  // PostgreSQL can neither store nor compare NUL characters; processing reports what is malformed.
  const reported = payments.map((payment) => ({
    ...payment,
    bankKey: payment.bankKey.replaceAll('\0', ''),
    sessionId: payment.sessionId.replaceAll('\0', ''),
    accountNumber: payment.accountNumber.replaceAll('\0', ''),
    status: 'SUCCESS' as const,
  }))
  const matches = await matchPayments(dependencies, bank, reported)
  const unrecorded = payments.filter((_, index) => {
    const { finding, conflictRecorded } = matches[index] ?? {}
    return finding === 'MISSING' || (finding === 'MISMATCHED' && !conflictRecorded)
  })
  let count = 0
  for (let at = 0; at < unrecorded.length; at += REQUERIES_MAX) {
    const some = unrecorded.slice(at, at + REQUERIES_MAX)
    const processing = some.map(async (payment) => {
      const reading = { kind: 'payment', payment, bound: true } as const
      const recordedBy = 'reconciliation'
      const attributes = { 'inflow.bank': bank }
      const trace = paymentTraceOf({
        span: tracing?.start('record missing payment', { attributes }),
      })
      const receivedAtMs = clock.now()
      const report = { bank, served, reading, receivedAtMs, recordedBy, ...trace } as const
      const { outcome, cause } = await inSpan(
        trace.span,
        () => confirmAndRecord(dependencies, report),
        (result) => (result.outcome === 'RETRY' ? result.outcome : undefined),
      )
      // Its notification arrived meanwhile, so none was missed.
      if (outcome === 'DUPLICATE') return
      const { bankKey, sessionId } = payment
      const line = { bank, bankKey, sessionId, outcome, ...(cause !== '' && { cause }) }
      log.warn(line, "payment in the bank's list was missing or conflicts with the recorded one")
      onMissed(bank, outcome)
      if (outcome === 'RECORDED' || outcome === 'UNMATCHED') count += 1
    })
    await Promise.all(processing)
  }
  return count
}
