import { getPath } from '../../banks/get-path.ts'
import { parseBankJson } from '../../banks/http/bank-json.ts'
import { type Clock, systemClock } from '../../core/clock.ts'
import { createCourier, type Delivered } from '../courier.ts'
import { createFaults, type Faults, type ServerFault } from '../faults.ts'
import {
  type FakeReply,
  type FakeRoute,
  type Observe,
  startLoopbackServer,
} from '../loopback-server.ts'
import { payByHand } from '../pay-by-hand.ts'
import {
  createNinePsbBooks,
  type NinePsbAccount,
  type NinePsbPayment,
  type Shown,
  SUCCESS,
} from './books.ts'
import { type NinePsbTransaction, notificationBody } from './transaction.ts'

export type NinePsbOperation = 'authenticate' | 'create' | 'confirm' | 'deactivate'

/** Beside what any server does: code 99, and a payment that is not known yet. */
export type NinePsbFault = ServerFault | '99' | '99 after' | 'not found'

export interface FakeNinePsbOptions {
  /** 0: a free one. */
  readonly port: number
  readonly credentials: {
    readonly publicKey: string
    readonly privateKey: string
    readonly notificationUser: string
    readonly notificationPassword: string
  }
  /** Where it tells of payments; on this machine. */
  readonly notify?: string
  readonly clock?: Clock
  /** How long tokens are good for. */
  readonly tokenSeconds?: number
  /** HTTP status of what is refused by its code. */
  readonly refusalStatus?: number
  /** Waits before the five further attempts of a notification. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

/** 9PSB on this machine. */
export interface FakeNinePsb {
  readonly url: string
  readonly faults: Faults<NinePsbOperation, NinePsbFault>
  /** By number. */
  readonly accounts: ReadonlyMap<string, NinePsbAccount>
  readonly transactions: readonly NinePsbTransaction[]
  /** How often each operation was asked for, whatever became of it. */
  readonly requests: Readonly<Record<NinePsbOperation, number>>
  /** Opens an account past its API. */
  openAccount(name: string, reference?: string): NinePsbAccount
  /** Receives a payment and tells nobody yet. @param amount naira */
  receive(accountNumber: string, amount: string, payment?: NinePsbPayment): NinePsbTransaction
  /** Tells of a payment: late, again, in any order. */
  notify(transaction: NinePsbTransaction): Promise<Delivered>
  /** Receives a payment and tells of it. @param amount naira */
  pay(accountNumber: string, amount: string, payment?: NinePsbPayment): Promise<Delivered>
  expireTokens(): void
  close(): Promise<void>
}

const RETRY_DELAYS_MS = [2_000, 5_000, 15_000, 30_000, 60_000]
const TOKENS_MAX = 1_000

/**
 * Behaves as the bank's document says. A person pays into an account of it with
 * `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeNinePsb(options: FakeNinePsbOptions): Promise<FakeNinePsb> {
  const { port, credentials, clock = systemClock } = options
  const { notificationUser: user, notificationPassword: password } = credentials
  const faults = createFaults<NinePsbOperation, NinePsbFault>()
  const books = createNinePsbBooks(clock)
  const courier = createCourier({
    url: options.notify,
    observe: options.observe,
    headers: {
      'content-type': 'application/json',
      authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
    },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    judge: ({ text }) => (getPath(parseBankJson(text), 'code') === '00' ? 'acknowledged' : 'again'),
  })
  const notify = (transaction: NinePsbTransaction) =>
    courier.deliver(notificationBody(transaction, password))
  const tokens = createTokens(options, clock)
  const requests = { authenticate: 0, create: 0, confirm: 0, deactivate: 0 }
  /** Looks for the token, then does it. */
  const route = (
    operation: NinePsbOperation,
    act: (body: unknown, text: string, fault: string | undefined) => Shown,
  ): FakeRoute => ({
    fault() {
      requests[operation] += 1
      return faults.take(operation)
    },
    answer({ headers, body: text }, fault) {
      const open = operation === 'authenticate' || tokens.isGood(headers['authorization'])
      if (!open) return reply(options, { code: 'S1', message: 'Invalid Credential' })
      if (fault === '99') return reply(options, SYSTEM_ERROR)
      const shown = act(parseBankJson(text), text, fault)
      return reply(options, fault === '99 after' ? SYSTEM_ERROR : shown)
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
      'POST /fake/pay': { answer: (request) => payByHand(request, books.receive, notify) },
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
      courier.close()
      return server.close()
    },
  }
}

const SYSTEM_ERROR = { code: '99', message: 'Request processing error' }

function reply({ refusalStatus = 200 }: FakeNinePsbOptions, shown: Shown): FakeReply {
  return { status: shown['code'] === '00' ? 200 : refusalStatus, body: JSON.stringify(shown) }
}

function createTokens({ credentials, tokenSeconds = 7_200 }: FakeNinePsbOptions, clock: Clock) {
  const good = new Map<string, number>()
  let issued = 0
  return {
    issue(body: unknown): Shown {
      const known =
        getPath(body, 'publickey') === credentials.publicKey &&
        getPath(body, 'privatekey') === credentials.privateKey
      if (!known) {
        return { access_token: null, expires_in: 0, code: 'S1', message: 'Invalid Credential' }
      }
      issued += 1
      const token = `fake-token-${issued}`
      good.set(token, clock.now() + tokenSeconds * 1_000)
      if (good.size > TOKENS_MAX) good.delete(good.keys().next().value ?? '')
      return { access_token: token, expires_in: tokenSeconds, ...SUCCESS }
    },
    isGood: (header: string | undefined) =>
      (good.get(header?.replace(/^Bearer /, '') ?? '') ?? 0) > clock.now(),
    expire: () => good.clear(),
  }
}
