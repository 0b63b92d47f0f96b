import type { BankPayment, Reading, Requery } from '../banks/bank.ts'
import { isAccountNumber, isPaymentKey } from '../banks/bank-fields.ts'
import { plainText } from '../banks/plain-text.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { AMOUNT_MINOR_MAX } from '../core/money.ts'
import { canBePaidAt } from '../transactions/transaction.ts'

/** A reading that tells of money. */
export type MoneyReading = Extract<Reading, { kind: 'payment' | 'reversal' }>

/** What the bank itself says of a payment that it was said to have. */
export type Confirmation =
  | { readonly kind: 'paid' | 'reversed'; readonly payment: BankPayment }
  | { readonly kind: 'denied' | 'unknown' | 'contradiction'; readonly cause: string }

const REQUERY_TIMEOUT_MS = 9_000

/**
 * Asks the bank for the payment of a notification, unless a signature binds it and the settings
 * trust that, and compares what both say. What goes on is what the bank answered.
 */
export async function confirmPayment(
  { connector, requery }: ServedBank,
  reading: MoneyReading,
): Promise<Confirmation> {
  const told = plainPayment(reading.payment)
  const malformed = malformation(told)
  if (malformed) return { kind: 'contradiction', cause: malformed }
  if (!requery && reading.bound) {
    return { kind: reading.kind === 'payment' ? 'paid' : 'reversed', payment: told }
  }
  const answer = await connector.requery(told, AbortSignal.timeout(REQUERY_TIMEOUT_MS))
  if (answer.kind === 'denied' || answer.kind === 'unknown') return answer
  return compare(told, answer)
}

function compare(
  told: BankPayment,
  answer: Extract<Requery, { kind: 'confirmed' | 'reversed' }>,
): Confirmation {
  const payment = plainPayment(answer.payment)
  const malformed = malformation(payment)
  if (malformed) return { kind: 'contradiction', cause: `on asking: ${malformed}` }
  const differs = [
    payment.bankKey !== told.bankKey && 'key',
    payment.accountNumber !== told.accountNumber && 'account number',
    payment.amountMinor !== told.amountMinor && 'amount',
    sessionsDiffer(payment, told) && 'session',
  ].filter((what) => what !== false)
  if (differs.length > 0) {
    const cause = `the notification and the bank's answer differ in ${differs.join(', ')}`
    return { kind: 'contradiction', cause }
  }
  const kind = answer.kind === 'confirmed' ? 'paid' : 'reversed'
  return { kind, payment: complete(payment, told) }
}

/** The key stands in for a session that is missing, and so says nothing of it. */
const hasSession = ({ sessionId, bankKey }: BankPayment): boolean => sessionId !== bankKey

function sessionsDiffer(one: BankPayment, other: BankPayment): boolean {
  return hasSession(one) && hasSession(other) && one.sessionId !== other.sessionId
}

/** What the bank's answer leaves out is taken from its notification. */
function complete(payment: BankPayment, told: BankPayment): BankPayment {
  const { payer } = payment
  return {
    ...payment,
    sessionId: hasSession(payment) ? payment.sessionId : told.sessionId,
    paidAtMs: payment.paidAtMs ?? told.paidAtMs,
    payer: {
      name: payer.name || told.payer.name,
      accountNumber: payer.accountNumber || told.payer.accountNumber,
      bankCode: payer.bankCode || told.payer.bankCode,
      bankName: payer.bankName || told.payer.bankName,
    },
    narration: payment.narration || told.narration,
  }
}

/** Why a payment cannot be recorded as it is; undefined when it can. */
function malformation({ bankKey, sessionId, accountNumber, amountMinor }: BankPayment) {
  if (bankKey === '' || bankKey.length > 200) return 'the key of the payment is missing or too long'
  if (!isPaymentKey(sessionId)) return 'the session id is of an unknown form'
  if (!isAccountNumber(accountNumber)) return 'the account number does not have ten digits'
  if (amountMinor <= 0n || amountMinor > AMOUNT_MINOR_MAX) return 'the amount is out of range'
  return undefined
}

/** A payment whose texts can be stored. */
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
