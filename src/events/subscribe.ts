import type { ServiceImpl } from '@connectrpc/connect'
import type { Pool } from 'pg'
import type {
  EventService,
  SubscribeRequest,
  SubscribeResponse,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import {
  actorOf,
  type CredentialStatus,
  credentialStatusKey,
  restrictionOf,
} from '../auth/caller.ts'
import { watchCredential } from '../auth/method-policy.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { fromTimestamp, isLive } from '../protobuf/values.ts'
import type { Cursor } from './cursor.ts'
import { findEvent } from './find-event.ts'
import { type LogState, placeOf, readLogState } from './log-state.ts'
import { kindFaults, toCheckpointItem, toEventMessage } from './message.ts'
import { readAllEvents, readBusinessLog, readPositionBefore, readPositions } from './read-log.ts'
import { bumpEpoch } from './sequencer.ts'
import type { Tail } from './tail.ts'
import type { TailEntry } from './tail-window.ts'

/** How often a stream sends checkpoints, and how long it lasts. */
export const STREAM_TIMING = {
  /** The interval between checkpoints. */
  checkpointMs: 15_000,
  /** The duration of a stream, varied by up to a tenth; the subscriber then resumes. */
  streamMs: 30 * 60_000,
}

export type StreamTiming = Readonly<typeof STREAM_TIMING>

interface Dependencies {
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
 * @throws Fault validation_failed (a kind that does not exist), unauthorized (the credential was revoked or has
 * expired); invalid_cursor, stale_cursor, expired_cursor: see `placeOf`. The last two also end a running stream:
 * stale_cursor if events that it was sent are lost in a failover, expired_cursor if the subscriber is so slow that
 * retention deletes its next events
 */
export async function* subscribe(
  { database }: Runtime,
  { tail, draining, random, timing }: Dependencies,
  request: SubscribeRequest,
  cancelled: AbortSignal,
  credential: CredentialStatus,
): AsyncGenerator<SubscribeResponse> {
  const faults = kindFaults(request.kinds)
  if (faults.length > 0) throw invalidFields(faults)
  const matches = createFilter(request)
  const { durablePool } = database
  const state = await readLogState(durablePool)
  const watch = watchCredential(credential, cancelled)
  try {
    const signal = AbortSignal.any([cancelled, draining, watch.revoked])
    const endsMs = performance.now() + timing.streamMs * (0.9 + 0.2 * random())
    let place = await startPlace(durablePool, request, state)
    let checkpointMs = performance.now() + timing.checkpointMs
    yield toCheckpointItem(place)
    while (!signal.aborted && performance.now() < endsMs) {
      const { epoch, entries } = await tail.read(place)
      place = { ...place, epoch }
      for (const entry of entries) {
        if (signal.aborted) break
        place = { epoch, position: entry.position, tag: entry.tag }
        if (matches(entry)) yield entry.item
      }
      if (signal.aborted) break
      if (performance.now() >= checkpointMs) {
        yield toCheckpointItem(place)
        checkpointMs = performance.now() + timing.checkpointMs
      }
      if (entries.length === 0) {
        const untilMs = Math.min(checkpointMs, endsMs)
        await tail.wait(place.position, Math.max(untilMs - performance.now(), 0), signal)
      }
    }
    watch.revoked.throwIfAborted()
    if (!cancelled.aborted) yield toCheckpointItem(place)
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

/** The place before the first event of the stream. */
async function startPlace(
  pool: Pool,
  { start }: SubscribeRequest,
  state: LogState,
): Promise<Cursor> {
  const { epoch, end, floor } = state
  switch (start.case) {
    case 'cursor':
      return placeOf(pool, start.value, state)
    case 'beginning':
      return { epoch, position: floor, tag: '' }
    case 'since': {
      const sinceMs = fromTimestamp(start.value)
      const position = await readPositionBefore(pool, sinceMs, floor, end.position)
      return { epoch, position, tag: '' }
    }
    default:
      return end
  }
}

/** The default limit of ListEvents. */
const LIMIT_DEFAULT = 100

export function createEventRpc(
  runtime: Runtime,
  dependencies: Dependencies,
): ServiceImpl<typeof EventService> {
  return {
    subscribe: (request, { signal, values }) =>
      subscribe(runtime, dependencies, request, signal, values.get(credentialStatusKey)),
    async listEvents(request, { values }) {
      const { businessId, after, kinds, newestFirst, before } = request
      const faults = kindFaults(kinds)
      if (faults.length > 0) throw invalidFields(faults)
      const range = newestFirst ? { before } : { after }
      const limit = request.limit || LIMIT_DEFAULT
      const selected = { ...range, live: isLive(request), kinds, limit }
      const restriction = restrictionOf(values)
      return runtime.database.read(async (on) => {
        const { entries, ...page } =
          businessId === ''
            ? await readAllEvents(on, { ...selected, businessIds: restriction && [...restriction] })
            : await readBusinessLog(on, { ...selected, businessId })
        const { epoch } = await readLogState(on)
        return { events: entries.map((entry) => toEventMessage(entry, epoch)), epoch, ...page }
      })
    },
    getEvent: ({ eventId }) =>
      runtime.database.read(async (on) => {
        const found = await findEvent(on, eventId)
        const [entry] = found ? await readPositions(on, [found.position]) : []
        if (entry === undefined)
          throw new Fault('not_found', 'There is no such event, or it has expired')
        const { epoch } = await readLogState(on)
        return { event: toEventMessage(entry, epoch) }
      }),
    bumpEpoch: (_request, context) => bumpEpoch(runtime.database.durablePool, actorOf(context)),
  }
}
