import { getPath } from '../../banks/get-path.ts'
import { parseBankJson } from '../../banks/http/bank-json.ts'
import { type Clock, systemClock } from '../../core/clock.ts'
import { type Courier, createCourier, type Delivered } from '../courier.ts'
import { createFaults, type Faults, type ServerFault } from '../faults.ts'
import {
  type FakeReply,
  type FakeRequest,
  type FakeRoute,
  type Observe,
  startLoopbackServer,
} from '../loopback-server.ts'
import { payByHand } from '../pay-by-hand.ts'
import {
  createSafeHavenBooks,
  type SafeHavenAccount,
  type SafeHavenBooks,
  type SafeHavenPayment,
} from './books.ts'
import {
  makeSafeHavenCredentials,
  type SafeHavenCredentials,
  safeHavenEnvironment,
} from './keys.ts'
import {
  createSafeHavenAccounts,
  createSafeHavenTransfers,
  type SafeHavenShown,
} from './methods.ts'
import { createSafeHavenTokens, type SafeHavenTokens } from './tokens.ts'
import {
  notificationBody,
  outwardBody,
  type SafeHavenSpelling,
  type SafeHavenTransfer,
} from './transfer.ts'

const OPERATIONS = ['token', 'create', 'get', 'delete', 'status', 'statement'] as const

export type SafeHavenOperation = (typeof OPERATIONS)[number]

/** Beside what any server does: `statusCode 400` is that code inside HTTP 200, nothing done. */
export type SafeHavenFault = ServerFault | `statusCode ${number}`

