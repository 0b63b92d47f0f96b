import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { afterAll, beforeAll } from 'vitest'
import type {
  AccountResult,
  BankPayment,
  LiveConnector,
  NextStep,
  Reading,
} from '../../src/banks/bank.ts'
import type { Connectors, PrepareConnector } from '../../src/banks/connectors.ts'
import { type BankHttp, BankUnreachableError } from '../../src/banks/http/bank-http.ts'
import { listen } from './listen.ts'

/** A payment as the fake bank stores it. */
export interface FakePayment {
  readonly key: string
  /** Empty: the bank does not report it. */
  readonly session: string
  readonly account: string
  readonly kobo: string
  readonly state: 'paid' | 'reversed'
}

/** A fault of the next request of a kind; later requests succeed. */
export type Mishap =
  /** Performs the request, and does not respond. */
  | 'after'
  /** Neither performs the request nor responds. */
  | 'before'
  | 500

/** A bank over HTTP, which resembles a real bank only in its faults. */
export interface FakeBank {
  readonly url: string
  /** The numbers of opened accounts, by reference. */
  readonly accounts: Map<string, string[]>
  readonly closed: Set<string>
  readonly payments: Map<string, FakePayment>
  /** Pending faults, by the method and the first segment of the path. */
  readonly mishaps: Map<string, Mishap[]>
  /** Every request, as "POST accounts". */
  readonly asked: string[]
  /** The next account number; undefined: a new one. */
  nextNumber: string | undefined
  /** Connectors for `readConfig`. */
  connectors(): Connectors
}

