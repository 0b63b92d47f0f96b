import type { Pool } from 'pg'
import { Counter, Gauge } from 'prom-client'
import { Fault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import { formatTraceparent, inSpan, parseTraceparent, type Tracing } from '../core/tracing.ts'
import { decodeCursor, encodeCursor } from '../events/cursor.ts'
import { type LogState, placeOf, readLogState } from '../events/log-state.ts'
import { readLog } from '../events/read-log.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type EventMessage, type EventSink, type MirrorStream, SinkConflict } from './event-sink.ts'
import { type RelayFormat, toMessage } from './message.ts'

/** The most events of one read of the log. While they are published, the next events are read. */
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
 * Any number of instances may relay: the broker stores an event only directly after the previous event, so the stream is
 * the same whichever instance publishes. An instance that finds that another instance publishes only watches the stream,
 * and takes over when the stream stops growing.
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
  /** Undefined: the stream must be compared with the log first. */
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

  /** The wait differs between instances, so that one instance takes over first. */
  #pollMs(): number {
    return POLL_MS * (0.5 + this.#options.random())
  }

  /** Returns the stream, after comparing it with the log unless that was done recently. */
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
        // A new epoch has begun, or retention has deleted these events.
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

/** Publishes an event in a span of its payment's trace, which its consumers then continue. */
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

/** The most published events that the broker has not acknowledged yet. */
export const WINDOW_MAX = 256

/**
 * A full window is emptied by half before more events are published: events that are published without a pause go to the
 * network together, which costs a fraction of writing each by itself.
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

/**
 * Returns the stream to publish to, and the log's state. The last message of the stream is compared with the log like the
 * cursor of a subscriber. A new stream begins with each epoch of the log, if messages at the end of the stream are missing,
 * and if retention has deleted events that the stream lacks.
 *
 * @throws Error if the stream contradicts the log: an operator must decide. SinkConflict if another instance has begun a
 * stream in the meantime. Fault unavailable: the database has just failed over
 */
export async function findStream(
  { log, database: { durablePool } }: Runtime,
  sink: EventSink,
): Promise<MirrorStream> {
  const state = await readLogState(durablePool)
  const latest = await sink.latest()
  if (latest !== undefined && latest.epoch > state.epoch) throw laterEpoch(latest, state)
  const isCurrent = latest?.isOpen && latest.epoch === state.epoch
  if (isCurrent && (await placeAfter(durablePool, latest, state)) === latest.end) return latest
  // A replaced stream accepts no more events, so its end is final for every instance.
  const ended = latest && (await sink.end(latest))
  const after = ended === undefined ? state.floor : await placeAfter(durablePool, ended, state)
  await sink.begin({ epoch: state.epoch, after }, ended)
  const begun = await sink.latest()
  if (begun === undefined || begun.after !== after) throw new SinkConflict('another stream began')
  const previous = ended && { stream: ended.name, epoch: ended.epoch, end: `${ended.end}` }
  const fields = { stream: begun.name, epoch: begun.epoch, after: `${after}`, previous }
  if (ended !== undefined && after > ended.end) {
    const missing = `${after - ended.end}`
    log.error(
      { ...fields, missing },
      'a new stream of events begins, and lacks events that were deleted before they were published',
    )
  } else log.info(fields, 'a new stream of events begins')
  return begun
}

/** The position after which the log continues the stream. */
async function placeAfter(pool: Pool, stream: MirrorStream, state: LogState): Promise<bigint> {
  const { name, epoch, last } = stream
  // If all messages of the stream have expired, only its position is known.
  const cursor = last?.cursor ?? encodeCursor({ epoch, position: stream.end, tag: '' })
  try {
    const { position } = await placeOf(pool, cursor, state)
    if (position === (last?.position ?? stream.end)) return position
    throw new Fault('stale_cursor', `the stream ${name} has position ${position} at another place`)
  } catch (error) {
    if (!(error instanceof Fault) || error.reason === 'unavailable') throw error
    // Within an epoch the log only grows, so the stream contradicts it. Without this error, two installations would replace
    // each other's streams for ever.
    if (epoch === state.epoch && error.reason !== 'expired_cursor') {
      throw new Error(
        `the stream ${name} ends with an event that the log does not have. After a restore, run "inflow events epoch bump"; two installations need NATS accounts of their own`,
        { cause: error },
      )
    }
    const { cursor: safe } = error.facts
    return safe === undefined ? state.floor : decodeCursor(safe).position
  }
}

function laterEpoch(stream: MirrorStream, state: LogState): Error {
  return new Error(
    `the stream ${stream.name} is of epoch ${stream.epoch}, the event log of epoch ${state.epoch}: is this an older copy of the database, or another installation's stream?`,
  )
}

const PERIOD_MS = 1_000

/** Shorter than the time-out of a scrape. */
const TIMEOUT_MS = 500

/** Registers the metrics of the instance's relay. */
export function registerRelayMetrics(
  { database: { durablePool }, clock, metrics }: Runtime,
  relay: Relay,
): void {
  new Gauge({
    name: 'inflow_relay_up',
    help: 'Whether the relay works: 1, also while another instance publishes; 0: the broker or the database fails.',
    registers: [metrics],
    collect() {
      this.set(Number(relay.isUp()))
    },
  })
  registerSampledGauges(
    metrics,
    () => readLag(durablePool, relay.publishedUpTo(), clock.now()),
    [
      {
        name: 'inflow_relay_lag_rows',
        help: 'Events of the log that are not published yet.',
        measure: (lag) => lag?.rows,
      },
      {
        name: 'inflow_relay_lag_seconds',
        help: 'Age of the oldest event of the log that is not published yet; 0: all are.',
        measure: (lag) => lag?.seconds,
      },
    ],
    { periodMs: PERIOD_MS, timeoutMs: TIMEOUT_MS },
  )
  new Counter({
    name: 'inflow_relay_events_total',
    help: 'Events that this instance published.',
    registers: [metrics],
    collect() {
      this.reset()
      this.inc(relay.published())
    },
  })
}

/** The lag of the stream behind the log; undefined: not known yet. */
async function readLag(pool: Pool, publishedUpTo: bigint | undefined, nowMs: number) {
  if (publishedUpTo === undefined) return undefined
  const { end } = await readLogState(pool)
  const { entries } = await readLog(pool, publishedUpTo + 1n, 1)
  const [oldest] = entries
  return {
    rows: Math.max(0, Number(end.position - publishedUpTo)),
    seconds: oldest === undefined ? 0 : Math.max(0, nowMs - oldest.occurredAtMs) / 1_000,
  }
}
