import { Agent, type Dispatcher } from 'undici'
import { createConnector } from './connect.ts'
import { type UrlRules, urlRefusal } from './endpoint-url.ts'
import { failureText } from './failure-text.ts'
import { createGuardedLookup, type Resolve, systemResolve } from './lookup.ts'

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
  post(url: string, headers: Record<string, string>, body: string): Promise<Outcome>
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

export function createPoster(options: PosterOptions): Poster {
  const { rules, timeoutMs } = options
  // An Agent of our own: the global one may go through a proxy that resolves names itself.
  const agent = new Agent({
    allowH2: false,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: createConnector({
      allowH2: false,
      timeout: CONNECT_TIMEOUT_MS,
      lookup: createGuardedLookup(rules.guard, options.resolve ?? systemResolve),
    }),
  })
  return {
    async post(url, headers, body) {
      const refusal = urlRefusal(url, rules)
      if (refusal) return failed(`refused: the URL ${refusal}`)
      const end = new AbortController()
      const timer = setTimeout(() => end.abort(), timeoutMs)
      try {
        const { origin, pathname, search } = new URL(url)
        const answer = await agent.request({
          origin,
          path: pathname + search,
          method: 'POST',
          headers,
          body,
          signal: end.signal,
        })
        return toOutcome(answer, await readStart(answer.body))
      } catch (error) {
        return failed(
          end.signal.aborted ? `timed out after ${timeoutMs / 1_000} s` : failureText(error),
        )
      } finally {
        clearTimeout(timer)
      }
    },
    close: () => agent.destroy(),
  }
}

function failed(error: string): Outcome {
  return { status: undefined, answer: '', error, retryAfter: undefined }
}

function toOutcome({ statusCode, headers }: Dispatcher.ResponseData, answer: string): Outcome {
  const retryAfter = headers['retry-after']
  return {
    status: statusCode,
    answer,
    error: statusError(statusCode),
    retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined,
  }
}

function statusError(status: number): string {
  if (status >= 200 && status < 300) return ''
  if (status >= 300 && status < 400) return `redirects are not followed (${status})`
  return `answered ${status}`
}

/**
 * Reads the start of the body for the log. The status line has acknowledged or refused already, so
 * a body that breaks off changes nothing.
 */
async function readStart(body: Dispatcher.ResponseData['body']): Promise<string> {
  const kept: Buffer[] = []
  let keptBytes = 0
  let readBytes = 0
  // Leaving the loop early destroys the stream, which then reports that as an error.
  body.on('error', () => {})
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      const start = chunk.subarray(0, ANSWER_KEPT_BYTES - keptBytes)
      if (start.length > 0) kept.push(start)
      keptBytes += start.length
      readBytes += chunk.length
      if (readBytes > ANSWER_READ_MAX_BYTES) break
    }
  } catch {
    // What was read is kept.
  }
  // PostgreSQL stores no NUL in a text.
  return Buffer.concat(kept).toString('utf8').replaceAll('\0', '')
}
