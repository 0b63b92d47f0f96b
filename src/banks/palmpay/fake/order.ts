import type { KeyObject } from 'node:crypto'
import { numberToken } from '../../fake/number-token.ts'
import { signFake } from './signature.ts'

/** Fields of PalmPay's JSON; numbers are bigints. */
export type PalmPayFields = Readonly<Record<string, string | bigint>>

/** A collection order of the fake PalmPay. */
export interface PalmPayOrder {
  readonly orderNo: string
  /** 1: paid. */
  readonly orderStatus: bigint
  readonly createdAtMs: number
  readonly amountMinor: bigint
  readonly accountNumber: string
  readonly accountName: string
  readonly accountReference: string
  /** Sent unchanged, including the spaces that some banks pad names with. */
  readonly payerName: string
  readonly payerAccountNumber: string
  readonly payerBankName: string
  /** Omitted from the JSON if empty, as the bank sometimes does. */
  readonly sessionId: string
  readonly reference: string
}

/** The order as in notifications, `detail` and `pageList`. */
export function orderFields(order: PalmPayOrder, appId: string): PalmPayFields {
  return {
    orderNo: order.orderNo,
    orderStatus: order.orderStatus,
    createdTime: BigInt(order.createdAtMs),
    updateTime: BigInt(order.createdAtMs),
    currency: 'NGN',
    orderAmount: order.amountMinor,
    reference: order.reference,
    payerAccountNo: order.payerAccountNumber,
    payerAccountName: order.payerName,
    payerBankName: order.payerBankName,
    virtualAccountNo: order.accountNumber,
    virtualAccountName: order.accountName,
    accountReference: order.accountReference,
    ...(order.sessionId !== '' && { sessionId: order.sessionId }),
    appId,
  }
}

/** The signed body of a notification. */
export function notificationBody(fields: PalmPayFields, key: KeyObject): string {
  return JSON.stringify({ ...toJson(fields), sign: encodeURIComponent(signFake(fields, key)) })
}

/** Prepares fields for `JSON.stringify`: bigints become exact JSON numbers. */
export function toJson(fields: PalmPayFields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'bigint' ? numberToken(value.toString()) : value,
    ]),
  )
}
