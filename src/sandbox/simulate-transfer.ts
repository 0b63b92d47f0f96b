import { randomInt } from 'node:crypto'
import { isCreditable, isOpened, type OpenAccount } from '../accounts/account.ts'
import { getAccount, getOpenAccountsByNumber } from '../accounts/get-account.ts'
import type { Actor, BusinessCaller } from '../auth/caller.ts'
import { BANK_FACTS, type BankCode, type IsSimulated } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { assert, Fault } from '../core/errors.ts'
import type { PaymentTrace } from '../core/tracing.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { GetTransaction } from '../transactions/find-transactions.ts'
import type { RecordPayment } from '../transactions/record-payment.ts'
import type {
  IncomingPayment,
  RecordResult,
  StoredTransaction,
} from '../transactions/transaction.ts'

interface Dependencies {
  readonly timeText: TimeText
  readonly recordPayment: RecordPayment
  /** Whether the sandbox serves a bank in live mode; in test mode it serves every bank. */
  readonly isSimulated: IsSimulated
}

interface SimulateTransfer extends PaymentTrace {
  readonly accountNumber: string
  readonly amountMinor: bigint
  /** Empty: a new session id is generated. */
  readonly sessionId: string
  /** Empty: a placeholder name. */
  readonly payerName: string
  /** The mode of the account; absent: any. */
  readonly live?: boolean
}

/**
 * Simulates a payment at a sandbox bank and records it as if the bank had reported it.
 *
 * If several accounts have the number, the payment goes to the first that the sandbox opened and
 * serves, live before test.
 *
 * Faults: not_found (no such account), not_sandbox (the account is live at a real bank, or live
 * accounts are not simulated).
 */
export async function simulateTransfer(
  { database: { durablePool }, clock }: Runtime,
  { timeText, recordPayment, isSimulated }: Dependencies,
  request: SimulateTransfer,
  tokenId: string,
): Promise<RecordResult & { readonly sessionId: string }> {
  const accounts = await getOpenAccountsByNumber(durablePool, request.accountNumber)
  const account = accounts.find(
    (each) =>
      each.connector === 'sandbox' &&
      isCreditable(each, isSimulated) &&
      each.live === (request.live ?? each.live),
  )
  if (account === undefined) {
    const text = `The sandbox serves no live account at ${accounts[0].bank}; use a test account`
    throw new Fault('not_sandbox', text)
  }
  const nowMs = clock.now()
  const sessionId = request.sessionId || newSessionId(account.bank, timeText.format(nowMs))
  const { amountMinor, payerName, traceparent, span } = request
  const paid = { sessionId, amountMinor, payerName, status: 'SUCCESS', paidAtMs: nowMs } as const
  const payment = { ...paid, traceparent, span }
  const result = await recordPayment(simulatedPayment(account, payment, tokenId))
  return { ...result, sessionId }
}

/** Amounts in kobo for which the sandbox does not report a successful payment. */
const MAGIC_AMOUNTS = {
  /** PENDING until the payment is reported again, then successful. */
  pending: 100_001n,
  fails: 100_002n,
  /** Successful, and then reversed. */
  isReversed: 100_003n,
} as const

interface PaymentDependencies {
  readonly timeText: TimeText
  readonly recordPayment: RecordPayment
  readonly getTransaction: GetTransaction
  readonly reverse: (
    request: { readonly transactionId: string; readonly reason: string },
    actor: Actor,
  ) => Promise<StoredTransaction>
}

/** A new payment, or an earlier payment that the bank reports again. */
type SimulatePayment =
  | {
      /** The reference of the account that Inflow returned, or the business's own. */
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
  dependencies: PaymentDependencies,
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

/** Reports a payment again: a PENDING payment becomes successful, and any other payment stays unchanged. */
async function repeat(
  dependencies: PaymentDependencies,
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
  { recordPayment }: PaymentDependencies,
  payment: IncomingPayment,
): Promise<StoredTransaction> {
  const { outcome, transaction } = await recordPayment(payment)
  // No payment is recorded for a closed account.
  if (outcome === 'UNMATCHED') {
    throw new Fault('not_found', 'The account is closed: a payment into it would not be credited')
  }
  assert(transaction && outcome !== 'CONFLICT', 'a simulated payment has a session of its own')
  return transaction
}

/** A payment as a sandbox bank reports it, without the account. */
interface SimulatedPayment
  extends PaymentTrace,
    Pick<IncomingPayment, 'sessionId' | 'amountMinor' | 'status' | 'paidAtMs'> {
  /** Empty: a placeholder name. */
  readonly payerName: string
}

/** @param callerId the token or key that simulates it */
function simulatedPayment(
  account: Pick<OpenAccount, 'bank' | 'accountNumber' | 'live'>,
  { payerName, ...payment }: SimulatedPayment,
  callerId: string,
): IncomingPayment {
  return {
    ...payment,
    bank: account.bank,
    accountNumber: account.accountNumber,
    payer: {
      name: payerName || 'SANDBOX PAYER',
      accountNumber: '0123456789',
      bankCode: '000000',
      bankName: 'Sandbox Bank',
    },
    narration: 'Simulated transfer',
    // Simulated money must never reach an account outside the sandbox.
    live: account.live,
    recordedBy: `sandbox:${callerId}`,
  }
}

/** Six digits for the institution, twelve for the local time (yyMMddHHmmss), and twelve random digits. */
function newSessionId(bank: BankCode, localTime: string): string {
  const time = localTime.replaceAll(/\D/g, '').slice(2)
  const unique =
    String(randomInt(1_000_000)).padStart(6, '0') + String(randomInt(1_000_000)).padStart(6, '0')
  return BANK_FACTS[bank].interbankCode + time + unique
}
