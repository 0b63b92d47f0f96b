import { formatAmount } from '../../core/money.ts'
import { numberToken } from '../number-token.ts'

/** What the bank knows of its own notification: code 02 is final, and the money logged as failed. */
export type ProvidusStanding = 'waiting' | 'acknowledged' | 'rejected'

/** A payment that the fake Providus received. */
export interface ProvidusTransaction {
  readonly sessionId: string
  readonly settlementId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  /** The bank's own, taken off what it settles. */
  readonly feeMinor: bigint
  readonly remarks: string
  /** Empty: the bank does not know it, and writes " " or "null". */
  readonly sourceAccountNumber: string
  readonly sourceAccountName: string
  readonly sourceBankCode: string
  readonly sourceBankName: string
  /** Lagos time without a zone: `2021-03-01 18:06:20`. */
  readonly tranDateTime: string
  standing: ProvidusStanding
}

/** Amounts are strings, without the decimals that they do not need. */
export function notificationBody(transaction: ProvidusTransaction): string {
  const { amountMinor, feeMinor, sourceAccountNumber, sourceAccountName } = transaction
  const naira = (minor: bigint) => formatAmount(minor).replace(/\.?0+$/, '')
  return JSON.stringify({
    sessionId: transaction.sessionId,
    accountNumber: transaction.accountNumber,
    tranRemarks: transaction.remarks,
    transactionAmount: naira(amountMinor),
    settledAmount: naira(amountMinor - feeMinor),
    feeAmount: naira(feeMinor),
    vatAmount: '0',
    currency: 'NGN',
    initiationTranRef: '',
    settlementId: transaction.settlementId,
    sourceAccountNumber: sourceAccountNumber || ' ',
    sourceAccountName: sourceAccountName || 'null',
    sourceBankName: transaction.sourceBankName,
    channelId: '1',
    tranDateTime: transaction.tranDateTime,
  })
}

/** As requeries show it: amounts are numbers, and there are fields that notifications have not. */
export function requeryBody(transaction: ProvidusTransaction): string {
  const { amountMinor, feeMinor, sourceAccountNumber, sourceAccountName } = transaction
  return toRequeried({
    sessionId: transaction.sessionId,
    accountNumber: transaction.accountNumber,
    tranRemarks: transaction.remarks,
    transactionAmount: toNumber(amountMinor),
    settledAmount: toNumber(amountMinor - feeMinor),
    feeAmount: toNumber(feeMinor),
    currency: 'NGN',
    settlementId: transaction.settlementId,
    sourceAccountNumber: sourceAccountNumber || ' ',
    sourceAccountName: sourceAccountName || 'null',
    sourceBankCode: transaction.sourceBankCode,
    sourceBankName: transaction.sourceBankName,
    channelId: '1',
    tranDateTime: transaction.tranDateTime,
    notification_acknowledgement: transaction.standing === 'waiting' ? 0 : 1,
  })
}

/** The shape of a payment, with nothing in it. */
export function notFoundBody(): string {
  return toRequeried({ tranRemarks: 'Transaction not found!!!' })
}

function toRequeried(fields: Readonly<Record<string, unknown>>): string {
  const zero = toNumber(0n)
  return JSON.stringify({
    sessionId: '',
    initiationTranRef: '',
    accountNumber: '',
    tranRemarks: '',
    transactionAmount: zero,
    settledAmount: zero,
    feeAmount: zero,
    vatAmount: zero,
    currency: '',
    settlementId: '',
    sourceAccountNumber: '',
    sourceAccountName: '',
    sourceBankCode: '',
    sourceBankName: '',
    channelId: '',
    tranDateTime: '',
    settlementDateTime: '',
    stamp_duty_flg: 0,
    post_flg: 0,
    notification_acknowledgement: 0,
    ...fields,
  })
}

/** `1000.0`, `76.75`. */
function toNumber(minor: bigint): unknown {
  return numberToken(formatAmount(minor).replace(/0$/, ''))
}
