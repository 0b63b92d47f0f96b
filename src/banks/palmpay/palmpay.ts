import type { Clock } from '../../core/clock.ts'
import { DENIED } from '../access-denied.ts'
import type {
  Acknowledgement,
  BankPayment,
  LiveConnector,
  NotificationOutcome,
  PaymentListing,
  PaymentPage,
  Requery,
} from '../bank.ts'
import {
  AccessDeniedError,
  type BankHttp,
  BankUnreachableError,
  type OnAccess,
} from '../http/bank-http.ts'
import { createPalmPayCall, type PalmPayCall, SUCCESS } from './call.ts'
import { readNotification } from './notification.ts'
import { createOpening } from './open-account.ts'
import { readOrder } from './order.ts'
import type { PalmPaySettings } from './settings.ts'

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
