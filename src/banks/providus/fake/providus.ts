import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '../../../core/clock.ts'
import { createFaults, type Faults, type ServerFault } from '../../fake/faults.ts'
import {
  type FakeRequest,
  type FakeResponse,
  type FakeRoute,
  type Observe,
  startLoopbackServer,
} from '../../fake/loopback-server.ts'
import { createNotifier, type NotifyResult } from '../../fake/notifier.ts'
import { payByHand } from '../../fake/pay-by-hand.ts'
import { getPath } from '../../get-path.ts'
import { parseBankJson } from '../../http/bank-json.ts'
import { createProvidusBooks, type ProvidusAccount, type ProvidusPayment } from './books.ts'
import {
  notFoundBody,
  notificationBody,
  type ProvidusTransaction,
  requeryBody,
} from './transaction.ts'

export type ProvidusOperation = 'create' | 'settlement' | 'session'

/**
 * Faults of any server, error codes inside HTTP 200 with the request executed or not, and a payment
 * that is not known yet.
 */
export type ProvidusFault = ServerFault | '03' | '03 after' | '05' | '11' | 'not found'

export interface FakeProvidusOptions {
  /** 0 picks a free port. */
  readonly port: number
  readonly credentials: { readonly clientId: string; readonly clientSecret: string }
  /** URL for its notifications, on this machine. */
  readonly notify?: string
  readonly clock?: Clock
  /** Prefix of account names: `MERCHANT(Ada Obi)`. */
  readonly merchant?: string
  /** HTTP status of responses with an error code; default 200. */
  readonly errorStatus?: number
  /** HTTP status of a requery that finds nothing. */
  readonly notFoundStatus?: number
  /** Delays before the four retries of a notification. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

/** A fake Providus. */
export interface FakeProvidus {
  readonly url: string
  readonly faults: Faults<ProvidusOperation, ProvidusFault>
  /** By number. */
  readonly accounts: ReadonlyMap<string, ProvidusAccount>
  readonly transactions: readonly ProvidusTransaction[]
  /** Requests per operation, whatever their results. */
  readonly requests: Readonly<Record<ProvidusOperation, number>>
  /** Opens an account without an API call. */
  openAccount(accountName: string): ProvidusAccount
  /** Receives a payment without notifying. @param amount naira */
  receive(accountNumber: string, amount: string, payment?: ProvidusPayment): ProvidusTransaction
  /** Notifies of a payment, possibly late, repeatedly or out of order. */
  notify(transaction: ProvidusTransaction): Promise<NotifyResult>
  /** Receives a payment and notifies. @param amount naira */
  pay(accountNumber: string, amount: string, payment?: ProvidusPayment): Promise<NotifyResult>
  close(): Promise<void>
}

const RETRY_DELAYS_MS = [2_000, 5_000, 15_000, 60_000]

/**
 * Starts a fake bank that behaves as the bank's document says. To pay into one of its accounts,
 * send `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeProvidus(options: FakeProvidusOptions): Promise<FakeProvidus> {
  const { port, credentials, clock = systemClock } = options
  const { clientId, clientSecret } = credentials
  const signature = createHash('sha512').update(`${clientId}:${clientSecret}`).digest('hex')
  const faults = createFaults<ProvidusOperation, ProvidusFault>()
  const books = createProvidusBooks(clock)
  const notifier = createProvidusNotifier(options, signature)
  const notify = async (transaction: ProvidusTransaction) =>
    noteResult(transaction, await notifier.notify(notificationBody(transaction)))
  const requests = { create: 0, settlement: 0, session: 0 }
  /** Checks the signature, then executes the operation. */
  const route = (
    operation: ProvidusOperation,
    handle: (request: FakeRequest) => FakeResponse,
  ): FakeRoute => ({
    fault() {
      requests[operation] += 1
      return faults.take(operation)
    },
    respond(request, fault) {
      const { headers } = request
      const isSigned = headers['x-auth-signature']?.toLowerCase() === signature
      if (!isSigned || headers['client-id'] !== clientId) return rejection(options, '05')
      if (fault === 'not found') return notFound(options)
      if (fault === '03 after') handle(request)
      return fault ? rejection(options, fault.slice(0, 2)) : handle(request)
    },
  })
  const server = await startLoopbackServer({
    port,
    observe: options.observe,
    routes: {
      'POST /PiPCreateReservedAccountNumber': route('create', ({ body }) =>
        create(body, books.open, options),
      ),
      'GET /PiPverifyTransaction_settlementid': route('settlement', ({ query }) =>
        found(books.bySettlement(query.get('settlement_id') ?? ''), options),
      ),
      'GET /PiPverifyTransaction_sessionid': route('session', ({ query }) =>
        found(books.bySession(query.get('session_id') ?? ''), options),
      ),
      'POST /fake/pay': { respond: (request) => payByHand(request, books.receive, notify) },
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
      notifier.close()
      return server.close()
    },
  }
}

function createProvidusNotifier(options: FakeProvidusOptions, signature: string) {
  return createNotifier({
    url: options.notify,
    observe: options.observe,
    headers: {
      'content-type': 'application/json',
      'client-id': options.credentials.clientId,
      'x-auth-signature': signature.toUpperCase(),
    },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    classify: ({ text }) => VERDICTS.get(getPath(parseBankJson(text), 'responseCode')) ?? 'retry',
  })
}

function noteResult(transaction: ProvidusTransaction, result: NotifyResult): NotifyResult {
  const code = getPath(parseBankJson(result.responses.at(-1)?.text ?? ''), 'responseCode')
  if (result.acknowledged) transaction.notificationStatus = 'acknowledged'
  else if (code === '02') transaction.notificationStatus = 'rejected'
  return result
}

function create(
  body: string,
  open: (accountName: string) => ProvidusAccount,
  options: FakeProvidusOptions,
): FakeResponse {
  const name = getPath(parseBankJson(body), 'account_name').trim()
  if (name === '') return rejection(options, '11')
  return created(open(`${options.merchant ?? 'MERCHANT'}(${name})`))
}

/** How to treat response codes to a notification; the bank retries after any other. */
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

function rejection({ errorStatus = 200 }: FakeProvidusOptions, code: string): FakeResponse {
  const body = { requestSuccessful: false, responseMessage: MESSAGES[code], responseCode: code }
  return { status: errorStatus, body: JSON.stringify(body) }
}

function notFound({ notFoundStatus = 200 }: FakeProvidusOptions): FakeResponse {
  return { status: notFoundStatus, body: notFoundBody() }
}

function found(
  transaction: ProvidusTransaction | undefined,
  options: FakeProvidusOptions,
): FakeResponse {
  return transaction ? { status: 200, body: requeryBody(transaction) } : notFound(options)
}

function created({ accountNumber, accountName }: ProvidusAccount): FakeResponse {
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
