import type { Clock } from '../../core/clock.ts'
import type {
  Acknowledgement,
  BankPayment,
  LiveConnector,
  NotificationOutcome,
  PaymentListing,
  PaymentPage,
  Requery,
} from '../bank.ts'
import { type BankHttp, BankUnreachable } from '../http/bank-http.ts'
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
  /** Hears of listed orders that cannot be understood. */
  readonly warn?: (text: string) => void
}

const PAGE_SIZE = 50

/** No period has so many pages: a bank that repeats itself is not followed for ever. */
const PAGES_MAX = 10_000

/** Permanent accounts at PalmPay. Its `listPayments` throws BankUnreachable. */
export function createPalmPay(options: PalmPayOptions): LiveConnector {
  const { settings } = options
  const call = createPalmPayCall(options)
  const { openAccount, findOpened } = createOpening(settings, call)
  return {
    afterCrash: settings.findBy === '' ? 'person' : 'query',
    openAccount,
    ...(settings.findBy === '' ? {} : { findOpened }),
    async closeAccount({ accountNumber }, signal) {
      const fields = { virtualAccountNo: accountNumber, status: 'Disabled' }
      const answer = await call(settings.updatePath, fields, signal)
      const done = answer.kind === 'answered' && answer.code === SUCCESS
      return done ? { kind: 'closed' } : { kind: 'unavailable', cause: answer.cause }
    },
    read: ({ rawBody }) => readNotification(rawBody, settings),
    acknowledge,
    requery: (payment, signal) => requery(settings, call, payment, signal),
    listing: 'by bank',
    listPayments: (listing, signal) => listOrders(options, call, listing, signal),
  }
}

/** Anything but the text `success` makes PalmPay send again: 8 times within a day. */
function acknowledge(outcome: NotificationOutcome): Acknowledgement {
  const contentType = 'text/plain'
  if (outcome === 'UNAUTHENTICATED') return { status: 401, contentType, body: 'refused' }
  if (outcome === 'RETRY') return { status: 503, contentType, body: 'try again' }
  return { status: 200, contentType, body: 'success' }
}

/** Whatever is not a paid order says nothing: PalmPay may not know of it yet. */
async function requery(
  { orderPath }: PalmPaySettings,
  call: PalmPayCall,
  payment: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const answer = await call(orderPath, { orderNo: payment.bankKey }, signal)
  if (answer.kind !== 'answered' || answer.code !== SUCCESS) {
    return { kind: 'unknown', cause: answer.cause }
  }
  const order = readOrder(answer.fields)
  if (order.kind !== 'paid') return { kind: 'unknown', cause: order.cause }
  return order.payment.bankKey === payment.bankKey
    ? { kind: 'confirmed', payment: order.payment }
    : { kind: 'unknown', cause: `answered for ${order.payment.bankKey}` }
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
  const answer = await call(settings.ordersPath, fields, signal)
  if (answer.kind !== 'answered' || answer.code !== SUCCESS) {
    throw new BankUnreachable(`PalmPay listed no orders: ${answer.cause}`, true)
  }
  const list = answer.fields['list']
  if (!Array.isArray(list)) throw new BankUnreachable('PalmPay answered without a list', true)
  const payments = list.flatMap((entry): BankPayment[] => {
    const order = readOrder(entry)
    if (order.kind === 'paid') return [order.payment]
    if (order.kind === 'unreadable') warn?.(`PalmPay lists an order whose ${order.cause}`)
    return []
  })
  const more = list.length >= PAGE_SIZE && pageIndex < PAGES_MAX
  return { payments, next: more ? String(pageIndex + 1) : undefined }
}
