import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import type {
  SubscribeRequest,
  SubscribeResponse,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import type { CredentialStatus } from '../auth/caller.ts'
import { watchCredential } from '../auth/credential-watch.ts'
import { type LogState, positionOf, readLogState } from './log-state.ts'
import { toCheckpointItem } from './message.ts'
import { readPositionBefore } from './read-log.ts'
import type { Tail, TailEntry } from './tail.ts'

/** How often a stream says where it is, and how long it lasts. */
export interface StreamPace {
  /** A subscriber hears of its place at least this often. */
  readonly checkpointMs: number
  /** A stream ends by itself after this long, give or take a tenth; the subscriber resumes. */
  readonly streamMs: number
}

export const STREAM_PACE: StreamPace = { checkpointMs: 15_000, streamMs: 30 * 60_000 }

interface Dependencies {
  readonly pool: Pool
  readonly tail: Tail
  /** Aborts when the service drains: streams end with a checkpoint. */
  readonly draining: AbortSignal
  readonly random: () => number
  readonly pace: StreamPace
}

/**
 * Streams events in order from the place asked for. The first item is a checkpoint: it says that
 * the subscription stands, and where.
 *
 * @param standing of the caller's credential
 * @throws Fault invalid_cursor, stale_cursor, expired_cursor: see `positionOf`; the last also when
 * the stream falls so far behind that what follows was deleted; unauthorized when the credential
 * was revoked or expired meanwhile
 */
export async function* subscribe(
  { pool, tail, draining, random, pace }: Dependencies,
  request: SubscribeRequest,
  cancelled: AbortSignal,
  standing: CredentialStatus,
): AsyncGenerator<SubscribeResponse> {
  const wants = filter(request)
  const state = await readLogState(pool)
  const { epoch } = state
  const watch = watchCredential(standing, cancelled)
  try {
    const signal = AbortSignal.any([cancelled, draining, watch.revoked])
    const endsMs = performance.now() + pace.streamMs * (0.9 + 0.2 * random())
    let position = await startOf(pool, request, state)
    let checkpointMs = performance.now() + pace.checkpointMs
    yield toCheckpointItem(position, epoch)
    while (!signal.aborted && performance.now() < endsMs) {
      const entries = await tail.read(position, epoch)
      for (const entry of entries) {
        if (signal.aborted) break
        position = entry.position
        if (wants(entry)) yield entry.item
      }
      if (signal.aborted) break
      if (performance.now() >= checkpointMs) {
        yield toCheckpointItem(position, epoch)
        checkpointMs = performance.now() + pace.checkpointMs
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

type Facts = Pick<TailEntry, 'kind' | 'businessId' | 'live'>

function filter(request: SubscribeRequest): (event: Facts) => boolean {
  const kinds = new Set(request.kinds)
  const businesses = new Set(request.businessIds)
  const { live } = request
  if (kinds.size === 0 && businesses.size === 0 && live === undefined) return () => true
  return (event) =>
    (kinds.size === 0 || kinds.has(event.kind)) &&
    (businesses.size === 0 || businesses.has(event.businessId)) &&
    (live === undefined || event.live === live)
}

/** The position after which the stream starts. */
async function startOf(pool: Pool, { start }: SubscribeRequest, state: LogState): Promise<bigint> {
  switch (start.case) {
    case 'cursor':
      return positionOf(pool, start.value, state)
    case 'beginning':
      return state.floor
    case 'since':
      return readPositionBefore(pool, timestampMs(start.value), state.floor, state.end)
    default:
      return state.end
  }
}
