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
import { createLookup, createNameResolver, type Resolve } from '../../core/addresses.ts'
import type { Clock } from '../../core/clock.ts'
import {
  type BankHttp,
  type BankRequest,
  type BankResponse,
  BankUnreachableError,
} from './bank-http.ts'
import {
  type BreakerLimits,
  type BreakerState,
  createCircuitBreaker,
  EarlyAbortError,
} from './circuit-breaker.ts'

/** Limits of the requests to one bank. */
export interface BankHttpLimits {
  /** The time-out of a connection attempt, including TLS. */
  readonly connectTimeoutMs: number
  /** The time-out of a whole request: the queue, the connection and the response. */
  readonly timeoutMs: number
  /** A request that its caller aborts after this time counts as a failure of the bank. */
  readonly unresponsiveAfterMs: number
  /** Concurrent requests, each on its own connection. */
  readonly concurrency: number
  /** Requests that may wait in the queue. */
  readonly queueMax: number
  readonly breaker: BreakerLimits
}

export const BANK_HTTP_LIMITS: BankHttpLimits = {
  connectTimeoutMs: 3_000,
  timeoutMs: 8_000,
  unresponsiveAfterMs: 5_000,
  concurrency: 16,
  queueMax: 128,
  breaker: { failureThreshold: 5, windowMs: 30_000, openMs: 10_000 },
}

/** The class of the HTTP status, or why there was no response. A `rejected` request was not sent. */
export type RequestResult = `${1 | 2 | 3 | 4 | 5}xx` | 'unreachable' | 'timeout' | 'rejected'

interface BankHttpOptions {
  /** With or without a path; "https://bank.example/api". */
  readonly baseUrl: string
  readonly limits: BankHttpLimits
  readonly clock: Clock
  readonly resolve?: Resolve
  /** Called after every request. */
  readonly observe: (result: RequestResult, durationMs: number) => void
  /** Called when the circuit breaker opens or closes. */
  readonly onBreaker?: (state: 'open' | 'closed') => void
}

/** Requests to one bank over a pool of keep-alive connections. */
export interface PooledBankHttp extends BankHttp {
  breakerState(): BreakerState
  /** Aborts the requests in progress. */
  close(): Promise<void>
}

/** Longer responses fail. */
const RESPONSE_BYTES_MAX = 1_048_576

/** Below the five seconds that are the default of servers, so that the server rarely closes first. */
const KEEP_ALIVE_MS = 4_000

const CIRCUIT_OPEN = 'the circuit breaker of the bank is open'
const TIMED_OUT = 'the bank did not respond in time'

/** Redirects are returned, not followed: requests go to no other server than the bank's. */
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
    // The policy enforces the time-outs, because undici's timers may be half a second early.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: {
      timeout: limits.connectTimeoutMs,
      lookup: createLookup(options.resolve ?? createNameResolver()),
    },
  })
  const breaker = createCircuitBreaker(limits.breaker, clock, options.onBreaker)
  // Aggressive: a caller that gives up while queued fails at once. The breaker is the innermost policy, because it may
  // have opened while the request was queued.
  const policy = wrap(
    timeout(limits.timeoutMs, TimeoutStrategy.Aggressive),
    bulkhead(limits.concurrency, limits.queueMax),
    breaker.policy,
  )
  const reject = (text: string): BankUnreachableError => {
    observe('rejected', 0)
    return new BankUnreachableError(text, false)
  }
  return {
    async send(request) {
      // Cockatiel makes other requests wait for a probe in progress, but they should fail at once.
      if (breaker.policy.state === CircuitState.HalfOpen) throw reject(CIRCUIT_OPEN)
      const startedMs = performance.now()
      const elapsedMs = (): number => performance.now() - startedMs
      const progress = { isAdmitted: false, isSent: false, isAborted: false }
      try {
        const response = await policy.execute(async ({ signal }) => {
          progress.isAdmitted = true
          return exchange(pool, root, request, signal, progress).catch((error: unknown) => {
            const isEarly = request.signal.aborted && elapsedMs() < limits.unresponsiveAfterMs
            throw isEarly ? new EarlyAbortError() : error
          })
        }, request.signal)
        observe(`${Math.floor(response.status / 100)}xx` as RequestResult, elapsedMs())
        return response
      } catch (error) {
        if (!progress.isAdmitted) throw reject(rejectionText(error))
        observe(progress.isAborted ? 'timeout' : 'unreachable', elapsedMs())
        throw progress.isAborted
          ? new BankUnreachableError(TIMED_OUT, progress.isSent, error)
          : error
      }
    },
    breakerState: breaker.state,
    close: () => pool.destroy(),
  }
}

function rejectionText(error: unknown): string {
  if (error instanceof BrokenCircuitError) return CIRCUIT_OPEN
  return error instanceof BulkheadRejectedError
    ? 'the queue of requests to the bank is full'
    : 'timed out in the queue of requests to the bank'
}

/**
 * Sends one request. Rejects only with BankUnreachableError.
 *
 * @param progress updated as the request proceeds, for a caller that does not wait for its end
 */
function exchange(
  pool: Pool,
  root: string,
  { method, path, headers, body }: BankRequest,
  signal: AbortSignal,
  progress: { isSent: boolean; isAborted: boolean },
): Promise<BankResponse> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined
    let status = 0
    let bytes = 0
    const chunks: Buffer[] = []
    const fail = (text: string, cause?: unknown): void => {
      signal.removeEventListener('abort', abort)
      reject(new BankUnreachableError(text, progress.isSent, cause))
      controller?.abort(new Error(text))
    }
    const abort = (): void => {
      progress.isAborted = true
      fail(TIMED_OUT)
    }
    signal.addEventListener('abort', abort, { once: true })
    pool.dispatch(
      { method, path: root + path, headers, body: body ?? null },
      {
        onRequestStart(started) {
          // The caller gave up before the connection was ready, and got the result that nothing was sent.
          if (signal.aborted) return started.abort(new Error('aborted'))
          // Called when the connection is ready, right before the first byte is written.
          controller = started
          progress.isSent = true
        },
        onResponseStart(_controller, statusCode) {
          status = statusCode
        },
        onResponseData(_controller, chunk) {
          bytes += chunk.length
          if (bytes > RESPONSE_BYTES_MAX)
            fail(`the response is larger than ${RESPONSE_BYTES_MAX} bytes`)
          else chunks.push(chunk)
        },
        onResponseEnd() {
          signal.removeEventListener('abort', abort)
          resolve({ status, text: Buffer.concat(chunks).toString('utf8') })
        },
        onResponseError(_controller, error) {
          fail(error.message || error.name, error)
        },
      },
    )
  })
}
