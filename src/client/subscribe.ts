import { setTimeout as wait } from 'node:timers/promises'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ChannelCredentials } from '@grpc/grpc-js'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import type { SubscribeRequestSchema } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { backoffMs } from '../core/backoff.ts'
import { connect } from './connection.ts'
import type { ClientTls } from './credentials.ts'
import { Interruption, toInterruption } from './interruption.ts'

export type { ClientTls } from './credentials.ts'
export { Interruption, SubscriptionRefused } from './interruption.ts'

/** Between attempts to connect: the first, and the longest. */
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 15_000

/** Checkpoints come every 15 s; a connection that is silent for much longer is dead. */
const SILENCE_MS = 45_000

export interface SubscribeOptions {
  /** Instances of the service, `host:port`; the next one is tried when one fails. */
  readonly addresses: readonly string[]
  /** An internal token with the scope events:subscribe; empty: the certificate says who calls. */
  readonly token: string
  /** Where to start; absent: now. */
  readonly start?: MessageInitShape<typeof SubscribeRequestSchema>['start']
  /** Only these kinds; absent: all. */
  readonly kinds?: readonly string[]
  /** Only of these businesses; absent: of all. */
  readonly businessIds?: readonly string[]
  /** Only what is of live mode, or only what is of test mode; absent: both. */
  readonly live?: boolean
  /** Absent: plain text. `{}` trusts the authorities that Node trusts. */
  readonly tls?: ClientTls
  /** Other credentials of grpc-js, in place of `tls`. */
  readonly credentials?: ChannelCredentials
  /** Ends the subscription, without an error. */
  readonly signal?: AbortSignal
  /** A place that all events before were handed out at; worth keeping, as an event's cursor is. */
  readonly onCheckpoint?: (cursor: string) => void
  /** Told of every interruption, and of the time before the next attempt. */
  readonly onInterruption?: (error: Interruption, retryMs: number) => void
  /** The first time between attempts; it doubles up to `retryMaxMs`, and jitter halves or adds half. */
  readonly retryMinMs?: number
  readonly retryMaxMs?: number
  /** How long nothing may come while something is waited for. */
  readonly silenceMs?: number
}

/**
 * Hands out events in order, each once, over restarts and moves of the service: it resumes after
 * the last event that was handled, at the next instance, and backs off with jitter while there is
 * none. The next event is asked for when the loop comes round: a slow one holds the stream back.
 *
 *     for await (const event of subscribe({ addresses: ['127.0.0.1:50051'], token, start })) {
 *       await handle(event)
 *       await keep(event.cursor) // and next time: start: { case: 'cursor', value: kept }
 *     }
 *
 * Leaving the loop closes the connection. To end it while it waits, abort the signal.
 *
 * @throws SubscriptionRefused when asking again would not help
 */
export async function* subscribe(options: SubscribeOptions): AsyncGenerator<Event, void, void> {
  const signal = options.signal ?? new AbortController().signal
  const pause = createPause(options, signal)
  // "Now" has to stay the now of the first attempt, also when that one fails.
  const now = { case: 'since' as const, value: timestampFromMs(Date.now()) }
  let start = options.start
  let position = 0n
  for (let attempt = 0; !signal.aborted; attempt++) {
    const address = options.addresses[attempt % options.addresses.length]
    if (address === undefined) throw new RangeError('subscribe needs an address')
    const connection = connect(
      { ...options, address, start, silenceMs: options.silenceMs ?? SILENCE_MS },
      signal,
    )
    let fault: Interruption | undefined
    let handled = 0
    try {
      for (let item = await connection.next(); item; item = await connection.next()) {
        if (signal.aborted) return
        if (item.case === undefined) continue
        // The next attempt goes on after this place, and none that was passed is handed out again.
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
    await pause(fault, handled > 0 || connection.stoodMs() > RETRY_MAX_MS)
  }
}

/** Waits longer from failure to failure, and starts again after a connection that was good. */
function createPause(options: SubscribeOptions, signal: AbortSignal) {
  const { retryMinMs = RETRY_MIN_MS, retryMaxMs = RETRY_MAX_MS, onInterruption } = options
  let failures = 0
  return async (fault: Interruption | undefined, wasGood: boolean): Promise<void> => {
    if (wasGood) failures = 0
    // The service ends streams in good order now and then, and means them to go on at once.
    if (wasGood && fault === undefined) return
    failures += 1
    const retryMs = backoffMs(failures, { minMs: retryMinMs, maxMs: retryMaxMs }, Math.random)
    onInterruption?.(fault ?? new Interruption('the stream ended'), retryMs)
    // The only way it rejects is the signal, which the loop looks at.
    await wait(retryMs, undefined, { signal }).catch(() => undefined)
  }
}
