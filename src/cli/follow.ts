import { setTimeout as delay } from 'node:timers/promises'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import { EventService, type SubscribeRequest } from '../../gen/inflow/event/v1/event_service_pb.ts'
import type { Service } from './service.ts'

/** How often in a row a stream may fail before the last error is thrown: some ten minutes. */
const FAILURES_MAX = 30

/** The same before the service was ever heard of: it may be another kind of server. */
const FIRST_FAILURES_MAX = 3

const DELAY_MIN_MS = 500
const DELAY_MAX_MS = 30_000

interface FollowOptions {
  readonly service: Pick<Service, 'client'>
  readonly start: SubscribeRequest['start']
  readonly filters: Pick<SubscribeRequest, 'kinds' | 'businessIds'>
  /** Ends it. */
  readonly signal: AbortSignal
  /** Told, in a line, of interruptions. */
  readonly note: (line: string) => void
  /** The next event is taken when it resolves. */
  readonly onEvent: (event: Event) => Promise<void>
}

/**
 * Follows the log of events over interruptions: it resumes after the last cursor it saw.
 *
 * @returns the last cursor, when the signal ended it
 * @throws ConnectError when the service refuses, cannot be reached at first, or stays away
 */
export async function follow(options: FollowOptions): Promise<string | undefined> {
  const { service, filters, signal, note, onEvent } = options
  const client = service.client(EventService)
  let start = options.start
  let cursor: string | undefined
  let failures = 0
  let reached = false
  while (!signal.aborted) {
    // Without a cursor yet, "from now" has to stay the now of the first time.
    const openedAt = timestampFromMs(Date.now())
    let fault = new ConnectError('the stream ended', Code.Unavailable)
    let items = 0
    try {
      // The stream has no deadline: the service ends it now and then.
      const stream = client.subscribe({ start, ...filters }, { signal, timeoutMs: 0 })
      for await (const { item } of stream) {
        items += 1
        failures = 0
        if (item.case === 'event') await onEvent(item.value)
        if (item.case !== undefined) cursor = item.value.cursor
      }
    } catch (error) {
      if (signal.aborted) break
      if (!(error instanceof ConnectError) || !mayPass(error)) throw error
      fault = error
    }
    reached ||= items > 0 || fault.isWireError
    if (!reached && isUnconnected(fault)) throw fault
    if (failures >= (reached ? FAILURES_MAX : FIRST_FAILURES_MAX)) throw fault
    if (cursor !== undefined) start = { case: 'cursor', value: cursor }
    else if (start.case === undefined) start = { case: 'since', value: openedAt }
    failures += 1
    await pause(fault, failures, items, { signal, note })
  }
  return cursor
}

/** A stream that ended in good order after giving something is gone on with at once. */
async function pause(
  fault: ConnectError,
  failures: number,
  items: number,
  { signal, note }: Pick<FollowOptions, 'signal' | 'note'>,
): Promise<void> {
  if (items > 0 && fault.rawMessage === 'the stream ended') return
  const waitMs = Math.min(DELAY_MIN_MS * 2 ** (failures - 1), DELAY_MAX_MS)
  const jitteredMs = Math.round(waitMs * (0.8 + 0.4 * Math.random()))
  note(`Interrupted (${fault.rawMessage}); resuming in ${(jitteredMs / 1000).toFixed(1)} s.`)
  // The only way it rejects is the signal, which the caller looks at.
  await delay(jitteredMs, undefined, { signal }).catch(() => undefined)
}

/** Whether the way to the service failed, or it said that it is away for now. */
function mayPass(error: ConnectError): boolean {
  return !error.isWireError || error.code === Code.Unavailable
}

/** Whether there was no connection at all: no such host, or nobody listening. */
function isUnconnected(error: ConnectError): boolean {
  return !error.isWireError && error.code === Code.Unavailable && error.cause !== undefined
}
