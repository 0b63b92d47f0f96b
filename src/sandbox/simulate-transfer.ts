import { randomInt } from 'node:crypto'
import { isCreditable, type OpenAccount } from '../accounts/account.ts'
import { getOpenAccountsByNumber } from '../accounts/get-account.ts'
import { BANK_FACTS, type BankCode, type IsSimulated } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import type { PaymentTrace } from '../core/tracing.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { RecordPayment } from '../transactions/record-payment.ts'
import type { IncomingPayment, RecordResult } from '../transactions/transaction.ts'

interface Dependencies {
  readonly timeText: TimeText
  readonly recordPayment: RecordPayment
  /** Whether the sandbox serves a bank in live mode; in test mode it serves every bank. */
  readonly isSimulated: IsSimulated
}

interface SimulateTransfer extends PaymentTrace {
  readonly accountNumber: string
  readonly amountMinor: bigint
  /** Empty: a new session id is made. */
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

/** What a sandbox bank reports, beside the account. */
interface SimulatedPayment
  extends PaymentTrace,
    Pick<IncomingPayment, 'sessionId' | 'amountMinor' | 'status' | 'paidAtMs'> {
  /** Empty: a placeholder name. */
  readonly payerName: string
}

/** @param callerId the token or key that simulates it */
export function simulatedPayment(
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

/** Six digits of the institution, twelve of local time (yyMMddHHmmss), twelve random digits. */
export function newSessionId(bank: BankCode, localTime: string): string {
  const time = localTime.replaceAll(/\D/g, '').slice(2)
  const unique =
    String(randomInt(1_000_000)).padStart(6, '0') + String(randomInt(1_000_000)).padStart(6, '0')
  return BANK_FACTS[bank].interbankCode + time + unique
}
