import { createLoop, type Loop } from '../core/loop.ts'
import { formatTraceparent, inSpan, parseTraceparent, type Tracing } from '../core/tracing.ts'
import { readLog } from '../events/read-log.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type EventMessage, type EventSink, type MirrorStream, SinkConflict } from './event-sink.ts'
import { findStream } from './find-stream.ts'
import { type RelayFormat, toMessage } from './message.ts'

/** The most events of one read of the log. While they are published, the next ones are read. */
const PAGE_MAX = 1_000

/** The most reads of one turn. */
const PAGES_MAX = 20

/** How often an idle relay looks for events, and how often the stream is compared with the log. */
const POLL_MS = 1_000

const COMPARE_MS = 5_000

/** The longest wait between attempts while the broker or the database fails. */
const RETRY_MAX_MS = 5_000

interface Options {
  readonly random: () => number
  readonly format: RelayFormat
  /** Connects to the broker. */
  readonly openSink: () => Promise<EventSink>
}

/** Publishes the event log into a stream of a broker. */
export interface Relay extends Pick<Loop, 'start' | 'stop'> {
  /** Reports that the log has grown. */
  wake(): void
  /** The position up to which the log is published; undefined: not known yet. */
  publishedUpTo(): bigint | undefined
  /** Whether the last attempt reached the broker and the database. */
  isUp(): boolean
  /** How many events this instance published. */
  published(): number
}

/**
 * Any number of instances may relay: the broker stores an event only after the one before it, so the stream
 * is the same whichever of them publishes. An instance that meets another one follows it, and takes over when the
 * stream stands still.
 */
export function createRelay(runtime: Runtime, options: Options): Relay {
  const relaying = new Relaying(runtime, options)
  const loop = createLoop({
    name: 'event relay',
    log: runtime.log,
    everyMs: RETRY_MAX_MS,
    turn: (signal) => relaying.turn(signal),
  })
  return {
    start: loop.start,
    wake: () => void (relaying.isFollowing || loop.wake()),
    publishedUpTo: () => relaying.end,
    isUp: () => relaying.isUp,
    published: () => relaying.published,
    async stop() {
      await loop.stop()
      await relaying.close()
    },
  }
}

class Relaying {
  readonly #runtime: Runtime
  readonly #options: Options
  #sink: EventSink | undefined
  /** Undefined: it must be compared with the log first. */
  #stream: MirrorStream | undefined
  #comparedMs = 0
  end: bigint | undefined
  isFollowing = false
  isUp = false
  published = 0

  constructor(runtime: Runtime, options: Options) {
    this.#runtime = runtime
    this.#options = options
  }

