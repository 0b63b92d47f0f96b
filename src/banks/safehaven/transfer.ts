import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import type { BankPayment } from '../bank.ts'
import {
  type BankFields,
  getPath,
  isAccountNumber,
  isPaymentKey,
  parseNaira,
  textOf,
} from '../bank-fields.ts'
import { plainText } from '../plain-text.ts'

/** A transfer in a notification or a requery. */
export type Transfer =
  | { readonly kind: 'paid' | 'reversed'; readonly payment: BankPayment }
  /** Money that left an account. */
  | { readonly kind: 'outward' }
  /** Not completed yet. */
  | { readonly kind: 'pending'; readonly status: string }
  /** Will never complete. */
  | { readonly kind: 'failed'; readonly status: string }
  | { readonly kind: 'malformed'; readonly cause: string }

const FAILED = ['failed', 'declined', 'rejected', 'cancelled']

/** @param directed whether the direction is required: transfers to virtual accounts have none */
export function readTransfer(fields: BankFields, directed: boolean): Transfer {
  const direction = textOf(fields, 'type').toLowerCase()
  if (direction === '' ? directed : direction !== 'inwards') {
    return direction === 'outwards' ? { kind: 'outward' } : malformed('type', direction)
  }
  const reversed = reversalOf(fields)
  if (reversed === undefined) return malformed('isReversed', String(fields['isReversed']))
  const status = plainText(getPath(fields, 'status'), 40)
  if (!reversed && status.toLowerCase() !== 'completed') {
    if (status === '') return malformed('status', status)
    return { kind: FAILED.includes(status.toLowerCase()) ? 'failed' : 'pending', status }
  }
  const payment = readPayment(fields)
  if ('cause' in payment) return payment
  return { kind: reversed ? 'reversed' : 'paid', payment }
}

function reversalOf(fields: BankFields): boolean | undefined {
  if (textOf(fields, 'status').toLowerCase() === 'reversed') return true
  const flag = fields['isReversed'] ?? false
  if (typeof flag === 'boolean') return flag
  return flag === 'true' ? true : flag === 'false' ? false : undefined
}

/** Parses the payment of a transfer into an account. */
export function readPayment(
  fields: BankFields,
): BankPayment | Extract<Transfer, { kind: 'malformed' }> {
  const sessionId = textOf(fields, 'sessionId')
  if (!isPaymentKey(sessionId)) return malformed('sessionId', sessionId)
  const accountNumber = textOf(fields, 'creditAccountNumber')
  if (!isAccountNumber(accountNumber)) return malformed('creditAccountNumber', accountNumber)
  const amount = textOf(fields, 'amount')
  const amountMinor = parseNaira(amount)
  if (!amountMinor || amountMinor > AMOUNT_MINOR_MAX) return malformed('amount', amount)
  return {
    bankKey: sessionId,
    sessionId,
    accountNumber,
    amountMinor,
    paidAtMs: timeOf(textOf(fields, 'approvedAt')) ?? timeOf(textOf(fields, 'createdAt')),
    payer: {
      name: plainText(getPath(fields, 'debitAccountName'), 200),
      accountNumber: plainText(getPath(fields, 'debitAccountNumber'), 40),
      // An interbank session id begins with the code of the sending institution.
      bankCode: /^\d{30}$/.test(sessionId) ? sessionId.slice(0, 6) : '',
      bankName: '',
    },
    narration: plainText(getPath(fields, 'narration'), 500),
  }
}

/** Parses ISO 8601 with a zone; Safe Haven sends UTC. */
function timeOf(text: string): number | undefined {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.test(text)
  const epochMs = isTime ? Date.parse(text) : Number.NaN
  return Number.isNaN(epochMs) ? undefined : epochMs
}

function malformed(name: string, value: string): Extract<Transfer, { kind: 'malformed' }> {
  return { kind: 'malformed', cause: `${name} is ${JSON.stringify(plainText(value, 80))}` }
}