export interface FakeSafeHavenOptions {
  /** 0: a free one. */
  readonly port: number
  /** Made unless given. */
  readonly credentials?: SafeHavenCredentials
  readonly clock?: Clock
  readonly tokenSeconds?: number
  /** How often an expiring account is shown without its number. */
  readonly unnumbered?: number
  /** Refusals come as HTTP 200 with the code inside. */
  readonly refusesInside200?: boolean
  /** Waits before further attempts of a notification; the bank promises none. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

/** Safe Haven on this machine. It tells of payments at each account's `callbackUrl`. */
export interface FakeSafeHaven {
  readonly url: string
  /** The settings of a service that is to use it, beside those of its callback. */
  readonly environment: Readonly<Record<string, string>>
  readonly faults: Faults<SafeHavenOperation, SafeHavenFault>
  /** By number. */
  readonly accounts: ReadonlyMap<string, SafeHavenAccount>
  /** By session. */
  readonly transfers: ReadonlyMap<string, SafeHavenTransfer>
  /** How often each operation was asked for, whatever became of it. */
  readonly requests: Readonly<Record<SafeHavenOperation, number>>
  /** Opens a permanent account past its API. */
  openAccount(name: string, callbackUrl?: string): SafeHavenAccount
  /** Receives a payment and tells nobody yet. @param amount naira */
  receive(accountNumber: string, amount: string, payment?: SafeHavenPayment): SafeHavenTransfer
  /** The body that tells of a transfer. */
  notification(transfer: SafeHavenTransfer, spelling?: SafeHavenSpelling): string
  /** The body that tells of the like of it leaving the account. */
  outward(transfer: SafeHavenTransfer): string
  /** Tells of a transfer: late, again, in any sequence. */
  notify(transfer: SafeHavenTransfer, spelling?: SafeHavenSpelling): Promise<Delivered>
  /** Receives a payment and tells of it. @param amount naira */
  pay(accountNumber: string, amount: string, payment?: SafeHavenPayment): Promise<Delivered>
  expireTokens(): void
  close(): Promise<void>
}

/**
 * Behaves as the bank's documents and public integrations show it. A person pays into an account of
 * it with `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeSafeHaven(options: FakeSafeHavenOptions): Promise<FakeSafeHaven> {
  const { clock = systemClock, credentials = makeSafeHavenCredentials() } = options
  const client = credentials.ibsClientId
  const faults = createFaults<SafeHavenOperation, SafeHavenFault>()
  const books = createSafeHavenBooks(clock)
  const couriers = createCouriers(options.retryDelaysMs ?? [], options.observe)
  const requests = { token: 0, create: 0, get: 0, delete: 0, status: 0, statement: 0 }
  const tokenSeconds = options.tokenSeconds ?? 3_600
  const tokens = createSafeHavenTokens(credentials, clock, tokenSeconds, () => server.url)
  const notify = (transfer: SafeHavenTransfer, spelling: SafeHavenSpelling = 'type') => {
    const callbackUrl = books.accounts.get(transfer.accountNumber)?.callbackUrl ?? ''
    return couriers.of(callbackUrl).deliver(notificationBody(transfer, client, spelling))
  }
  const { routes, addAccount } = createRoutes({
    options,
    clock,
    client,
    books,
    tokens,
    faults,
    requests,
  })
  routes['POST /fake/pay'] = {
    fault: () => undefined,
    answer: (request) => payByHand(request, books.receive, notify),
  }
  const server = await startLoopbackServer({ port: options.port, routes, observe: options.observe })
  return {
    url: server.url,
    environment: safeHavenEnvironment(server.url, credentials),
    faults,
    accounts: books.accounts,
    transfers: books.transfers,
    requests,
    openAccount(name, callbackUrl = '') {
      const reference = `fake-${books.accounts.size}`
      const account = books.open({ name, reference, callbackUrl, isVirtual: false, unnumbered: 0 })
      addAccount(account.id)
      return account
    },
    receive: books.receive,
    notification: (transfer, spelling = 'type') => notificationBody(transfer, client, spelling),
    outward: (transfer) => outwardBody(transfer, client),
    notify,
    pay: async (...payment) => notify(books.receive(...payment)),
    expireTokens: tokens.expire,
    close() {
      couriers.close()
      return server.close()
    },
  }
}

interface Served {
  readonly options: FakeSafeHavenOptions
  readonly clock: Clock
  readonly client: string
  readonly books: SafeHavenBooks
  readonly tokens: SafeHavenTokens
  readonly faults: FakeSafeHaven['faults']
  readonly requests: Record<SafeHavenOperation, number>
}

/** Paths with an account's id in them are served once the account is there. */
function createRoutes(served: Served) {
  const { options, clock, client, books, tokens, faults, requests } = served
  const accounts = createSafeHavenAccounts(books, client, clock)
  const transfers = createSafeHavenTransfers(books, client)
  const routes: Record<string, FakeRoute> = {}
  const serve = (
    operation: SafeHavenOperation,
    name: string,
    act: (body: unknown, request: FakeRequest) => FakeReply,
  ) => {
    let own: SafeHavenFault | undefined
    routes[name] = {
      fault() {
        requests[operation] += 1
        own = faults.take(operation)
        return own?.startsWith('statusCode') ? undefined : (own as ServerFault | undefined)
      },
      answer(request) {
        const code = Number(own?.split('statusCode ')[1] ?? 0)
        const refusal = operation === 'token' ? undefined : tokens.refusalOf(request)
        if (refusal) return refusal
        return code > 0
          ? { status: 200, body: JSON.stringify({ statusCode: code, message: 'Fault' }) }
          : act(parseBankJson(request.body), request)
      },
    }
  }
  const reply = (shown: SafeHavenShown): FakeReply => ({
    status: options.refusesInside200 ? 200 : shown.statusCode,
    body: JSON.stringify(shown),
  })
  const addAccount = (id: string) => {
    serve('statement', `GET /accounts/${id}/statement`, (_body, { query }) =>
      reply(transfers.statement(id, query)),
    )
    serve('get', `GET /virtual-accounts/${id}`, () => reply(accounts.getVirtual(id)))
    serve('delete', `DELETE /virtual-accounts/${id}`, () => reply(accounts.deleteVirtual(id)))
  }
  const created = (shown: SafeHavenShown): FakeReply => {
    const id = getPath(shown, 'data._id')
    if (id !== '') addAccount(id)
    return reply(shown)
  }
  serve('token', 'POST /oauth2/token', (_body, request) => tokens.issue(request))
  serve('create', 'POST /accounts/v2/subaccount', (body) => created(accounts.openSubAccount(body)))
  serve('create', 'POST /virtual-accounts', (body) =>
    created(accounts.openVirtual(body, options.unnumbered ?? 0)),
  )
  serve('status', 'POST /virtual-accounts/status', (body) => reply(transfers.status(body, true)))
  serve('status', 'POST /transfers/status', (body) => reply(transfers.status(body, false)))
  return { routes, addAccount }
}

const CALLBACKS_MAX = 1_000

/** One courier for each address that accounts name. */
function createCouriers(retryDelaysMs: readonly number[], observe: Observe | undefined) {
  const couriers = new Map<string, Courier>()
  return {
    of(url: string): Courier {
      const known = couriers.get(url)
      if (known) return known
      if (couriers.size >= CALLBACKS_MAX) throw new RangeError('too many callback addresses')
      const courier = createCourier({
        url: url === '' ? undefined : url,
        headers: { 'content-type': 'application/json' },
        retryDelaysMs,
        observe,
        judge: ({ status }) => (status >= 200 && status < 300 ? 'acknowledged' : 'again'),
      })
      couriers.set(url, courier)
      return courier
    },
    close() {
      for (const courier of couriers.values()) courier.close()
    },
  }
}
