import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import type { BankPayment } from '../bank.ts'
import { isAccountNumber, isPaymentKey, textOf } from '../bank-fields.ts'
import { getPath } from '../get-path.ts'
import { plainText } from '../plain-text.ts'

/** What a collection order says, in a notification, a requery or a list. */
export type Order =
  | { readonly kind: 'paid'; readonly payment: BankPayment }
  /** No money of a virtual account: a payout, a checkout, or an order that did not succeed. */
  | { readonly kind: 'other'; readonly cause: string }
  | { readonly kind: 'unreadable'; readonly cause: string }

const PAID = '1'

/** Amounts are whole kobo. */
export function readOrder(fields: unknown): Order {
  // Payouts and checkout orders carry an id of the merchant's own; their states mean other things.
  if (textOf(fields, 'orderId') !== '') return { kind: 'other', cause: 'not a virtual account' }
  const accountNumber = textOf(fields, 'virtualAccountNo')
  if (accountNumber === '') return { kind: 'other', cause: 'without a virtual account' }
  const status = textOf(fields, 'orderStatus')
  if (status === '') return unreadable('orderStatus', status)
  if (status !== PAID) return { kind: 'other', cause: `orderStatus is ${status}` }
  if (!isAccountNumber(accountNumber)) return unreadable('virtualAccountNo', accountNumber)
  const orderNo = textOf(fields, 'orderNo')
  if (!isPaymentKey(orderNo)) return unreadable('orderNo', orderNo)
  const sessionId = textOf(fields, 'sessionId') || orderNo
  if (!isPaymentKey(sessionId)) return unreadable('sessionId', sessionId)
  const amount = textOf(fields, 'orderAmount')
  const amountMinor = /^[1-9]\d{0,15}$/.test(amount) ? BigInt(amount) : undefined
  if (!amountMinor || amountMinor > AMOUNT_MINOR_MAX) return unreadable('orderAmount', amount)
  const currency = textOf(fields, 'currency') || 'NGN'
  if (currency !== 'NGN') return unreadable('currency', currency)
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

function unreadable(name: string, value: string): Order {
  return { kind: 'unreadable', cause: `${name} is ${JSON.stringify(plainText(value, 80))}` }
}
