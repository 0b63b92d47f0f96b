import {
  BrokenCircuitError,
  BulkheadRejectedError,
  bulkhead,
  CircuitState,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel'
import { type Dispatcher, Pool } from 'undici'
import type { Clock } from '../../core/clock.ts'
import { createLookup, createNameResolver, type Resolve } from '../../net/name-resolver.ts'
import { type BankAnswer, type BankHttp, type BankRequest, BankUnreachable } from './bank-http.ts'
import {
  BankTimeoutError,
  type BreakerLimits,
  type BreakerState,
  createCircuitBreaker,
} from './circuit-breaker.ts'

/** Limits of what is sent to one bank. */
export interface BankHttpLimits {
  /** For a connection, with its TLS. */
  readonly connectTimeoutMs: number
  /** For a request in all: the wait for a place, the connection, the answer. */
  readonly timeoutMs: number
  /** A caller who gives up after so long was not impatient: the bank is silent. */
  readonly silenceMs: number
  /** Requests at once, each on a connection of its own. */
  readonly concurrency: number
  /** Requests that wait for a place. */
  readonly waitingMax: number
  readonly breaker: BreakerLimits
}

export const BANK_HTTP_LIMITS: BankHttpLimits = {
  connectTimeoutMs: 3_000,
  timeoutMs: 8_000,
  silenceMs: 5_000,
  concurrency: 16,
  waitingMax: 128,
  breaker: { failuresMax: 5, windowMs: 30_000, openMs: 10_000 },
}

/** What became of a request: a class of statuses, or why there was no answer. */
export type RequestResult = `${1 | 2 | 3 | 4 | 5}xx` | 'unreachable' | 'timeout' | 'refused here'

interface BankHttpOptions {
  /** With or without a path; "https://bank.example/api". */
  readonly baseUrl: string
  readonly limits: BankHttpLimits
  readonly clock: Clock
  readonly resolve?: Resolve
  /** Told of every request. */
  readonly observe: (result: RequestResult, durationMs: number) => void
}

/** Requests to one bank, over connections that are kept. */
export interface PooledBankHttp extends BankHttp {
  breakerState(): BreakerState
  /** Ends what is under way. */
  close(): Promise<void>
}

/** The largest answer that is read. */
const ANSWER_BYTES_MAX = 1_048_576

/** Shorter than the usual five seconds of servers, so that it is rarely they who close first. */
const KEEP_ALIVE_MS = 4_000

const LEFT_ALONE = 'the bank does not answer, and is left alone for a while'
const NO_ANSWER = 'no answer in time'

/** Redirects are answers like any other: nobody but the bank is asked. */
export function createBankHttp(options: BankHttpOptions): PooledBankHttp {
  const { limits, clock, observe } = options
  const base = new URL(options.baseUrl)
  const root = base.pathname.endsWith('/') ? base.pathname : `${base.pathname}/`
  const pool = new Pool(base.origin, {
    connections: limits.concurrency,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
    headersTimeout: limits.timeoutMs,
    bodyTimeout: limits.timeoutMs,
    connect: {
      timeout: limits.connectTimeoutMs,
      lookup: createLookup(options.resolve ?? createNameResolver()),
    },
  })
  const breaker = createCircuitBreaker(limits.breaker, clock)
  // Aggressive: a caller who gives up while waiting for a place is told at once. The breaker comes
  // last, as the bank may have fallen silent in the meantime.
  const policy = wrap(
    timeout(limits.timeoutMs, TimeoutStrategy.Aggressive),
    bulkhead(limits.concurrency, limits.waitingMax),
    breaker.policy,
  )
  const refuse = (text: string): BankUnreachable => {
    observe('refused here', 0)
    return new BankUnreachable(text, false)
  }
  return {
    async send(request) {
      // The probe is in progress. Cockatiel lets others wait for it; their callers should not.
      if (breaker.policy.state === CircuitState.HalfOpen) throw refuse(LEFT_ALONE)
      const startedMs = performance.now()
      const waitedMs = (): number => performance.now() - startedMs
      const progress = { isAdmitted: false, isSent: false, isGivenUp: false }
      try {
        const answer = await policy.execute(async ({ signal }) => {
          progress.isAdmitted = true
          return exchange(pool, root, request, signal, progress).catch((error: unknown) => {
            const isTimeout = request.signal.aborted && waitedMs() < limits.silenceMs
            throw isTimeout ? new BankTimeoutError() : error
          })
        }, request.signal)
        observe(`${Math.floor(answer.status / 100)}xx` as RequestResult, waitedMs())
        return answer
      } catch (error) {
        if (!progress.isAdmitted) throw refuse(refusalText(error))
        observe(progress.isGivenUp ? 'timeout' : 'unreachable', waitedMs())
        throw progress.isGivenUp ? new BankUnreachable(NO_ANSWER, progress.isSent, error) : error
      }
    },
    breakerState: breaker.state,
    close: () => pool.destroy(),
  }
}

function refusalText(error: unknown): string {
  if (error instanceof BrokenCircuitError) return LEFT_ALONE
  return error instanceof BulkheadRejectedError
    ? 'too many requests wait for the bank'
    : 'no place among the requests to the bank in time'
}

/**
 * One request and its answer. Rejects with BankUnreachable alone.
 *
 * @param progress kept up to date, for a caller who does not wait for the end
 */
function exchange(
  pool: Pool,
  root: string,
  { method, path, headers, body }: BankRequest,
  signal: AbortSignal,
  progress: { isSent: boolean; isGivenUp: boolean },
): Promise<BankAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined
    let status = 0
    let bytes = 0
    const chunks: Buffer[] = []
    const fail = (text: string, cause?: unknown): void => {
      signal.removeEventListener('abort', giveUp)
      reject(new BankUnreachable(text, progress.isSent, cause))
      controller?.abort(new Error(text))
    }
    const giveUp = (): void => {
      progress.isGivenUp = true
      fail(NO_ANSWER)
    }
    signal.addEventListener('abort', giveUp, { once: true })
    pool.dispatch(
      { method, path: root + path, headers, body: body ?? null },
      {
        onRequestStart(started) {
          // Whoever gave up before the connection stood was told that nothing was sent.
          if (signal.aborted) return started.abort(new Error('given up'))
          // It starts when the connection stands, right before the first byte is written.
          controller = started
          progress.isSent = true
        },
        onResponseStart(_controller, statusCode) {
          status = statusCode
        },
        onResponseData(_controller, chunk) {
          bytes += chunk.length
          if (bytes > ANSWER_BYTES_MAX) fail(`the answer is larger than ${ANSWER_BYTES_MAX} bytes`)
          else chunks.push(chunk)
        },
        onResponseEnd() {
          signal.removeEventListener('abort', giveUp)
          resolve({ status, text: Buffer.concat(chunks).toString('utf8') })
        },
        onResponseError(_controller, error) {
          fail(error.message || error.name, error)
        },
      },
    )
  })
}
