import { createConnector, type Peer, peerOf } from './connect.ts'
import { createConnections } from './connections.ts'
import { type UrlRules, urlRefusal } from './endpoint-url.ts'
import { failureText } from './failure-text.ts'
import type { AnswerReader } from './http1/answer-reader.ts'
import type { Connection, Exchange } from './http1/connection.ts'
import { NoAnswerError } from './http1/no-answer-error.ts'
import { encodeRequest, requestStart } from './http1/request.ts'
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
  /**
   * Answers for every fault of the receiver and the network.
   *
   * @throws for a header that must not be sent, which is a fault of the caller's
   */
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

/** How many URLs are remembered with what they may. */
const TARGETS_MAX = 1_000

/** Where a URL leads, or why nothing may be sent there. */
type Target = { readonly peer: Peer; readonly start: string } | { readonly refusal: string }

export function createPoster(options: PosterOptions): Poster {
  const { rules, timeoutMs } = options
  const connections = createConnections(
    createConnector({
      allowH2: false,
      timeout: CONNECT_TIMEOUT_MS,
      lookup: createGuardedLookup(rules.guard, options.resolve ?? systemResolve),
    }),
  )
  const targetOf = createTargets(rules)
  const limit = createTimeLimit<Post>(timeoutMs, (post) => {
    post.giveUp(new NoAnswerError(`timed out after ${timeoutMs / 1_000} s`))
  })
  return {
    post(url, headers, body) {
      const target = targetOf(url)
      if ('refusal' in target) return Promise.resolve(failed(`refused: ${target.refusal}`))
      const request = encodeRequest(target.start, headers, body)
      return new Promise((resolve) => {
        const post = new Post(request, (outcome) => {
          limit.end(post)
          resolve(outcome)
        })
        limit.begin(post)
        connections.send(target.peer, post)
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

function partsOf(text: string): Target {
  const url = new URL(text)
  return { peer: peerOf(url), start: requestStart(url) }
}

/** One request under way. */
class Post implements Exchange {
  readonly request: Buffer
  connection: Connection | undefined
  isOver = false
  readonly #ended: (outcome: Outcome) => void

  constructor(request: Buffer, ended: (outcome: Outcome) => void) {
    this.request = request
    this.#ended = ended
  }

  giveUp(error: Error): void {
    if (this.connection) this.connection.close(error)
    else this.ended(undefined, error)
  }

  ended(answer: AnswerReader | undefined, error: Error | undefined): void {
    if (this.isOver) return
    this.isOver = true
    this.#ended(outcomeOf(answer, error))
  }
}

/** The status line has acknowledged or refused already, so what came of the body changes nothing. */
function outcomeOf(answer: AnswerReader | undefined, error: Error | undefined): Outcome {
  const status = answer?.status
  if (answer === undefined || status === undefined) return failed(failureText(error))
  // PostgreSQL stores no NUL in a text.
  const text = answer.body.toString('utf8').replaceAll('\0', '')
  return { status, answer: text, error: statusError(status), retryAfter: answer.retryAfter }
}

function failed(error: string): Outcome {
  return { status: undefined, answer: '', error, retryAfter: undefined }
}

function statusError(status: number): string {
  if (status >= 200 && status < 300) return ''
  if (status >= 300 && status < 400) return `redirects are not followed (${status})`
  return `answered ${status}`
}
