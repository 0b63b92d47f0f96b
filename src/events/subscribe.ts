import { timestampMs } from '@bufbuild/protobuf/wkt'
import type {
  SubscribeRequest,
  SubscribeResponse,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import type { CredentialStatus } from '../auth/caller.ts'
import { watchCredential } from '../auth/credential-watch.ts'
import type { Database } from '../postgres/orm.ts'
import { type LogState, positionOf, readLogState } from './log-state.ts'
import { toCheckpointItem } from './message.ts'
import { readPositionBefore } from './read-log.ts'
import type { Tail } from './tail.ts'
import type { TailEntry } from './tail-window.ts'

/** How often a stream sends checkpoints, and how long it lasts. */
export interface StreamTiming {
  /** The interval between checkpoints. */
  readonly checkpointMs: number
  /** The duration of a stream, varied by up to a tenth; the subscriber then resumes. */
  readonly streamMs: number
}

export const STREAM_TIMING: StreamTiming = { checkpointMs: 15_000, streamMs: 30 * 60_000 }

interface Dependencies {
  readonly database: Database
  readonly tail: Tail
  /** Aborts when the service drains: each stream then ends with a checkpoint. */
  readonly draining: AbortSignal
  readonly random: () => number
  readonly timing: StreamTiming
}

/**
 * Streams events in order from the requested position. The first item is a checkpoint: it confirms
 * the subscription and carries the cursor of its start. Unless the call fails or the subscriber
 * cancels it, the last item is a checkpoint too.
 *
 * @param credential the status of the caller's credential
 * @throws Fault invalid_cursor, stale_cursor, expired_cursor: see `positionOf`. The last two also
 * end a running stream: stale_cursor if a new epoch begins, expired_cursor if the subscriber is so
 * slow that retention deletes its next events. unauthorized: the credential was revoked or has
 * expired
 */
export async function* subscribe(
  { database, tail, draining, random, timing }: Dependencies,
  request: SubscribeRequest,
  cancelled: AbortSignal,
  credential: CredentialStatus,
): AsyncGenerator<SubscribeResponse> {
  const matches = createFilter(request)
  const state = await readLogState(database.orm)
  const { epoch } = state
  const watch = watchCredential(credential, cancelled)
  try {
    const signal = AbortSignal.any([cancelled, draining, watch.revoked])
    const endsMs = performance.now() + timing.streamMs * (0.9 + 0.2 * random())
    let position = await startPosition(database, request, state)
    let checkpointMs = performance.now() + timing.checkpointMs
    yield toCheckpointItem(position, epoch)
    while (!signal.aborted && performance.now() < endsMs) {
      const entries = await tail.read(position, epoch)
      for (const entry of entries) {
        if (signal.aborted) break
        position = entry.position
        if (matches(entry)) yield entry.item
      }
      if (signal.aborted) break
      if (performance.now() >= checkpointMs) {
        yield toCheckpointItem(position, epoch)
        checkpointMs = performance.now() + timing.checkpointMs
      }
      if (entries.length === 0) {
        const untilMs = Math.min(checkpointMs, endsMs)
        await tail.wait(position, Math.max(untilMs - performance.now(), 0), signal)
      }
    }
    watch.revoked.throwIfAborted()
    if (!cancelled.aborted) yield toCheckpointItem(position, epoch)
  } finally {
    watch.stop()
  }
}

type FilterFields = Pick<TailEntry, 'kind' | 'businessId' | 'live'>

function createFilter(request: SubscribeRequest): (event: FilterFields) => boolean {
  const kinds = new Set(request.kinds)
  const businesses = new Set(request.businessIds)
  const { live } = request
  if (kinds.size === 0 && businesses.size === 0 && live === undefined) return () => true
  return (event) =>
    (kinds.size === 0 || kinds.has(event.kind)) &&
    (businesses.size === 0 || businesses.has(event.businessId)) &&
    (live === undefined || event.live === live)
}

/** The position before the first event of the stream. */
async function startPosition(
  { orm, pool }: Database,
  { start }: SubscribeRequest,
  state: LogState,
): Promise<bigint> {
  switch (start.case) {
    case 'cursor':
      return positionOf(orm, start.value, state)
    case 'beginning':
      return state.floor
    case 'since':
      return readPositionBefore(pool, timestampMs(start.value), state.floor, state.end)
    default:
      return state.end
  }
}
