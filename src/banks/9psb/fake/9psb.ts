import { type Clock, systemClock } from '../../../core/clock.ts'
import { createFaults, type Faults, type ServerFault } from '../../fake/faults.ts'
import {
  type FakeResponse,
  type FakeRoute,
  type Observe,
  startLoopbackServer,
} from '../../fake/loopback-server.ts'
import { createNotifier, type NotifyResult } from '../../fake/notifier.ts'
import { payByHand } from '../../fake/pay-by-hand.ts'
import { getPath } from '../../get-path.ts'
import { parseBankJson } from '../../http/bank-json.ts'
import {
  createNinePsbBooks,
  type NinePsbAccount,
  type NinePsbBody,
  type NinePsbPayment,
  SUCCESS,
} from './books.ts'
import { type NinePsbTransaction, notificationBody } from './transaction.ts'

export type NinePsbOperation = 'authenticate' | 'create' | 'confirm' | 'deactivate'

/** Faults of any server, code 99, a caller that is not admitted, and a payment that is not known yet. */
export type NinePsbFault = ServerFault | '99' | '99 after' | 'S1' | 'not found'

export interface FakeNinePsbOptions {
  /** 0 picks a free port. */
  readonly port: number
  readonly credentials: {
    readonly publicKey: string
    readonly privateKey: string
    readonly notificationUser: string
    readonly notificationPassword: string
  }
  /** URL for its notifications, on this machine. */
  readonly notify?: string
  readonly clock?: Clock
  /** Lifetime of tokens. */
  readonly tokenSeconds?: number
  /** HTTP status of responses with an error code; default 200. */
  readonly errorStatus?: number
  /** Delays before the five retries of a notification. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

/** A fake 9PSB. */
export interface FakeNinePsb {
  readonly url: string
  readonly faults: Faults<NinePsbOperation, NinePsbFault>
  /** By number. */
  readonly accounts: ReadonlyMap<string, NinePsbAccount>
  readonly transactions: readonly NinePsbTransaction[]
  /** Requests per operation, whatever their results. */
  readonly requests: Readonly<Record<NinePsbOperation, number>>
  /** Opens an account without an API call. */
  openAccount(name: string, reference?: string): NinePsbAccount
  /** Receives a payment without notifying. @param amount naira */
  receive(accountNumber: string, amount: string, payment?: NinePsbPayment): NinePsbTransaction
  /** Notifies of a payment, possibly late, repeatedly or out of order. */
  notify(transaction: NinePsbTransaction): Promise<NotifyResult>
  /** Receives a payment and notifies. @param amount naira */
  pay(accountNumber: string, amount: string, payment?: NinePsbPayment): Promise<NotifyResult>
  expireTokens(): void
  close(): Promise<void>
}

const RETRY_DELAYS_MS = [2_000, 5_000, 15_000, 30_000, 60_000]
const TOKENS_MAX = 1_000

/**
 * Starts a fake bank that behaves as the bank's document says. To pay into one of its accounts,
 * send `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeNinePsb(options: FakeNinePsbOptions): Promise<FakeNinePsb> {
  const { port, credentials, clock = systemClock } = options
  const faults = createFaults<NinePsbOperation, NinePsbFault>()
  const books = createNinePsbBooks(clock)
  const notifier = createNinePsbNotifier(options)
  const notify = (transaction: NinePsbTransaction) =>
    notifier.notify(notificationBody(transaction, credentials.notificationPassword))
  const tokens = createTokens(options, clock)
  const requests = { authenticate: 0, create: 0, confirm: 0, deactivate: 0 }
  /** Checks the token, then executes the operation. */
  const route = (
    operation: NinePsbOperation,
    handle: (body: unknown, text: string, fault: string | undefined) => NinePsbBody,
  ): FakeRoute => ({
    fault() {
      requests[operation] += 1
      return faults.take(operation)
    },
    respond({ headers, body: text }, fault) {
      const isAuthenticated =
        operation === 'authenticate' || tokens.isValid(headers['authorization'])
      if (!isAuthenticated || fault === 'S1')
        return toResponse(options, { code: 'S1', message: 'Invalid Credential' })
      if (fault === '99') return toResponse(options, SYSTEM_ERROR)
      const result = handle(parseBankJson(text), text, fault)
      return toResponse(options, fault === '99 after' ? SYSTEM_ERROR : result)
    },
  })
  const server = await startLoopbackServer({
    port,
    observe: options.observe,
    routes: {
      'POST /authenticate': route('authenticate', tokens.issue),
      'POST /create': route('create', books.create),
      'POST /confirmpayment': route('confirm', (body, _text, fault) =>
        fault === 'not found' ? { ...SUCCESS, transactions: [] } : books.confirm(body),
      ),
      'POST /deactivate': route('deactivate', books.deactivate),
      'POST /fake/pay': { respond: (request) => payByHand(request, books.receive, notify) },
    },
  })
  return {
    url: server.url,
    faults,
    accounts: books.accounts,
    transactions: books.transactions,
    requests,
    openAccount: (name, reference = `fake-${books.accounts.size}`) => books.open(name, reference),
    receive: books.receive,
    notify,
    pay: async (...payment) => notify(books.receive(...payment)),
    expireTokens: tokens.expire,
    close() {
      notifier.close()
      return server.close()
    },
  }
}

function createNinePsbNotifier(options: FakeNinePsbOptions) {
  const { notificationUser: user, notificationPassword: password } = options.credentials
  return createNotifier({
    url: options.notify,
    observe: options.observe,
    headers: {
      'content-type': 'application/json',
      authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
    },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    classify: ({ text }) =>
      getPath(parseBankJson(text), 'code') === '00' ? 'acknowledged' : 'retry',
  })
}

const SYSTEM_ERROR = { code: '99', message: 'Request processing error' }

function toResponse({ errorStatus = 200 }: FakeNinePsbOptions, result: NinePsbBody): FakeResponse {
  return { status: result['code'] === '00' ? 200 : errorStatus, body: JSON.stringify(result) }
}

function createTokens({ credentials, tokenSeconds = 7_200 }: FakeNinePsbOptions, clock: Clock) {
  const expiresAtMs = new Map<string, number>()
  let issued = 0
  return {
    issue(body: unknown): NinePsbBody {
      const isKnown =
        getPath(body, 'publickey') === credentials.publicKey &&
        getPath(body, 'privatekey') === credentials.privateKey
      if (!isKnown) {
        return { access_token: null, expires_in: 0, code: 'S1', message: 'Invalid Credential' }
      }
      issued += 1
      const token = `fake-token-${issued}`
      expiresAtMs.set(token, clock.now() + tokenSeconds * 1_000)
      if (expiresAtMs.size > TOKENS_MAX) expiresAtMs.delete(expiresAtMs.keys().next().value ?? '')
      return { access_token: token, expires_in: tokenSeconds, ...SUCCESS }
    },
    isValid: (header: string | undefined) =>
      (expiresAtMs.get(header?.replace(/^Bearer /, '') ?? '') ?? 0) > clock.now(),
    expire: () => expiresAtMs.clear(),
  }
}
