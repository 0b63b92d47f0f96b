import { parseBankJson } from '../../banks/http/bank-json.ts'
import { type Clock, systemClock } from '../../core/clock.ts'
import { createCourier, type Delivered } from '../courier.ts'
import { createFaults, type Faults, type ServerFault } from '../faults.ts'
import {
  type FakeRequest,
  type FakeRoute,
  type Observe,
  startLoopbackServer,
} from '../loopback-server.ts'
import { payByHand } from '../pay-by-hand.ts'
import { createPalmPayBooks, type PalmPayAccount, type PalmPayPayment } from './books.ts'
import { makePalmPayCredentials, type PalmPayCredentials, palmPayEnvironment } from './keys.ts'
import { BAD_PARAMETER, createPalmPayMethods, type PalmPayShown } from './methods.ts'
import { notificationBody, orderFields, type PalmPayOrder } from './order.ts'
import { isRequestSigned } from './signature.ts'

const OPERATIONS = ['create', 'queryOne', 'update', 'detail', 'pageList'] as const

export type PalmPayOperation = (typeof OPERATIONS)[number]

/** Beside what any server does: any `respCode`, with or without having done what was asked. */
export type PalmPayFault = ServerFault | `code ${string}` | `done, code ${string}`

export interface FakePalmPayOptions {
  /** 0: a free one. */
  readonly port: number
  /** Made unless given. */
  readonly credentials?: PalmPayCredentials
  /** Where it tells of payments; on this machine. */
  readonly notify?: string
  readonly clock?: Clock
  /** Waits before the eight further attempts of a notification. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

/** PalmPay on this machine. */
export interface FakePalmPay {
  readonly url: string
  /** The settings of a service that is to use it. */
  readonly environment: Readonly<Record<string, string>>
  readonly faults: Faults<PalmPayOperation, PalmPayFault>
  /** By number. */
  readonly accounts: ReadonlyMap<string, PalmPayAccount>
  /** By number. */
  readonly orders: ReadonlyMap<string, PalmPayOrder>
  /** How often each operation was asked for, whatever became of it. */
  readonly requests: Readonly<Record<PalmPayOperation, number>>
  /** Opens an account past its API. */
  openAccount(name: string, reference?: string): PalmPayAccount
  /** Receives a payment and tells nobody yet. @param amount naira */
  receive(accountNumber: string, amount: string, payment?: PalmPayPayment): PalmPayOrder
  /** The signed body that tells of an order. */
  notification(order: PalmPayOrder): string
  /** Tells of an order: late, again, in any sequence. */
  notify(order: PalmPayOrder): Promise<Delivered>
  /** Receives a payment and tells of it. @param amount naira */
  pay(accountNumber: string, amount: string, payment?: PalmPayPayment): Promise<Delivered>
  /** The signed body that tells of a payout; it comes to the same address. */
  payout(amountMinor: bigint): string
  close(): Promise<void>
}

const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000]
const RETRY_DELAYS_MS = [
  5 * SECOND,
  30 * SECOND,
  4 * MINUTE,
  10 * MINUTE,
  HOUR,
  2 * HOUR,
  6 * HOUR,
  15 * HOUR,
]

const PATHS: Readonly<Record<PalmPayOperation, string>> = {
  create: '/api/v2/virtual/account/label/create',
  queryOne: '/api/v2/virtual/account/label/queryOne',
  update: '/api/v2/virtual/account/label/update',
  detail: '/api/v2/virtual/order/detail',
  pageList: '/api/v2/virtual/order/pageList',
}

