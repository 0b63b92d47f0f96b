import type { Logger } from 'pino'
import type { BankCode, BankPayment, NotificationOutcome } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { look, type ProcessDependencies } from '../notifications/process-notification.ts'
import { matchPayments } from './match-payments.ts'

export interface RecordMissingDependencies extends ProcessDependencies {
  readonly log: Logger
  /** Told of each payment that a list has and nobody had told of. */
  readonly missed: (bank: BankCode, outcome: NotificationOutcome) => void
}

/** How many payments of a page are asked for at once. */
const LOOKS_MAX = 8

/**
 * Records what a list of a bank has and is not recorded, as if the bank had notified of it: confirmed
 * by the bank, once, and kept as unmatched or as a conflict where it is one.
 *
 * @returns how many were recorded or kept now
 */
export async function recordMissing(
  dependencies: RecordMissingDependencies,
  bank: BankCode,
  served: ServedBank,
  payments: readonly BankPayment[],
): Promise<number> {
  const { pool, clock, log, missed } = dependencies
  // What cannot be stored cannot be compared either: the look at it says what is wrong.
  const told = payments.map((payment) => ({
    ...payment,
    bankKey: payment.bankKey.replaceAll('\0', ''),
    sessionId: payment.sessionId.replaceAll('\0', ''),
    accountNumber: payment.accountNumber.replaceAll('\0', ''),
    status: 'SUCCESS' as const,
  }))
  const found = await matchPayments(pool, bank, told)
  const strange = payments.filter((_, index) => {
    const { finding, held } = found[index] ?? {}
    return finding === 'missing' || (finding === 'differs' && !held)
  })
  let count = 0
  for (let at = 0; at < strange.length; at += LOOKS_MAX) {
    const some = strange.slice(at, at + LOOKS_MAX)
    const looks = some.map(async (payment) => {
      const reading = { kind: 'payment', payment, bound: true } as const
      const receivedAtMs = clock.now()
      const looked = await look(dependencies, { bank, served, reading, receivedAtMs, tries: 0 })
      const { outcome, cause } = looked
      // Told of meanwhile: no notification was missed.
      if (outcome === 'duplicate') return
      const { bankKey, sessionId } = payment
      const line = { bank, bankKey, sessionId, outcome, ...(cause !== '' && { cause }) }
      log.warn(line, 'a list of the bank has a payment that is not recorded so')
      missed(bank, outcome)
      if (outcome === 'recorded' || outcome === 'unmatched') count += 1
    })
    await Promise.all(looks)
  }
  return count
}
