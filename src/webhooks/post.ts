import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { createConnector } from './connect.ts'
import { createConnections } from './connections.ts'
import { type UrlRules, urlRefusal } from './endpoint-url.ts'
import { failureText } from './failure-text.ts'
import { createGuardedLookup, type Resolve, systemResolve } from './lookup.ts'
import { createTimeLimit } from './time-limit.ts'

/** What came of one request. */
export interface Outcome {
  /** HTTP status; undefined when there was no answer. */
  readonly status: number | undefined
  /** The first 4 KiB of the answer's body. */
  readonly answer: string
  /** Why it failed, in plain words; empty when it was acknowledged. */
  readonly error: string
  /** The answer's Retry-After header. */
  readonly retryAfter: string | undefined
}

/** Sends webhooks to where they may go. */
export interface Poster {
  /** Answers for every fault of the receiver and the network; it does not throw. */
  post(url: string, headers: Record<string, string>, body: string | Buffer): Promise<Outcome>
  /** Ends what is under way. */
  close(): Promise<void>
}

interface PosterOptions {
  readonly rules: UrlRules
  /** For the whole request and its answer. */
  readonly timeoutMs: number
  readonly resolve?: Resolve
}

const CONNECT_TIMEOUT_MS = 5_000
const ANSWER_KEPT_BYTES = 4 * 1_024
const ANSWER_READ_MAX_BYTES = 64 * 1_024

/** How many URLs are remembered with what they may. */
const TARGETS_MAX = 1_000

/** Where a URL leads, or why nothing may be sent there. */
type Target = { readonly origin: string; readonly path: string } | { readonly refusal: string }

export function createPoster(options: PosterOptions): Poster {
  const { rules, timeoutMs } = options
  const connections = createConnections({
    allowH2: false,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: createConnector({
      allowH2: false,
      timeout: CONNECT_TIMEOUT_MS,
      lookup: createGuardedLookup(rules.guard, options.resolve ?? systemResolve),
    }),
  })
  const targetOf = createTargets(rules)
  const limit = createTimeLimit<Exchange>(timeoutMs, (exchange) => {
    exchange.timeOut(`timed out after ${timeoutMs / 1_000} s`)
  })
  return {
    post(url, headers, body) {
      const target = targetOf(url)
      if ('refusal' in target) return Promise.resolve(failed(`refused: ${target.refusal}`))
      const { origin, path } = target
      return new Promise((resolve) => {
        const client = connections.take(origin)
        const exchange = new Exchange((outcome) => {
          limit.end(exchange)
          connections.giveBack(origin, client)
          resolve(outcome)
        })
        limit.begin(exchange)
        client.dispatch({ path, method: 'POST', headers, body }, exchange)
      })
    },
    close: connections.destroy,
  }
}

/** The rules do not change while the process runs, so a URL is checked once. */
function createTargets(rules: UrlRules): (url: string) => Target {
  const known = new Map<string, Target>()
  return (url) => {
    const found = known.get(url)
    if (found) return found
    const refusal = urlRefusal(url, rules)
    const target = refusal === undefined ? partsOf(url) : { refusal: `the URL ${refusal}` }
    if (known.size >= TARGETS_MAX) known.clear()
    known.set(url, target)
    return target
  }
}

function partsOf(url: string): Target {
  const { origin, pathname, search } = new URL(url)
  return { origin, path: pathname + search }
}

/**
 * One request and its answer. Of the body the start is read, for the log: the status line has
 * acknowledged or refused already, so a body that breaks off or never ends changes nothing.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #ended: (outcome: Outcome) => void
  #over = false
  #controller: Dispatcher.DispatchController | undefined
  #timedOut = ''
  #status: number | undefined
  #retryAfter: string | undefined
  #kept: Buffer[] | undefined
  #keptBytes = 0
  #readBytes = 0

  constructor(ended: (outcome: Outcome) => void) {
    this.#ended = ended
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // It may have waited for its connection for too long.
    if (this.#timedOut !== '') controller.abort(new Error('timed out'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // An informational answer comes before the answer.
    if (status < 200) return
    this.#status = status
    const retryAfter = headers['retry-after']
    this.#retryAfter = typeof retryAfter === 'string' ? retryAfter : undefined
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = ANSWER_KEPT_BYTES - this.#keptBytes
    if (room > 0) {
      // A copy, as the chunk is a window on the buffer that the connection reads into.
      this.#kept ??= []
      this.#kept.push(Buffer.from(chunk.subarray(0, room)))
      this.#keptBytes += Math.min(room, chunk.length)
    }
    this.#readBytes += chunk.length
    if (this.#readBytes > ANSWER_READ_MAX_BYTES) controller.abort(new Error('read enough'))
  }

  onResponseEnd(): void {
    this.#end(undefined)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(error)
  }

  /** @param error what it failed with, unless it was acknowledged already */
  timeOut(error: string): void {
    this.#timedOut = error
    this.#controller?.abort(new Error('timed out'))
    this.#end(undefined)
  }

  /** The first end counts. */
  #end(error: Error | undefined): void {
    if (this.#over) return
    this.#over = true
    this.#ended(this.#outcome(error))
  }

  #outcome(error: Error | undefined): Outcome {
    const status = this.#status
    if (status === undefined) {
      if (this.#timedOut !== '') return failed(this.#timedOut)
      return failed(error === undefined ? 'there was no answer' : failureText(error))
    }
    // PostgreSQL stores no NUL in a text.
    const answer = this.#kept ? Buffer.concat(this.#kept).toString('utf8').replaceAll('\0', '') : ''
    return { status, answer, error: statusError(status), retryAfter: this.#retryAfter }
  }
}

function failed(error: string): Outcome {
  return { status: undefined, answer: '', error, retryAfter: undefined }
}

function statusError(status: number): string {
  if (status >= 200 && status < 300) return ''
  if (status >= 300 && status < 400) return `redirects are not followed (${status})`
  return `answered ${status}`
}
