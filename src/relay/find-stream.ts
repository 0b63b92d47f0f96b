import type { Pool } from 'pg'
import { Fault } from '../core/errors.ts'
import { decodeCursor, encodeCursor } from '../events/cursor.ts'
import { type LogState, placeOf, readLogState } from '../events/log-state.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type EventSink, type MirrorStream, SinkConflict } from './event-sink.ts'

/**
 * Returns the stream to publish to, and the log's state. The last message of the stream is compared with the
 * log as a cursor of a subscriber is. A new stream begins with each epoch of the log, where messages
 * at the end of the stream are missing, and where the log has deleted what the stream lacks.
 *
 * @throws Error if the stream contradicts the log: an operator must decide. SinkConflict if another
 * instance began a stream meanwhile. Fault unavailable: the database has just failed over
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
  // A stream that is replaced takes no more events, so its end is final, for every instance.
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

/** The position after which the log has what the stream lacks. */
async function placeAfter(pool: Pool, stream: MirrorStream, state: LogState): Promise<bigint> {
  const { name, epoch, last } = stream
  // Of a stream whose messages have all expired, only the position is known.
  const cursor = last?.cursor ?? encodeCursor({ epoch, position: stream.end, tag: '' })
  try {
    const { position } = await placeOf(pool, cursor, state)
    if (position === (last?.position ?? stream.end)) return position
    throw new Fault('stale_cursor', `the stream ${name} has position ${position} at another place`)
  } catch (error) {
    if (!(error instanceof Fault) || error.reason === 'unavailable') throw error
    // Within an epoch the log only grows. Two installations would otherwise replace each other's streams
    // for ever.
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