/**
 * Behaves as public integrations show the bank. A person pays into an account of it with
 * `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakePalmPay(options: FakePalmPayOptions): Promise<FakePalmPay> {
  const { clock = systemClock, credentials = makePalmPayCredentials() } = options
  const { appId, bankPrivateKey } = credentials
  const faults = createFaults<PalmPayOperation, PalmPayFault>()
  const books = createPalmPayBooks(clock)
  const requests = { create: 0, queryOne: 0, update: 0, detail: 0, pageList: 0 }
  const courier = createCourier({
    url: options.notify,
    observe: options.observe,
    headers: { 'content-type': 'application/json;charset=UTF-8' },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    judge: ({ status, text }) => (status === 200 && text === 'success' ? 'acknowledged' : 'again'),
  })
  const notification = (order: PalmPayOrder) =>
    notificationBody(orderFields(order, appId), bankPrivateKey)
  const notify = (order: PalmPayOrder) => courier.deliver(notification(order))
  const routes = routesOf(
    createPalmPayMethods(books, appId),
    faults,
    requests,
    createGuard(credentials, clock),
  )
  routes['POST /fake/pay'] = {
    fault: () => undefined,
    answer: (request) => payByHand(request, books.receive, notify),
  }
  const server = await startLoopbackServer({ port: options.port, routes, observe: options.observe })
  return {
    url: server.url,
    environment: palmPayEnvironment(server.url, credentials),
    faults,
    accounts: books.accounts,
    orders: books.orders,
    requests,
    openAccount: (name, reference = `fake-${books.accounts.size}`) => books.open(name, reference),
    receive: books.receive,
    notification,
    notify,
    pay: async (...payment) => notify(books.receive(...payment)),
    payout: (amount) => {
      const orderId = `payout-${clock.now()}`
      const fields = { orderId, orderNo: `PO${clock.now()}`, appId, currency: 'NGN', amount }
      const state = { orderStatus: 1n, completeTime: BigInt(clock.now()) }
      return notificationBody({ ...fields, ...state }, bankPrivateKey)
    },
    close() {
      courier.close()
      return server.close()
    },
  }
}

type Guard = (request: FakeRequest) => PalmPayShown | undefined

/** Each looks for a fault, then at the request, then does what is asked. */
function routesOf(
  methods: ReturnType<typeof createPalmPayMethods>,
  faults: FakePalmPay['faults'],
  requests: Record<PalmPayOperation, number>,
  refusalOf: Guard,
): Record<string, FakeRoute> {
  const route = (operation: PalmPayOperation): FakeRoute => {
    let own: PalmPayFault | undefined
    return {
      fault() {
        requests[operation] += 1
        own = faults.take(operation)
        return own && /\bcode /.test(own) ? undefined : (own as ServerFault | undefined)
      },
      answer(request) {
        const code = own?.split('code ')[1]
        const fault = { respCode: code, respMsg: 'fault' }
        const refused = refusalOf(request)
        if (refused) return reply(refused)
        if (code && !own?.startsWith('done')) return reply(fault)
        const shown = methods[operation](parseBankJson(request.body))
        return reply(code ? fault : shown)
      },
    }
  }
  return Object.fromEntries(
    OPERATIONS.map((operation) => [`POST ${PATHS[operation]}`, route(operation)]),
  )
}

const CLOCKS_APART_MAX_MS = 300_000
const NONCES_MAX = 100_000

/** What stands before every method: who asks, whether it is signed, new, and complete. */
function createGuard({ appId, merchantPublicKey }: PalmPayCredentials, clock: Clock): Guard {
  const nonces = new Set<string>()
  return ({ headers, body }) => {
    const fields = parseObject(body)
    const { nonceStr, requestTime, version } = fields
    const signature = headers['signature'] ?? ''
    const isOurs = headers['authorization'] === `Bearer ${appId}`
    if (!isOurs || !isRequestSigned(fields, signature, merchantPublicKey)) {
      return { respCode: 'OPEN_GW_000008', respMsg: 'sign error' }
    }
    const apartMs = Math.abs(Number(requestTime) - clock.now())
    const isNew = typeof nonceStr === 'string' && nonceStr.length === 32 && !nonces.has(nonceStr)
    const isWhole = version === 'V2.0' && headers['countrycode'] === 'NG'
    if (!isNew || !isWhole || !(apartMs < CLOCKS_APART_MAX_MS)) return BAD_PARAMETER
    if (nonces.size >= NONCES_MAX) nonces.clear()
    nonces.add(nonceStr)
    return undefined
  }
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function reply(shown: PalmPayShown) {
  return { status: 200, body: JSON.stringify(shown) }
}