export function useFakeBank(): FakeBank {
  let url = ''
  let numbers = 3_000_000_000
  const bank: FakeBank = {
    get url() {
      return url
    },
    accounts: new Map(),
    closed: new Set(),
    payments: new Map(),
    mishaps: new Map(),
    asked: [],
    nextNumber: undefined,
    connectors: () => fakeConnectors(url),
  }
  const open = (reference: string): string => {
    numbers += 1
    const number = bank.nextNumber ?? String(numbers)
    bank.nextNumber = undefined
    bank.accounts.set(reference, [...(bank.accounts.get(reference) ?? []), number])
    return number
  }
  const server = createServer(async (request, response) => {
    const [, kind = '', id = '', verb = ''] = (request.url ?? '').split('/')
    const what = `${request.method} ${verb || kind}`
    bank.asked.push(what)
    const mishap = bank.mishaps.get(what)?.shift()
    if (mishap === 'before') return request.socket.destroy()
    if (mishap === 500) return response.writeHead(500).end()
    const result = await act(bank, open, what, id, request)
    if (mishap === 'after') return request.socket.destroy()
    send(response, result)
  })
  beforeAll(async () => {
    url = `http://127.0.0.1:${await listen(server)}`
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return bank
}

/** Connectors to a fake bank, one for each way to resolve an unclear account opening. */
export function fakeConnectors(url: string): Connectors {
  return {
    '9PSB': prepare(url, 'retry', false),
    SAFEHAVEN: prepare(url, 'manual review', false),
    PROVIDUS: prepare(url, 'manual review', false),
    PALMPAY: prepare(url, 'requery', true),
  }
}

async function act(
  bank: FakeBank,
  open: (reference: string) => string,
  what: string,
  id: string,
  request: IncomingMessage,
): Promise<unknown> {
  switch (what) {
    case 'POST accounts': {
      const { reference, repeatable, phone } = JSON.parse(await textOf(request))
      if (phone === '08000000009') return { refused: 'phone' }
      const known = bank.accounts.get(reference)
      return { number: repeatable && known ? known[0] : open(reference) }
    }
    case 'GET accounts':
      return { number: bank.accounts.get(id)?.[0] ?? '' }
    case 'POST close':
      bank.closed.add(id)
      return {}
    default:
      return bank.payments.get(decodeURIComponent(id))
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

function send(response: ServerResponse, result: unknown): void {
  if (result === undefined) response.writeHead(404).end()
  else response.end(JSON.stringify(result))
}

function prepare(url: string, next: NextStep, binds: boolean): PrepareConnector {
  return () => ({
    baseUrl: url,
    timeoutMs: 120_000,
    binds,
    pays: false,
    connect: ({ http }) => connect(http, next, binds),
  })
}

function connect(http: BankHttp, next: NextStep, binds: boolean): LiveConnector {
  const ask = async (method: 'GET' | 'POST', path: string, signal: AbortSignal, body?: unknown) => {
    const text = body === undefined ? {} : { body: JSON.stringify(body) }
    const response = await http.send({ method, path, headers: {}, signal, ...text })
    if (response.status >= 500) throw new BankUnreachableError(`answered ${response.status}`, true)
    return response.status === 404 ? undefined : JSON.parse(response.text)
  }
  const unclear = (error: unknown): AccountResult => {
    if (!(error instanceof BankUnreachableError)) throw error
    const cause = error.message
    return error.sent ? { kind: 'unknown', cause, next } : { kind: 'unavailable', cause }
  }
  const opened = (accountNumber: string, accountName: string): AccountResult => ({
    kind: 'opened',
    accountNumber,
    accountName,
    bankAccountId: `at-bank-${accountNumber}`,
  })
  return {
    afterCrash: next,
    async openAccount({ reference, phone, accountName }, signal) {
      const order = { reference, phone, repeatable: next === 'retry' }
      try {
        const { number, refused } = await ask('POST', 'accounts', signal, order)
        if (refused) {
          return { kind: 'rejected', fields: [{ field: refused, message: 'is not known' }] }
        }
        return opened(number, accountName)
      } catch (error) {
        return unclear(error)
      }
    },
    ...(next === 'requery' && {
      async findOpened({ reference, accountName }, signal) {
        try {
          const { number } = await ask('GET', `accounts/${reference}`, signal)
          if (number) return opened(number, accountName)
          return { kind: 'unavailable', cause: 'it was not opened' }
        } catch (error) {
          return { kind: 'unknown', cause: (error as Error).message, next }
        }
      },
    }),
    ...(next !== 'manual review' && {
      fixesExpiry: true,
      async closeAccount({ accountNumber }, signal) {
        try {
          await ask('POST', `accounts/${accountNumber}/close`, signal)
          return { kind: 'closed' }
        } catch (error) {
          return { kind: 'unavailable', cause: (error as Error).message }
        }
      },
    }),
    read: ({ headers, rawBody }) => readBody(headers['x-signature'], rawBody.toString(), binds),
    acknowledge: (outcome) => ({
      status: outcome === 'RETRY' ? 503 : 200,
      contentType: 'text/plain',
      body: outcome,
    }),
    async requery({ bankKey }, signal) {
      try {
        const found: FakePayment | undefined = await ask(
          'GET',
          `payments/${encodeURIComponent(bankKey)}`,
          signal,
        )
        if (!found) return { kind: 'denied', cause: 'not found' }
        const kind = found.state === 'paid' ? 'confirmed' : 'reversed'
        return { kind, payment: toPayment(found) }
      } catch (error) {
        return { kind: 'unknown', cause: (error as Error).message }
      }
    },
  }
}

function readBody(signature: string | undefined, body: string, binds: boolean): Reading {
  if (signature !== 'genuine') return { kind: 'unauthenticated', cause: 'wrong signature' }
  if (body === 'throw') throw new Error('a defect of the connector')
  if (body.startsWith('noise')) return { kind: 'ignored', cause: 'a payout' }
  if (!body.startsWith('{')) return { kind: 'malformed', cause: 'no JSON' }
  const reported: FakePayment = JSON.parse(body)
  const kind = reported.state === 'paid' ? 'payment' : 'reversal'
  return { kind, payment: toPayment(reported), bound: binds }
}

function toPayment({ key, session, account, kobo }: FakePayment): BankPayment {
  return {
    bankKey: key,
    sessionId: session || key,
    accountNumber: account,
    amountMinor: BigInt(kobo),
    paidAtMs: undefined,
    payer: { name: 'BOLA\0 ADE\n', accountNumber: '', bankCode: '', bankName: '' },
    narration: '\u0007rent',
  }
}
