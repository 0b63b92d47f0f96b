import type { BankCode, BankPayment, Reading, Requery } from '../banks/bank.ts'
import { isAccountNumber, isPaymentKey, plainText } from '../banks/bank-fields.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { AMOUNT_MINOR_MAX } from '../core/money.ts'
import { inSpan, type PaymentTrace } from '../core/tracing.ts'
import { canBePaidAt } from '../transactions/transaction.ts'

/** A notification about a payment or its reversal. */
export type MoneyReading = Extract<Reading, { kind: 'payment' | 'reversal' }>

/** The result of confirming a reported payment with its bank. */
type Confirmation =
  | { readonly kind: 'paid' | 'reversed'; readonly payment: BankPayment }
  | { readonly kind: 'denied' | 'conflict'; readonly cause: string }
  | Extract<Requery, { kind: 'unknown' }>

/** The bank to ask, with the trace of the request. */
interface Asking extends PaymentTrace {
  readonly bank: BankCode
}

/**
 * Requeries the payment of a notification and compares the bank's response with the notification.
 * Skips the requery if a signature covers the payment and the settings trust it. Returns the payment
 * as the bank's response describes it.
 */
export async function confirmPayment(
  { connector, requery, callTimeoutMs }: ServedBank,
  reading: MoneyReading,
  { bank, span }: Asking,
): Promise<Confirmation> {
  const reported = plainPayment(reading.payment)
  const malformed = validatePayment(reported)
  if (malformed) return { kind: 'conflict', cause: malformed }
  if (!requery && reading.bound) {
    return { kind: reading.kind === 'payment' ? 'paid' : 'reversed', payment: reported }
  }
  const response = await inSpan(
    span?.child(`requery ${bank}`, { kind: 'client', attributes: { 'inflow.bank': bank } }),
    () => connector.requery(reported, AbortSignal.timeout(callTimeoutMs)),
    ({ kind }) => (kind === 'unknown' ? kind : undefined),
  )
  if (response.kind === 'denied' || response.kind === 'unknown') return response
  return compare(reported, response)
}

function compare(
  reported: BankPayment,
  response: Extract<Requery, { kind: 'confirmed' | 'reversed' }>,
): Confirmation {
  const payment = plainPayment(response.payment)
  const malformed = validatePayment(payment)
  if (malformed) return { kind: 'conflict', cause: `in the requery response: ${malformed}` }
  const conflicts = [
    payment.bankKey !== reported.bankKey && 'key',
    payment.accountNumber !== reported.accountNumber && 'account number',
    payment.amountMinor !== reported.amountMinor && 'amount',
    sessionsDiffer(payment, reported) && 'session',
  ].filter((field) => field !== false)
  if (conflicts.length > 0) {
    const cause = `the report and the requery response differ in: ${conflicts.join(', ')}`
    return { kind: 'conflict', cause }
  }
  const kind = response.kind === 'confirmed' ? 'paid' : 'reversed'
  return { kind, payment: complete(payment, reported) }
}

/** Connectors put the bank's key in place of a missing session id. */
const hasSession = ({ sessionId, bankKey }: BankPayment): boolean => sessionId !== bankKey

function sessionsDiffer(one: BankPayment, other: BankPayment): boolean {
  return hasSession(one) && hasSession(other) && one.sessionId !== other.sessionId
}

/** Takes the fields missing from the requery response from the notification. */
function complete(payment: BankPayment, reported: BankPayment): BankPayment {
  const { payer } = payment
  return {
    ...payment,
    sessionId: hasSession(payment) ? payment.sessionId : reported.sessionId,
    paidAtMs: payment.paidAtMs ?? reported.paidAtMs,
    payer: {
      name: payer.name || reported.payer.name,
      accountNumber: payer.accountNumber || reported.payer.accountNumber,
      bankCode: payer.bankCode || reported.payer.bankCode,
      bankName: payer.bankName || reported.payer.bankName,
    },
    narration: payment.narration || reported.narration,
  }
}

/** Why a payment cannot be recorded; undefined if it can. */
function validatePayment({ bankKey, sessionId, accountNumber, amountMinor }: BankPayment) {
  if (bankKey === '' || bankKey.length > 200) return 'the key of the payment is missing or too long'
  if (!isPaymentKey(sessionId)) return 'the session id has an unknown format'
  if (!isAccountNumber(accountNumber)) return 'the account number does not have ten digits'
  if (amountMinor <= 0n || amountMinor > AMOUNT_MINOR_MAX) return 'the amount is out of range'
  return undefined
}

/** The payment with its texts in a form that PostgreSQL can store. */
function plainPayment(payment: BankPayment): BankPayment {
  const { payer, paidAtMs } = payment
  return {
    bankKey: plainText(payment.bankKey, 201),
    sessionId: payment.sessionId.trim(),
    accountNumber: payment.accountNumber.trim(),
    amountMinor: payment.amountMinor,
    paidAtMs: paidAtMs !== undefined && canBePaidAt(paidAtMs) ? paidAtMs : undefined,
    payer: {
      name: plainText(payer.name, 200),
      accountNumber: plainText(payer.accountNumber, 40),
      bankCode: plainText(payer.bankCode, 20),
      bankName: plainText(payer.bankName, 100),
    },
    narration: plainText(payment.narration, 500),
  }
}
