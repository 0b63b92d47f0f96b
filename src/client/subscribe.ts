import { setTimeout as wait } from 'node:timers/promises'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import { backoffMs } from '../core/backoff.ts'
import {
  type ClientTls,
  connect,
  Interruption,
  type StreamOptions,
  toInterruption,
} from './connection.ts'

export type { ClientTls } from './connection.ts'
export { Interruption, SubscriptionRefused } from './connection.ts'

/** The first and the longest delay between attempts to connect. */
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 15_000

/** Checkpoints arrive every 15 s; a connection that is silent for much longer is broken. */
const SILENCE_MS = 45_000

export interface SubscribeOptions extends StreamOptions {
  /**
   * The instances of the service: `host:port`, or a URL (`https` means TLS). After a failure, the next instance is tried.
   */
  readonly addresses: readonly string[]
  /** Ends the subscription, without an error. */
  readonly signal?: AbortSignal
  /** Called with a cursor up to which all events were handled. Store it like an event's cursor. */
  readonly onCheckpoint?: (cursor: string) => void
  /**
   * Called at every interruption, with the delay before the next attempt in milliseconds. Absent: the third consecutive
   * interruption emits a process warning.
   */
  readonly onInterruption?: (error: Interruption, retryMs: number) => void
  /** The first delay between attempts. It doubles up to `retryMaxMs`, with jitter of ±50 %. */
  readonly retryMinMs?: number
  readonly retryMaxMs?: number
  /** How long to wait for the next item before the connection is considered broken. */
  readonly silenceMs?: number
}

/**
 * Yields events in order, each once, across restarts and failovers of the service. After an
 * interruption it resumes after the last handled event, at the next instance, and retries
 * with backoff and jitter. An event counts as handled when the loop requests the next one, so a
 * slow loop slows down the stream.
 *
 * Store the cursor of each event after handling it, and start with it next time. A crash between
 * the two delivers that event again, so handle events idempotently.
 *
 *     for await (const event of subscribe({ addresses: ['127.0.0.1:50051'], token, start })) {
 *       await handle(event)
 *       await store(event.cursor) // next time: start: { case: 'cursor', value: stored }
 *     }
 *
 * Leaving the loop closes the connection. To end the loop while it waits, abort the signal.
 *
 * @throws SubscriptionRefused if a retry would not succeed; TypeError for an invalid address
 */
export async function* subscribe(options: SubscribeOptions): AsyncGenerator<Event, void, void> {
  const signal = options.signal ?? new AbortController().signal
  const pause = createPause(options, signal)
  const instances = options.addresses.map((text) => readAddress(text, options))
  // Without a start position, the subscription starts at the current time of this machine, even if the first attempts fail.
  const now = { case: 'since' as const, value: timestampFromMs(Date.now()) }
  let start = options.start
  let position = 0n
  for (let attempt = 0; !signal.aborted; attempt++) {
    const instance = instances[attempt % instances.length]
    if (instance === undefined) throw new RangeError('subscribe needs an address')
    const connection = connect(
      { ...options, ...instance, start, silenceMs: options.silenceMs ?? SILENCE_MS },
      signal,
    )
    let fault: Interruption | undefined
    let handled = 0
    try {
      for (let item = await connection.next(); item; item = await connection.next()) {
        if (signal.aborted) return
        if (item.case === undefined) continue
        // Resume after this item, and never yield an event that was already yielded.
        if (item.case === 'event' && item.value.position > position) {
          position = item.value.position
          yield item.value
          handled += 1
        }
        start = { case: 'cursor', value: item.value.cursor }
        if (item.case === 'checkpoint') options.onCheckpoint?.(item.value.cursor)
      }
    } catch (error) {
      if (signal.aborted) return
      fault = toInterruption(error)
    } finally {
      connection.close()
    }
    start ??= now
    await pause(fault, handled > 0 || connection.uptimeMs() > RETRY_MAX_MS)
  }
}

/** Parses the address of an instance. @throws TypeError for a URL with a path, or whose scheme contradicts `tls` */
function readAddress(
  text: string,
  { tls, credentials }: SubscribeOptions,
): { readonly address: string; readonly tls?: ClientTls } {
  if (!/^https?:/i.test(text)) return { address: text }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || url.pathname !== '/' || url.search !== '') {
    throw new TypeError(`The address ${text} must be host:port, or a URL without a path`)
  }
  const isSecure = url.protocol === 'https:'
  if (tls && !isSecure) throw new TypeError(`The address ${text} is without TLS: use https`)
  const address = `${url.hostname}:${url.port || (isSecure ? 443 : 80)}`
  return isSecure && !tls && !credentials ? { address, tls: {} } : { address }
}

/** The number of consecutive interruptions after which a process without `onInterruption` gets a warning. */
const WARNED_AT = 3

/** Returns a function that waits before the next attempt: exponential backoff, reset by success. */
function createPause(options: SubscribeOptions, signal: AbortSignal) {
  const { retryMinMs = RETRY_MIN_MS, retryMaxMs = RETRY_MAX_MS, onInterruption } = options
  let failures = 0
  return async (fault: Interruption | undefined, wasGood: boolean): Promise<void> => {
    if (wasGood) failures = 0
    // The service ends streams periodically, and the client resumes at once.
    if (wasGood && fault === undefined) return
    failures += 1
    const retryMs = backoffMs(failures, { minMs: retryMinMs, maxMs: retryMaxMs }, Math.random)
    const interruption = fault ?? new Interruption('the stream ended')
    onInterruption?.(interruption, retryMs)
    if (onInterruption === undefined && failures === WARNED_AT) {
      const text = `subscribe gets no events, and goes on trying: ${interruption.message}`
      process.emitWarning(text, 'InflowWarning')
    }
    // It rejects only if the signal aborts, which the loop checks.
    await wait(retryMs, undefined, { signal }).catch(() => undefined)
  }
}
