import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import type { BankPayment } from '../bank.ts'
import { isAccountNumber, isPaymentKey, textOf } from '../bank-fields.ts'
import { getPath } from '../get-path.ts'
import { plainText } from '../plain-text.ts'

/** A collection order in a notification, a requery or a list. */
export type Order =
  | { readonly kind: 'paid'; readonly payment: BankPayment }
  /** Not a payment into a virtual account: a payout, a checkout or an unsuccessful order. */
  | { readonly kind: 'other'; readonly cause: string }
  | { readonly kind: 'malformed'; readonly cause: string }

const PAID = '1'

/** Parses an order. Its amounts are in kobo. */
export function readOrder(fields: unknown): Order {
  // Payouts and checkouts have a merchant's order id, and their statuses have other meanings.
  if (textOf(fields, 'orderId') !== '')
    return { kind: 'other', cause: 'not a payment into a virtual account' }
  const accountNumber = textOf(fields, 'virtualAccountNo')
  if (accountNumber === '') return { kind: 'other', cause: 'no virtual account number' }
  const status = textOf(fields, 'orderStatus')
  if (status === '') return malformed('orderStatus', status)
  if (status !== PAID) return { kind: 'other', cause: `orderStatus is ${status}` }
  if (!isAccountNumber(accountNumber)) return malformed('virtualAccountNo', accountNumber)
  const orderNo = textOf(fields, 'orderNo')
  if (!isPaymentKey(orderNo)) return malformed('orderNo', orderNo)
  const sessionId = textOf(fields, 'sessionId') || orderNo
  if (!isPaymentKey(sessionId)) return malformed('sessionId', sessionId)
  const amount = textOf(fields, 'orderAmount')
  const amountMinor = /^[1-9]\d{0,15}$/.test(amount) ? BigInt(amount) : undefined
  if (!amountMinor || amountMinor > AMOUNT_MINOR_MAX) return malformed('orderAmount', amount)
  const currency = textOf(fields, 'currency') || 'NGN'
  if (currency !== 'NGN') return malformed('currency', currency)
  const createdTime = textOf(fields, 'createdTime')
  const payment: BankPayment = {
    bankKey: orderNo,
    sessionId,
    accountNumber,
    amountMinor,
    paidAtMs: /^\d{12,14}$/.test(createdTime) ? Number(createdTime) : undefined,
    payer: {
      name: plainText(getPath(fields, 'payerAccountName'), 200),
      accountNumber: plainText(getPath(fields, 'payerAccountNo'), 40),
      bankCode: '',
      bankName: plainText(getPath(fields, 'payerBankName'), 200),
    },
    narration: plainText(getPath(fields, 'reference'), 500),
  }
  return { kind: 'paid', payment }
}

function malformed(name: string, value: string): Order {
  return { kind: 'malformed', cause: `${name} is ${JSON.stringify(plainText(value, 80))}` }
}
