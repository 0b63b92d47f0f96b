import { setTimeout as wait } from 'node:timers/promises'
import type { Observe } from './loopback-server.ts'

/** What became of a notification. */
export interface Delivered {
  readonly acknowledged: boolean
  /** Of each attempt in turn: what was answered, or that nothing was. */
  readonly answers: readonly CourierAnswer[]
}

export interface CourierAnswer {
  /** 0 when there was no answer. */
  readonly status: number
  /** The first 4,096 characters. */
  readonly text: string
}

/** Brings a fake bank's notifications, and brings them again until they are acknowledged. */
export interface Courier {
  /** Never rejects. */
  deliver(body: string): Promise<Delivered>
  /** Gives up what is under way. */
  close(): void
}

interface CourierOptions {
  /** On this machine; undefined: nobody is told of anything. */
  readonly url: string | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Waits before the second attempt, the third, … */
  readonly retryDelaysMs: readonly number[]
  /** What an answer means; `final` is an end too, and no good one. */
  readonly judge: (answer: CourierAnswer) => 'acknowledged' | 'again' | 'final'
  readonly observe?: Observe | undefined
}

const TIMEOUT_MS = 30_000
const AT_ONCE_MAX = 32
const ANSWER_CHARACTERS_MAX = 4_096

/** @throws RangeError when the URL is not of this machine: a fake tells nobody else of money */
export function createCourier(options: CourierOptions): Courier {
  const { url, headers, retryDelaysMs, judge, observe } = options
  if (url !== undefined && !/^(127\.0\.0\.1|localhost|\[::1\])$/.test(new URL(url).hostname)) {
    throw new RangeError('a fake bank notifies addresses of this machine alone')
  }
  const closing = new AbortController()
  const places = createPlaces(AT_ONCE_MAX)
  const post = async (body: string): Promise<CourierAnswer> => {
    const leave = await places()
    try {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(TIMEOUT_MS)])
      const request = { method: 'POST', headers, body, signal, redirect: 'manual' } as const
      const response = await fetch(String(url), request)
      const text = (await response.text()).slice(0, ANSWER_CHARACTERS_MAX)
      return { status: response.status, text }
    } catch {
      return { status: 0, text: '' }
    } finally {
      leave()
    }
  }
  return {
    async deliver(body) {
      const answers: CourierAnswer[] = []
      if (url === undefined) return { acknowledged: false, answers }
      for (const delayMs of [0, ...retryDelaysMs]) {
        if (delayMs > 0) await wait(delayMs, undefined, { signal: closing.signal }).catch(() => {})
        if (closing.signal.aborted) break
        const answer = await post(body)
        answers.push(answer)
        const verdict = judge(answer)
        observe?.(`notification → ${answer.status || 'no answer'} ${answer.text} (${verdict})`)
        if (verdict !== 'again') return { acknowledged: verdict === 'acknowledged', answers }
      }
      return { acknowledged: false, answers }
    },
    close: () => closing.abort(),
  }
}

/** Lets `max` in at once; whoever waits is let in in turn. Resolves to what gives the place back. */
function createPlaces(max: number): () => Promise<() => void> {
  let free = max
  const waiting: (() => void)[] = []
  const leave = (): void => {
    const next = waiting.shift()
    if (next) next()
    else free += 1
  }
  return async () => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    return leave
  }
}
