import { getPath } from '../bank-fields.ts'
import { numberToken } from './fake-ids.ts'
import { distort, enquiredName, type RequestFault } from './faults.ts'
import type { BookedTransfer, TransferBook, TransferFault } from './transfer-book.ts'

/** The operator's id at the fake PalmPay. */
export const FAKE_MERCHANT_ID = '124010100000001'

/** The JSON of a response. */
type Body = Readonly<Record<string, unknown>>

const success = (data: unknown): Body => ({ respCode: '00000000', respMsg: 'success', data })
const failure = (respMsg: string, respCode = 'AC100003'): Body => ({
  respCode,
  respMsg,
  data: null,
})

const INSUFFICIENT = 'insufficient balance'

const BAD_PARAMETER = failure('param error', 'OPEN_GW_000020')

/** 1: paying, 2: success, 3: fail. */
const STATUSES = { pending: 1, paid: 2, failed: 3, returned: 3 } as const

const MESSAGES = {
  pending: '',
  paid: '',
  failed: 'payee account is restricted',
  returned: 'reversed by the bank of the payee',
} as const

/** PalmPay's API methods for payouts, as seen in public integrations. */
export function createPalmPayPayouts(book: TransferBook) {
  return {
    queryBankAccount(body: unknown, fault: RequestFault): Body {
      const accountNumber = getPath(body, 'bankAccNo')
      if (!/^\d{6}$/.test(getPath(body, 'bankCode')) || !/^\d{10}$/.test(accountNumber)) {
        return BAD_PARAMETER
      }
      const accountName = enquiredName(book, accountNumber, fault)
      return accountName === undefined
        ? success({ Status: 'Failed', errorMessage: 'account does not exist' })
        : success({ Status: 'Success', accountName })
    },
    queryAccount(body: unknown): Body {
      const accountName = book.nameOf(getPath(body, 'palmpayAccNo'))
      return accountName === undefined
        ? success({ accountName: '', accountStatus: 1 })
        : success({ accountName, accountStatus: 0 })
    },
    /** Bodies are parsed by `parseBankJson`, so numbers are strings. */
    payout(body: unknown, fault: RequestFault): Body {
      const text = (name: string) => getPath(body, name)
      const isComplete =
        /^\w{1,32}$/.test(text('orderId')) &&
        /^[1-9]\d*$/.test(text('amount')) &&
        text('currency') === 'NGN' &&
        [text('notifyUrl'), text('remark'), text('payeeBankCode')].every(Boolean)
      if (!isComplete) return BAD_PARAMETER
      const isRejected = fault === 'rejected' || book.nameOf(text('payeeBankAccNo')) === undefined
      if (isRejected) return failure('payee account is invalid')
      if (fault === 'insufficient') return failure(INSUFFICIENT)
      const result = book.send(
        {
          reference: text('orderId'),
          amountMinor: BigInt(text('amount')),
          bankCode: text('payeeBankCode'),
          accountNumber: text('payeeBankAccNo'),
          narration: text('remark'),
        },
        fault as TransferFault | undefined,
      )
      if (result === 'insufficient') return failure(INSUFFICIENT)
      if (result === 'duplicate') return failure('duplicate orderId')
      return success(toJson(distort(result, fault)))
    },
    /** Returns a success without data for an unknown order. */
    queryPayStatus(body: unknown, fault: RequestFault): Body {
      const found = book.find(getPath(body, 'orderId'))
      return success(found ? toJson(distort(found, fault)) : null)
    },
    queryBalance(body: unknown): Body {
      if (getPath(body, 'merchantId') !== FAKE_MERCHANT_ID) return failure('unknown merchant')
      const availableBalance = numberToken(`${book.floatMinor}`)
      return success({ availableBalance, frozenBalance: 0, unSettleBalance: 0 })
    },
  }
}

/** The payout, in the form of responses and status queries. The amount is only stated once the payout is paid. */
function toJson({ reference, sessionId, amountMinor, state }: BookedTransfer) {
  return {
    orderId: reference,
    orderNo: `PO${sessionId.slice(6)}`,
    orderStatus: STATUSES[state],
    currency: 'NGN',
    sessionId,
    ...(state === 'paid' && { amount: numberToken(`${amountMinor}`) }),
    ...(MESSAGES[state] !== '' && { errorMsg: MESSAGES[state] }),
  }
}
