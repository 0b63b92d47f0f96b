import { createHash } from 'node:crypto'
import { getPath } from '../../banks/get-path.ts'
import { parseBankJson } from '../../banks/http/bank-json.ts'
import { type Clock, systemClock } from '../../core/clock.ts'
import { createCourier, type Delivered } from '../courier.ts'
import { createFaults, type Faults, type ServerFault } from '../faults.ts'
import {
  type FakeReply,
  type FakeRequest,
  type FakeRoute,
  type Observe,
  startLoopbackServer,
} from '../loopback-server.ts'
import { payByHand } from '../pay-by-hand.ts'
import { createProvidusBooks, type ProvidusAccount, type ProvidusPayment } from './books.ts'
import {
  notFoundBody,
  notificationBody,
  type ProvidusTransaction,
  requeryBody,
} from './transaction.ts'

export type ProvidusOperation = 'create' | 'settlement' | 'session'

/**
 * Beside what any server does: failures inside HTTP 200, before or after it was done, and a payment
 * that is not known yet.
 */
export type ProvidusFault = ServerFault | '03' | '03 after' | '05' | '11' | 'not found'

export interface FakeProvidusOptions {
  /** 0: a free one. */
  readonly port: number
  readonly credentials: { readonly clientId: string; readonly clientSecret: string }
  /** Where it tells of payments; on this machine. */
  readonly notify?: string
  readonly clock?: Clock
  /** Put before names: `MERCHANT(Ada Obi)`. */
  readonly merchant?: string
  /** HTTP status of what is refused by its code. */
  readonly refusalStatus?: number
  /** HTTP status of a requery that finds nothing. */
  readonly notFoundStatus?: number
  /** Waits before the four further attempts of a notification. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

/** Providus on this machine. */
export interface FakeProvidus {
  readonly url: string
  readonly faults: Faults<ProvidusOperation, ProvidusFault>
  /** By number. */
  readonly accounts: ReadonlyMap<string, ProvidusAccount>
  readonly transactions: readonly ProvidusTransaction[]
  /** How often each operation was asked for, whatever became of it. */
  readonly requests: Readonly<Record<ProvidusOperation, number>>
  /** Opens an account past its API. */
  openAccount(accountName: string): ProvidusAccount
  /** Receives a payment and tells nobody yet. @param amount naira */
  receive(accountNumber: string, amount: string, payment?: ProvidusPayment): ProvidusTransaction
  /** Tells of a payment: late, again, in any order. */
  notify(transaction: ProvidusTransaction): Promise<Delivered>
  /** Receives a payment and tells of it. @param amount naira */
  pay(accountNumber: string, amount: string, payment?: ProvidusPayment): Promise<Delivered>
  close(): Promise<void>
}

const RETRY_DELAYS_MS = [2_000, 5_000, 15_000, 60_000]

/**
 * Behaves as the bank's document says. A person pays into an account of it with
 * `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeProvidus(options: FakeProvidusOptions): Promise<FakeProvidus> {
  const { port, credentials, clock = systemClock } = options
  const { clientId, clientSecret } = credentials
  const signature = createHash('sha512').update(`${clientId}:${clientSecret}`).digest('hex')
  const faults = createFaults<ProvidusOperation, ProvidusFault>()
  const books = createProvidusBooks(clock)
  const courier = createCourier({
    url: options.notify,
    observe: options.observe,
    headers: {
      'content-type': 'application/json',
      'client-id': clientId,
      'x-auth-signature': signature.toUpperCase(),
    },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    judge: ({ text }) => VERDICTS.get(getPath(parseBankJson(text), 'responseCode')) ?? 'again',
  })
  const notify = async (transaction: ProvidusTransaction): Promise<Delivered> => {
    const delivered = await courier.deliver(notificationBody(transaction))
    const code = getPath(parseBankJson(delivered.answers.at(-1)?.text ?? ''), 'responseCode')
    if (delivered.acknowledged) transaction.standing = 'acknowledged'
    else if (code === '02') transaction.standing = 'rejected'
    return delivered
  }
  const requests = { create: 0, settlement: 0, session: 0 }
  /** Looks for the signature, then does it. */
  const route = (
    operation: ProvidusOperation,
    act: (request: FakeRequest) => FakeReply,
  ): FakeRoute => ({
    fault() {
      requests[operation] += 1
      return faults.take(operation)
    },
    answer(request, fault) {
      const { headers } = request
      const signed = headers['x-auth-signature']?.toLowerCase() === signature
      if (!signed || headers['client-id'] !== clientId) return refusal(options, '05')
      if (fault === 'not found') return notFound(options)
      if (fault === '03 after') act(request)
      return fault ? refusal(options, fault.slice(0, 2)) : act(request)
    },
  })
  const toFound = (transaction: ProvidusTransaction | undefined): FakeReply =>
    transaction ? { status: 200, body: requeryBody(transaction) } : notFound(options)
  const server = await startLoopbackServer({
    port,
    observe: options.observe,
    routes: {
      'POST /PiPCreateReservedAccountNumber': route('create', ({ body }) => {
        const name = getPath(parseBankJson(body), 'account_name').trim()
        if (name === '') return refusal(options, '11')
        return created(books.open(`${options.merchant ?? 'MERCHANT'}(${name})`))
      }),
      'GET /PiPverifyTransaction_settlementid': route('settlement', ({ query }) =>
        toFound(books.bySettlement(query.get('settlement_id') ?? '')),
      ),
      'GET /PiPverifyTransaction_sessionid': route('session', ({ query }) =>
        toFound(books.bySession(query.get('session_id') ?? '')),
      ),
      'POST /fake/pay': { answer: (request) => payByHand(request, books.receive, notify) },
    },
  })
  return {
    url: server.url,
    faults,
    accounts: books.accounts,
    transactions: books.transactions,
    requests,
    openAccount: books.open,
    receive: books.receive,
    notify,
    pay: async (...payment) => notify(books.receive(...payment)),
    close() {
      courier.close()
      return server.close()
    },
  }
}

/** What answers to a notification mean; any other brings it again. */
const VERDICTS: ReadonlyMap<string, 'acknowledged' | 'final'> = new Map([
  ['00', 'acknowledged'],
  ['01', 'acknowledged'],
  ['02', 'final'],
])

const MESSAGES: Readonly<Record<string, string>> = {
  '03': 'Exception; Failed',
  '05': 'Authentication failed',
  '11': 'Error Completing Operation',
}

function refusal({ refusalStatus = 200 }: FakeProvidusOptions, code: string): FakeReply {
  const body = { requestSuccessful: false, responseMessage: MESSAGES[code], responseCode: code }
  return { status: refusalStatus, body: JSON.stringify(body) }
}

function notFound({ notFoundStatus = 200 }: FakeProvidusOptions): FakeReply {
  return { status: notFoundStatus, body: notFoundBody() }
}

function created({ accountNumber, accountName }: ProvidusAccount): FakeReply {
  const body = {
    account_number: accountNumber,
    account_name: accountName,
    bvn: '',
    requestSuccessful: true,
    responseMessage: 'Reserved Account Generated Successfully',
    responseCode: '00',
  }
  return { status: 200, body: JSON.stringify(body) }
}
