import { isOpened } from '../accounts/account.ts'
import { getAccount } from '../accounts/get-account.ts'
import type { Actor, BusinessCaller } from '../auth/caller.ts'
import type { TimeText } from '../core/clock.ts'
import { assert, Fault } from '../core/errors.ts'
import type { PaymentTrace } from '../core/tracing.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { GetTransaction } from '../transactions/find-transactions.ts'
import type { RecordPayment } from '../transactions/record-payment.ts'
import type { IncomingPayment, StoredTransaction } from '../transactions/transaction.ts'
import { newSessionId, simulatedPayment } from './simulate-transfer.ts'

/** Amounts in kobo that the sandbox reports as something else than a successful payment. */
export const MAGIC_AMOUNTS = {
  /** PENDING, until it is reported again: then it is successful. */
  pending: 100_001n,
  fails: 100_002n,
  /** Successful, and then reversed. */
  isReversed: 100_003n,
} as const

interface Dependencies {
  readonly timeText: TimeText
  readonly recordPayment: RecordPayment
  readonly getTransaction: GetTransaction
  readonly reverse: (
    request: { readonly transactionId: string; readonly reason: string },
    actor: Actor,
  ) => Promise<StoredTransaction>
}

/** A new payment, or an earlier one that the bank reports again. */
export type SimulatePayment =
  | {
      /** The returned reference of the account or the business's own. */
      readonly reference: string
      readonly amountMinor: bigint
      /** Empty: a placeholder name. */
      readonly payerName: string
    }
  | { readonly sessionId: string }

/**
 * Simulates a payment into a test account of the calling business, and records it as if the bank had
 * reported it. Session ids are always new: the caller does not know the ids of other businesses, and a
 * payment with one of them would be a conflict.
 *
 * Faults: not_sandbox (the key is live), not_found (the account, or the earlier payment),
 * account_pending.
 */
export async function simulatePayment(
  runtime: Runtime,
  dependencies: Dependencies,
  { businessId, live, keyId }: BusinessCaller,
  request: SimulatePayment,
  actor: Actor,
  trace: PaymentTrace = {},
): Promise<StoredTransaction> {
  if (live) throw new Fault('not_sandbox', 'Payments are simulated with test keys only')
  if ('sessionId' in request) {
    return repeat(dependencies, businessId, request.sessionId, keyId, trace)
  }
  const { clock } = runtime
  const { durablePool } = runtime.database
  const { timeText, reverse } = dependencies
  const { reference, amountMinor, payerName } = request
  const account = await getAccount(durablePool, { businessId, live: false, reference })
  if (!isOpened(account)) {
    throw new Fault('account_pending', 'The account is still pending and cannot be paid into')
  }
  const paidAtMs = clock.now()
  const sessionId = newSessionId(account.bank, timeText.format(paidAtMs))
  const status = statusOf(amountMinor)
  const payment = { sessionId, amountMinor, payerName, status, paidAtMs, ...trace }
  const recorded = await record(dependencies, simulatedPayment(account, payment, keyId))
  if (amountMinor !== MAGIC_AMOUNTS.isReversed) return recorded
  return reverse({ transactionId: recorded.id, reason: 'Simulated reversal' }, actor)
}

function statusOf(amountMinor: bigint): IncomingPayment['status'] {
  if (amountMinor === MAGIC_AMOUNTS.pending) return 'PENDING'
  return amountMinor === MAGIC_AMOUNTS.fails ? 'FAILED' : 'SUCCESS'
}

/** Reports a payment again: one that is PENDING becomes successful, and any other stays as it is. */
async function repeat(
  dependencies: Dependencies,
  businessId: string,
  sessionId: string,
  keyId: string,
  trace: PaymentTrace,
): Promise<StoredTransaction> {
  const before = await dependencies.getTransaction({ businessId, live: false, sessionId })
  if (before.status !== 'PENDING') return before
  const { account, bank, amountMinor, paidAtMs, payer } = before
  const paid = { bank, accountNumber: account.accountNumber, live: false }
  const again = {
    sessionId,
    amountMinor,
    paidAtMs,
    payerName: payer.name,
    status: 'SUCCESS',
    ...trace,
  } as const
  return record(dependencies, simulatedPayment(paid, again, keyId))
}

async function record(
  { recordPayment }: Dependencies,
  payment: IncomingPayment,
): Promise<StoredTransaction> {
  const { outcome, transaction } = await recordPayment(payment)
  // Nothing is recorded for an account that is closed.
  if (outcome === 'UNMATCHED') {
    throw new Fault('not_found', 'The account is closed: a payment into it would not be credited')
  }
  assert(transaction && outcome !== 'CONFLICT', 'a simulated payment has a session of its own')
  return transaction
}
