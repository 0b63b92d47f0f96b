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
import { failure } from '../bank.ts'
import {
  fieldsOf,
  getPath,
  isAccountNumber,
  isPaymentKey,
  malformed,
  plainText,
  textOf,
} from '../bank-fields.ts'
import {
  AccessDeniedError,
  BankUnreachableError,
  type ConnectorOptions,
  NotListedError,
  parseBankJson,
} from '../http/bank-http.ts'
import { createOpening, createPalmPayCall, type PalmPayCall, SUCCESS } from './open-account.ts'
import type { PalmPaySettings } from './settings.ts'
import { isSigned, isUnambiguous, signedTexts } from './signature.ts'
import { createPalmPayTransfers } from './transfer.ts'

const PAGE_SIZE = 50

/** More pages than any period has: a bank that repeats pages must not be read forever. */
const PAGES_MAX = 100_000

/** Permanent accounts at PalmPay. `listPayments` throws BankUnreachableError. */
export function createPalmPay(options: ConnectorOptions<PalmPaySettings>): LiveConnector {
  const { settings } = options
  const call = createPalmPayCall(options)
  return {
    ...createOpening(settings, call),
    async closeAccount({ accountNumber }, signal) {
      const fields = { virtualAccountNo: accountNumber, status: 'Disabled' }
      const response = await call(settings.updatePath, fields, signal)
      if (response.kind === 'responded' && response.code === SUCCESS) return { kind: 'closed' }
      return failure('unavailable', response)
    },
    read: ({ rawBody }) => readNotification(rawBody, settings),
    acknowledge,
    requery: (payment, signal) => requery(settings, call, payment, signal),
    listing: 'by bank',
    listPayments: (listing, signal) => listOrders(options, call, listing, signal),
    ...(settings.transfers && { transfers: createPalmPayTransfers(settings.transfers, call) }),
  }
}

/** Unless the body is `success`, PalmPay retries 8 times within a day. */
function acknowledge(outcome: NotificationOutcome): Acknowledgement {
  const contentType = 'text/plain'
  if (outcome === 'UNAUTHENTICATED') return { status: 401, contentType, body: 'unauthenticated' }
  if (outcome === 'RETRY') return { status: 503, contentType, body: 'retry' }
  return { status: 200, contentType, body: 'success' }
}

/** Requeries an order. "Not found" or "not paid" proves nothing, because PalmPay may not know the order yet. */
async function requery(
  { orderPath }: PalmPaySettings,
  call: PalmPayCall,
  payment: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const response = await call(orderPath, { orderNo: payment.bankKey }, signal)
  if (response.kind !== 'responded' || response.code !== SUCCESS) {
    return failure('unknown', response)
  }
  const order = readOrder(response.fields)
  if (order.kind !== 'paid') return { kind: 'unknown', cause: order.cause }
  return order.payment.bankKey === payment.bankKey
    ? { kind: 'confirmed', payment: order.payment }
    : { kind: 'unknown', cause: `PalmPay returned order ${order.payment.bankKey}` }
}

async function listOrders(
  { settings, warn }: ConnectorOptions<PalmPaySettings>,
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
      warn(`skipped a malformed order in the list of PalmPay: ${order.cause}`)
    return []
  })
  const hasMore = list.length >= PAGE_SIZE
  if (hasMore && pageIndex >= PAGES_MAX) {
    throw new NotListedError('the list of PalmPay does not end')
  }
  return { payments, next: hasMore ? String(pageIndex + 1) : undefined }
}

/** Verifies and parses a notification. */
function readNotification(rawBody: Buffer, settings: PalmPaySettings): Reading {
  const body = fieldsOf(parseBankJson(rawBody.toString('utf8')))
  if (body === undefined) return { kind: 'unauthenticated', cause: 'the body is not a JSON object' }
  const { sign, ...fields } = body
  if (typeof sign !== 'string' || sign === '')
    return { kind: 'unauthenticated', cause: 'no signature' }
  const signed = signedTexts(fields)
  if (!isSigned(signed, sign, settings.publicKey)) {
    return { kind: 'unauthenticated', cause: 'the signature is invalid' }
  }
  // PalmPay signs the notifications of all merchants with the same key.
  const appId = textOf(fields, 'appId')
  if (appId !== '' && appId !== settings.appId) {
    return { kind: 'unauthenticated', cause: 'for another app' }
  }
  const order = readOrder(fields)
  if (order.kind === 'other') return { kind: 'ignored', cause: order.cause }
  if (order.kind === 'malformed') return order
  return { kind: 'payment', payment: order.payment, bound: isUnambiguous(signed) }
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
