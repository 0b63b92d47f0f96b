import { formatAmount } from '../../../core/money.ts'
import { numberToken } from '../../fake/number-token.ts'

/** After code 02 the bank does not retry, and records the payment as failed. */
export type ProvidusNotificationStatus = 'pending' | 'acknowledged' | 'rejected'

/** A payment that the fake Providus received. */
export interface ProvidusTransaction {
  readonly sessionId: string
  readonly settlementId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  /** The bank's fee, deducted from the settled amount. */
  readonly feeMinor: bigint
  readonly remarks: string
  /** Empty if unknown; the bank then sends " " or "null". */
  readonly sourceAccountNumber: string
  readonly sourceAccountName: string
  readonly sourceBankCode: string
  readonly sourceBankName: string
  /** Lagos time without a zone: `2021-03-01 18:06:20`. */
  readonly tranDateTime: string
  notificationStatus: ProvidusNotificationStatus
}

/** Amounts are strings without trailing zeros. */
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

/** As in requeries: amounts are numbers, and there are more fields than in notifications. */
export function requeryBody(transaction: ProvidusTransaction): string {
  const { amountMinor, feeMinor, sourceAccountNumber, sourceAccountName } = transaction
  return toRequeryBody({
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
    notification_acknowledgement: transaction.notificationStatus === 'pending' ? 0 : 1,
  })
}

/** An empty payment with a remark. */
export function notFoundBody(): string {
  return toRequeryBody({ tranRemarks: 'Transaction not found!!!' })
}

function toRequeryBody(fields: Readonly<Record<string, unknown>>): string {
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