  /** @returns milliseconds until the next turn */
  async turn(signal: AbortSignal): Promise<number> {
    try {
      this.#sink ??= await this.#options.openSink()
      const stream = await this.#compare(this.#sink)
      this.isUp = true
      const more = !this.isFollowing && (await this.#publish(this.#sink, stream, signal))
      return more ? 0 : this.#pollMs()
    } catch (error) {
      this.#stream = undefined
      if (error instanceof SinkConflict) {
        this.isFollowing = true
        return this.#pollMs()
      }
      this.isUp = false
      await this.close()
      throw error
    }
  }

  async close(): Promise<void> {
    const sink = this.#sink
    this.#sink = undefined
    await sink?.close().catch(() => undefined)
  }

  /** The wait differs between instances, so that one of them takes over first. */
  #pollMs(): number {
    return POLL_MS * (0.5 + this.#options.random())
  }

  /** The stream, compared with the log if that was not done lately. */
  async #compare(sink: EventSink): Promise<MirrorStream> {
    const nowMs = performance.now()
    if (this.#stream !== undefined && nowMs - this.#comparedMs < COMPARE_MS && !this.isFollowing) {
      return this.#stream
    }
    const { durablePool } = this.#runtime.database
    const stream = await findStream(this.#runtime, sink)
    if (this.isFollowing) {
      const { entries } = await readLog(durablePool, stream.end + 1n, 1)
      this.isFollowing = entries.length === 0 || stream.end !== this.end
    }
    this.#stream = stream
    this.#comparedMs = nowMs
    this.end = stream.end
    return stream
  }

  /** @returns whether there may be more events to publish now */
  async #publish(sink: EventSink, stream: MirrorStream, signal: AbortSignal): Promise<boolean> {
    const { durablePool } = this.#runtime.database
    const { format } = this.#options
    const window = new PublishWindow()
    let from = (this.end ?? stream.end) + 1n
    let reading = readLog(durablePool, from, PAGE_MAX)
    let more = false
    for (let page = 1; ; page++) {
      const { epoch, entries } = await reading
      if (epoch === undefined) break
      if (epoch !== stream.epoch || entries[0]?.position !== from) {
        // An epoch has begun, or retention deleted these events.
        this.#stream = undefined
        more = true
        break
      }
      from += BigInt(entries.length)
      const isEnd = entries.length < PAGE_MAX
      const isLast = isEnd || page === PAGES_MAX || signal.aborted
      if (!isLast) {
        reading = readLog(durablePool, from, PAGE_MAX)
        reading.catch(() => undefined)
      }
      for (const entry of entries) {
        if (window.isFull) await window.room()
        const message = toMessage(entry, epoch, format)
        const stored = appendTraced(this.#runtime.tracing, sink, stream, message)
        window.add(stored.then(() => this.#onStored(message.position)))
      }
      more = !isEnd
      if (isLast) break
    }
    await window.drain()
    return more
  }

  #onStored(position: bigint): void {
    this.end = position
    this.published += 1
  }
}

/** Publishes an event as a step of its payment's trace, which its consumers then continue. */
function appendTraced(
  tracing: Tracing | undefined,
  sink: EventSink,
  stream: MirrorStream,
  message: EventMessage,
): Promise<void> {
  const parent = tracing && parseTraceparent(message.traceparent)
  if (parent === undefined) return sink.append(stream, message)
  const span = tracing?.start(`send ${stream.name}`, {
    kind: 'producer',
    parent,
    attributes: {
      'messaging.system.name': 'nats',
      'messaging.operation.type': 'send',
      'messaging.operation.name': 'send',
      'messaging.destination.name': stream.name,
      'messaging.message.id': message.id,
    },
  })
  const traceparent = formatTraceparent(span?.context ?? parent)
  return inSpan(span, () => sink.append(stream, { ...message, traceparent }))
}

/** The most events that a relay has published and that the broker has not acknowledged. */
export const WINDOW_MAX = 256

/**
 * Once the window is full, it is half emptied: events that are published without a pause in between go to
 * the network together, which costs a fraction of writing each.
 */
const WINDOW_MIN = WINDOW_MAX / 2

/** Publications in progress. */
class PublishWindow {
  #inFlight = 0
  #failure: { readonly error: unknown } | undefined
  #limit = 0
  #resume: (() => void) | undefined

  get isFull(): boolean {
    return this.#inFlight >= WINDOW_MAX
  }

  /** Adds a publication. Call `room` first if the window is full. */
  add(publication: Promise<void>): void {
    this.#inFlight += 1
    publication.then(
      () => this.#onEnd(),
      (error: unknown) => {
        this.#failure ??= { error }
        this.#onEnd()
      },
    )
  }

  /** Waits for room. Rejects once a publication has failed. */
  room(): Promise<void> {
    return this.#wait(WINDOW_MIN)
  }

  /** Waits for all publications. Rejects once one has failed. */
  drain(): Promise<void> {
    return this.#wait(0)
  }

  async #wait(limit: number): Promise<void> {
    this.#limit = limit
    if (this.#inFlight > limit && this.#failure === undefined) {
      await new Promise<void>((resolve) => {
        this.#resume = resolve
      })
    }
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #onEnd(): void {
    this.#inFlight -= 1
    if (this.#inFlight <= this.#limit || this.#failure !== undefined) this.#resume?.()
  }
}
