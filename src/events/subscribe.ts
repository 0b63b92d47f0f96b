import { timestampMs } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import type {
  SubscribeRequest,
  SubscribeResponse,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import type { Clock } from '../clock.ts'
import { decodeCursor } from './cursor.ts'
import { toCheckpointItem } from './message.ts'
import { readEnd, readPositionBefore } from './read-log.ts'
import type { Tail } from './tail.ts'

/** A subscriber hears of its place at least this often. */
const CHECKPOINT_MS = 15_000

/** A stream ends by itself after this long, give or take a tenth; the subscriber resumes. */
const STREAM_MS = 30 * 60_000

interface Dependencies {
  readonly pool: Pool
  readonly tail: Tail
  readonly clock: Clock
  /** Aborts when the service drains: streams end with a checkpoint. */
  readonly draining: AbortSignal
  readonly random: () => number
}

/**
 * Streams events in order from the place asked for. The first item is a checkpoint: it says that
 * the subscription stands, and where.
 *
 * @throws Fault invalid_cursor
 */
export async function* subscribe(
  { pool, tail, clock, draining, random }: Dependencies,
  request: SubscribeRequest,
  cancelled: AbortSignal,
): AsyncGenerator<SubscribeResponse> {
  const wants = filter(request)
  const epoch = await tail.epoch()
  const signal = AbortSignal.any([cancelled, draining])
  const endsMs = clock.now() + STREAM_MS * (0.9 + 0.2 * random())
  let position = await startOf(pool, request)
  let checkpointMs = clock.now() + CHECKPOINT_MS
  yield toCheckpointItem(position, epoch)
  while (!signal.aborted && clock.now() < endsMs) {
    const entries = await tail.read(position)
    for (const entry of entries) {
      position = entry.position
      if (wants(entry.kind, entry.businessId)) {
        yield entry.item
        if (signal.aborted) break
      }
    }
    if (clock.now() >= checkpointMs) {
      yield toCheckpointItem(position, epoch)
      checkpointMs = clock.now() + CHECKPOINT_MS
    }
    if (entries.length === 0) await tail.wait(position, checkpointMs - clock.now(), signal)
  }
  if (!cancelled.aborted) yield toCheckpointItem(position, epoch)
}

function filter(request: SubscribeRequest): (kind: string, businessId: string) => boolean {
  const kinds = new Set(request.kinds)
  const businesses = new Set(request.businessIds)
  if (kinds.size === 0 && businesses.size === 0) return () => true
  return (kind, businessId) =>
    (kinds.size === 0 || kinds.has(kind)) && (businesses.size === 0 || businesses.has(businessId))
}

/** The position after which the stream starts. */
async function startOf(pool: Pool, { start }: SubscribeRequest): Promise<bigint> {
  switch (start.case) {
    case 'cursor':
      return decodeCursor(start.value).position
    case 'beginning':
      return 0n
    case 'since':
      return readPositionBefore(pool, timestampMs(start.value))
    default:
      return readEnd(pool)
  }
}
