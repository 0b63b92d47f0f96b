import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import type {
  Acknowledgement,
  BankPayment,
  LiveConnector,
  NotificationOutcome,
  PaymentListing,
  PaymentPage,
  Reading,
  Requery,
} from '../bank.ts'
import { DENIED } from '../bank.ts'
import {
  type BankFields,
  fieldsOf,
  getPath,
  isAccountNumber,
  isPaymentKey,
  plainText,
  textOf,
} from '../bank-fields.ts'
import {
  AccessDeniedError,
  type BankHttp,
  BankUnreachableError,
  type OnAccess,
  parseBankJson,
} from '../http/bank-http.ts'
import { createOpening, createPalmPayCall, type PalmPayCall, SUCCESS } from './open-account.ts'
import type { PalmPaySettings } from './settings.ts'
import { isSigned, isUnambiguous, type SignedFields } from './signature.ts'
import { createPalmPayTransfers } from './transfer.ts'

export interface PalmPayOptions {
  readonly settings: PalmPaySettings
  readonly http: BankHttp
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  /** Called for each listed order that cannot be parsed. */
  readonly warn?: (text: string) => void
  readonly onAccess?: OnAccess
}

const PAGE_SIZE = 50

/** More pages than any period has: bounds the listing if the bank repeats pages. */
const PAGES_MAX = 10_000

/** Permanent accounts at PalmPay. `listPayments` throws BankUnreachableError. */
export function createPalmPay(options: PalmPayOptions): LiveConnector {
  const { settings } = options
  const call = createPalmPayCall(options)
  return {
    ...createOpening(settings, call),
    async closeAccount({ accountNumber }, signal) {
      const fields = { virtualAccountNo: accountNumber, status: 'Disabled' }
      const response = await call(settings.updatePath, fields, signal)
      if (response.kind === 'responded' && response.code === SUCCESS) return { kind: 'closed' }
      const denied = response.kind === 'denied' && DENIED
      return { kind: 'unavailable', cause: response.cause, ...denied }
    },
    read: ({ rawBody }) => readNotification(rawBody, settings),
    acknowledge,
    requery: (payment, signal) => requery(settings, call, payment, signal),
    listing: 'by bank',
    listPayments: (listing, signal) => listOrders(options, call, listing, signal),
    ...(settings.transfers && { transfers: createPalmPayTransfers(settings.transfers, call) }),
  }
}

/** PalmPay retries unless the body is `success`: 8 times within a day. */
function acknowledge(outcome: NotificationOutcome): Acknowledgement {
  const contentType = 'text/plain'
  if (outcome === 'UNAUTHENTICATED') return { status: 401, contentType, body: 'unauthenticated' }
  if (outcome === 'RETRY') return { status: 503, contentType, body: 'retry' }
  return { status: 200, contentType, body: 'success' }
}

/** An order that is not found or not paid proves nothing: PalmPay may not know it yet. */
async function requery(
  { orderPath }: PalmPaySettings,
  call: PalmPayCall,
  payment: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const response = await call(orderPath, { orderNo: payment.bankKey }, signal)
  if (response.kind !== 'responded' || response.code !== SUCCESS) {
    return { kind: 'unknown', cause: response.cause, ...(response.kind === 'denied' && DENIED) }
  }
  const order = readOrder(response.fields)
  if (order.kind !== 'paid') return { kind: 'unknown', cause: order.cause }
  return order.payment.bankKey === payment.bankKey
    ? { kind: 'confirmed', payment: order.payment }
    : { kind: 'unknown', cause: `PalmPay returned order ${order.payment.bankKey}` }
}

async function listOrders(
  { settings, warn }: PalmPayOptions,
  call: PalmPayCall,
  listing: PaymentListing,
  signal: AbortSignal,
): Promise<PaymentPage> {
  const pageIndex = Number(listing.page ?? 1)
  const fields = {
    startTime: listing.fromMs,
    endTime: listing.toMs,
    pageIndex,
    pageSize: PAGE_SIZE,
    ...(listing.account && { accountNo: listing.account.accountNumber }),
  }
  const response = await call(settings.ordersPath, fields, signal)
  if (response.kind === 'denied') throw new AccessDeniedError(response.cause)
  if (response.kind !== 'responded' || response.code !== SUCCESS) {
    throw new BankUnreachableError(`PalmPay did not list orders: ${response.cause}`, true)
  }
  const list = response.fields['list']
  if (!Array.isArray(list))
    throw new BankUnreachableError('the response of PalmPay has no list', true)
  const payments = list.flatMap((entry): BankPayment[] => {
    const order = readOrder(entry)
    if (order.kind === 'paid') return [order.payment]
    if (order.kind === 'malformed')
      warn?.(`skipped a malformed order in the list of PalmPay: ${order.cause}`)
    return []
  })
  const hasMore = list.length >= PAGE_SIZE && pageIndex < PAGES_MAX
  return { payments, next: hasMore ? String(pageIndex + 1) : undefined }
}

interface NotificationRules {
  /** Our app: PalmPay signs the notifications of all merchants with the same key. */
  readonly appId: string
  readonly publicKey: KeyObject
}

/** Verifies and parses a notification. */
function readNotification(rawBody: Buffer, rules: NotificationRules): Reading {
  const body = fieldsOf(parseBankJson(rawBody.toString('utf8')))
  if (body === undefined) return { kind: 'unauthenticated', cause: 'the body is not a JSON object' }
  const { sign, ...fields } = body
  if (typeof sign !== 'string' || sign === '')
    return { kind: 'unauthenticated', cause: 'no signature' }
  const signed = signedFields(fields)
  if (!isSigned(signed, sign, rules.publicKey)) {
    return { kind: 'unauthenticated', cause: 'the signature is invalid' }
  }
  const appId = textOf(fields, 'appId')
  if (appId !== '' && appId !== rules.appId) {
    return { kind: 'unauthenticated', cause: 'for another app' }
  }
  const order = readOrder(fields)
  if (order.kind === 'other') return { kind: 'ignored', cause: order.cause }
  if (order.kind === 'malformed') return order
  return { kind: 'payment', payment: order.payment, bound: isUnambiguous(signed) }
}

/** Drops null fields; numbers are their tokens, lists and objects are signed as JSON. */
function signedFields(fields: BankFields): SignedFields {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}

/** A collection order in a notification, a requery or a list. */
type Order =
  | { readonly kind: 'paid'; readonly payment: BankPayment }
  /** Not a payment into a virtual account: a payout, a checkout or an unsuccessful order. */
  | { readonly kind: 'other'; readonly cause: string }
  | { readonly kind: 'malformed'; readonly cause: string }

const PAID = '1'

/** Parses an order. Its amounts are in kobo. */
function readOrder(fields: unknown): Order {
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
