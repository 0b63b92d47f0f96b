import { createHash } from 'node:crypto'
import { formatAmount } from '../../../core/money.ts'
import { numberToken } from '../../fake/number-token.ts'

/** A payment that the fake 9PSB received. */
export interface NinePsbTransaction {
  /** The reference with which its account was created. */
  readonly reference: string
  readonly sessionId: string
  /** Lagos time without a zone: `2023-06-07T09:35:29`. */
  readonly date: string
  readonly accountNumber: string
  readonly accountName: string
  readonly amountMinor: bigint
  readonly senderName: string
  readonly senderAccountNumber: string
  readonly senderBankCode: string
  readonly senderBankName: string
  readonly description: string
}

/** @param password the password of the notifications' Basic authentication */
export function notificationBody(transaction: NinePsbTransaction, password: string): string {
  const { senderAccountNumber, senderBankCode, accountNumber, amountMinor } = transaction
  const amount = formatAmount(amountMinor)
  const hash = createHash('sha512')
    .update([password, senderAccountNumber, senderBankCode, accountNumber, amount].join(''))
    .digest('hex')
    .toUpperCase()
  return JSON.stringify({ ...toJson(transaction, amount.replace(/0$/, '')), hash })
}

/** As `confirmpayment` lists it. */
export function toListed(transaction: NinePsbTransaction): unknown {
  return toJson(transaction, formatAmount(transaction.amountMinor).replace(/\.?0+$/, ''))
}

function toJson(transaction: NinePsbTransaction, amount: string): Record<string, unknown> {
  return {
    transaction: {
      reference: transaction.reference,
      sessionid: transaction.sessionId,
      date: transaction.date,
    },
    customer: {
      account: {
        name: transaction.accountName,
        number: transaction.accountNumber,
        bank: '9PSB',
        senderbankcode: transaction.senderBankCode,
        senderbankname: transaction.senderBankName,
        senderaccountnumber: transaction.senderAccountNumber,
        sendername: transaction.senderName,
      },
    },
    order: {
      amount: numberToken(amount),
      currency: 'NGN',
      description: transaction.description,
    },
    message: 'Success',
    code: '00',
  }
}
