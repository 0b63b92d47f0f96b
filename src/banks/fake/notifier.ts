import { setTimeout as wait } from 'node:timers/promises'
import { createSemaphore } from '../../postgres/semaphore.ts'
import { getPath, parseNaira } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-http.ts'
import type { FakeRequest, FakeResponse, LoopbackServer, Observe } from './loopback-server.ts'

/** The result of a notification. */
export interface NotifyResult {
  readonly acknowledged: boolean
  /** The response of each attempt, in order. */
  readonly responses: readonly NotifyResponse[]
}

interface NotifyResponse {
  /** 0 if there was no response. */
  readonly status: number
  /** The first 4,096 characters. */
  readonly text: string
}

/** Sends a fake bank's notifications and retries until they are acknowledged. */
export interface Notifier {
  /** Never rejects. */
  notify(body: string): Promise<NotifyResult>
  /** Aborts the notifications in progress. */
  close(): void
}

interface NotifierOptions {
  /** A URL on this machine; undefined: nothing is sent. */
  readonly url: string | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Delays before the second attempt, the third, … */
  readonly retryDelaysMs: readonly number[]
  /** Classifies a response; `final` is a failure without retry. */
  readonly classify: (response: NotifyResponse) => 'acknowledged' | 'retry' | 'final'
  readonly observe?: Observe | undefined
}

const TIMEOUT_MS = 30_000
const CONCURRENCY_MAX = 32
const RESPONSE_CHARACTERS_MAX = 4_096
const NO_RESPONSE: NotifyResponse = { status: 0, text: '' }

/** @throws RangeError unless the URL is on this machine: fake payments must stay there */
export function createNotifier(options: NotifierOptions): Notifier {
  const { url, headers, retryDelaysMs, classify, observe } = options
  if (url !== undefined && !isLocal(url)) {
    throw new RangeError('a fake bank only notifies addresses of this machine')
  }
  const closing = new AbortController()
  const limit = createSemaphore(CONCURRENCY_MAX)
  const post = async (body: string): Promise<NotifyResponse> => {
    const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(TIMEOUT_MS)])
    const request = { method: 'POST', headers, body, signal, redirect: 'manual' } as const
    const response = await fetch(String(url), request)
    const text = (await response.text()).slice(0, RESPONSE_CHARACTERS_MAX)
    return { status: response.status, text }
  }
  return {
    async notify(body) {
      const responses: NotifyResponse[] = []
      if (url === undefined) return { acknowledged: false, responses }
      for (const delayMs of [0, ...retryDelaysMs]) {
        if (delayMs > 0) await wait(delayMs, undefined, { signal: closing.signal }).catch(() => {})
        if (closing.signal.aborted) break
        const response = await limit(() => post(body)).catch(() => NO_RESPONSE)
        responses.push(response)
        const verdict = classify(response)
        observe?.(
          `notification → ${response.status || 'no response'} ${response.text} (${verdict})`,
        )
        if (verdict !== 'retry') return { acknowledged: verdict === 'acknowledged', responses }
      }
      return { acknowledged: false, responses }
    },
    close: () => closing.abort(),
  }
}

/** Fake payments must not reach other hosts. */
export function isLocal(url: string): boolean {
  return URL.canParse(url) && /^(127\.0\.0\.1|localhost|\[::1\])$/.test(new URL(url).hostname)
}

/**
 * Serves a developer's payment into an account of a fake bank:
 * `{"account_number":"…","amount":"1500.50"}`. Responds without waiting for the notification.
 */
export function payByHand<Transaction extends { readonly sessionId: string }>(
  { body }: FakeRequest,
  receive: (accountNumber: string, amount: string) => Transaction,
  notify: (transaction: Transaction) => Promise<unknown>,
): FakeResponse {
  const fields = parseBankJson(body)
  try {
    const transaction = receive(getPath(fields, 'account_number'), getPath(fields, 'amount'))
    void notify(transaction)
    return { status: 200, body: JSON.stringify({ session_id: transaction.sessionId }) }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { status: 400, body: JSON.stringify({ message: error.message }) }
  }
}

/** What tests and developers do with every fake bank. */
export function bankControls<
  Faults,
  Requests,
  Accounts,
  Payment extends unknown[],
  Transaction,
  Notify extends (transaction: Transaction) => Promise<NotifyResult>,
>(bank: {
  readonly server: LoopbackServer
  readonly notifier: Pick<Notifier, 'close'>
  readonly operations: { readonly faults: Faults; readonly requests: Requests }
  readonly books: { readonly accounts: Accounts; receive(...payment: Payment): Transaction }
  readonly notify: Notify
}) {
  const { server, notifier, operations, books, notify } = bank
  return {
    url: server.url,
    faults: operations.faults,
    requests: operations.requests,
    /** Accounts by number. */
    accounts: books.accounts,
    /** Receives a payment without notifying. */
    receive: books.receive,
    /** Notifies of a payment, possibly late, repeatedly or out of order. */
    notify,
    /** Receives a payment and notifies. */
    pay: async (...payment: Payment) => notify(books.receive(...payment)),
    close(): Promise<void> {
      notifier.close()
      return server.close()
    },
  }
}

/** @returns kobo @throws RangeError unless the text is a naira amount greater than 0 */
export function readAmount(naira: string): bigint {
  const amountMinor = parseNaira(naira)
  if (!amountMinor) throw new RangeError(`invalid naira amount: ${naira}`)
  return amountMinor
}
