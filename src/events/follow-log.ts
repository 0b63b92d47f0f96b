import type { PoolClient } from 'pg'
import type { Logger } from 'pino'
import { inTransaction, KEEPING_PLANS, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type LogState, readLogState } from './log-state.ts'

/** A follower keeps derived rows up to date with the event log. Each follower has a position of its own. */
export interface LogFollower {
  /** Identifies its rows in `log_follower`, and the follower in log lines and metrics. */
  readonly name: 'figures' | 'settlement' | 'payouts'
  /** Locks the rows that the follower writes until the commit. @returns false: another instance follows */
  lock(client: PoolClient): Promise<boolean>
  /**
   * Processes the events after `after`, up to `upTo`. The statements are prepared, so that their plans are kept.
   *
   * @returns the number of events; fewer than positions if retention deleted some
   */
  take(client: PoolClient, after: bigint, upTo: bigint): Promise<bigint>
  /** Called before the commit when the follower may lack events: some were deleted or set aside, or an epoch began. */
  onGap?(client: PoolClient): Promise<void>
}

/** The position and epoch up to which a follower has read, and how many events it has set aside. */
interface Place {
  readonly position: bigint
  readonly epoch: number
  readonly setAside: bigint
}

/** The most events of one transaction, and the most transactions of one call. */
const EVENTS_MAX = 2_000
const TURNS_MAX = 500

/**
 * Follows the event log up to its present end. The work and the position are written in one transaction, so each event
 * counts once, wherever an instance stops. An event that the database refuses is set aside, so that it fails neither the
 * other events nor the next call.
 *
 * @returns whether it reached the end; false also while another instance follows
 */
export async function followLog(
  runtime: Runtime,
  follower: LogFollower,
  signal?: AbortSignal,
): Promise<boolean> {
  const { durablePool } = runtime.database
  let eventsMax = EVENTS_MAX
  for (let turn = 0; turn < TURNS_MAX && !signal?.aborted; turn++) {
    const [state, { position, epoch }] = await Promise.all([
      readLogState(durablePool),
      readPlace(durablePool, follower),
    ])
    if (epoch === state.epoch && position >= state.end.position) return true
    try {
      const outcome = await inTransaction(
        durablePool,
        (client) => followNext(client, follower, { state, eventsMax, log: runtime.log }),
        KEEPING_PLANS,
      )
      if (outcome !== 'more') return outcome === 'end'
      eventsMax = Math.min(2 * eventsMax, EVENTS_MAX)
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (eventsMax === 1) await setAside(runtime, follower, position, error)
      else eventsMax = Math.ceil(eventsMax / 2)
    }
  }
  return false
}

interface Turn {
  readonly state: LogState
  readonly eventsMax: number
  readonly log: Logger
}

async function followNext(
  client: PoolClient,
  follower: LogFollower,
  { state, eventsMax, log }: Turn,
): Promise<'more' | 'end' | 'busy'> {
  if (!(await follower.lock(client))) return 'busy'
  // Read after the lock was taken, so the place is the last that was committed.
  const from = await readPlace(client, follower)
  const { epoch, end } = state
  // Another instance has followed the log since the state was read.
  if (from.epoch > epoch) return 'more'
  if (from.epoch < epoch) {
    await enterEpoch(client, follower, from, { state, eventsMax, log })
    return 'more'
  }
  const size = BigInt(eventsMax)
  const after = from.position
  const isFull = end.position - after > size
  const upTo = isFull ? after + size : end.position
  if (upTo <= after) return 'end'
  const events = await follower.take(client, after, upTo)
  // A long gap is passed at once.
  const position = events === 0n ? ((await nextPosition(client, upTo)) ?? upTo + 1n) - 1n : upTo
  const missing = position - after - events
  if (missing > 0n) {
    log.warn(
      { follower: follower.name, after, missing },
      'events were deleted before a follower of the log read them',
    )
    await follower.onGap?.(client)
  }
  await move(client, follower, from, { ...from, position })
  return isFull ? 'more' : 'end'
}

/**
 * Continues after a failover or a restore. The position and the rows of the follower were lost or restored together with
 * the log, so they match the present log.
 */
async function enterEpoch(
  client: PoolClient,
  follower: LogFollower,
  from: Place,
  { state: { epoch, end }, log }: Turn,
): Promise<void> {
  const position = from.position < end.position ? from.position : end.position
  if (position < from.position) {
    const lost = from.position - position
    log.warn({ follower: follower.name, lost }, 'a follower of the log read events that are lost')
  }
  await move(client, follower, from, { ...from, position, epoch })
  await follower.onGap?.(client)
}

/** Sets aside the event after a position, unless another instance has passed it. */
async function setAside(
  { database: { durablePool }, log }: Runtime,
  follower: LogFollower,
  after: bigint,
  error: unknown,
): Promise<void> {
  await inTransaction(durablePool, async (client) => {
    if (!(await follower.lock(client))) return
    const from = await readPlace(client, follower)
    if (from.position !== after) return
    const position = after + 1n
    await move(client, follower, from, { ...from, position, setAside: from.setAside + 1n })
    await follower.onGap?.(client)
    log.error(
      { follower: follower.name, position, err: error },
      'event set aside: the follower of the log continues without it',
    )
  })
}

/** Whether the database refused the written rows: SQLSTATE class 22 (data) or 23 (integrity). */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^2[23]...$/.test(String(error.code))
}

export async function readPlace(
  client: Queryable,
  { name }: Pick<LogFollower, 'name'>,
): Promise<Place> {
  const { rows } = await client.query<{ position: string; epoch: number; set_aside: string }>({
    name: 'log-follower',
    text: `select position, epoch, set_aside from log_follower where name = $1
      order by position desc limit 1`,
    values: [name],
  })
  const row = rows[0]
  if (row === undefined)
    throw new Error('the rows of the followers, which migrations insert, are missing')
  return {
    position: BigInt(row.position),
    epoch: row.epoch,
    setAside: BigInt(row.set_aside),
  }
}

async function nextPosition(client: Queryable, after: bigint): Promise<bigint | undefined> {
  const { rows } = await client.query<{ position: string }>({
    name: 'log-follower-next',
    text: 'select position from event_log where position > $1 order by position limit 1',
    values: [after],
  })
  return rows[0] && BigInt(rows[0].position)
}

async function move(
  client: PoolClient,
  { name }: LogFollower,
  from: Place,
  to: Place,
): Promise<void> {
  await client.query({
    name: 'log-follower-leave',
    text: 'delete from log_follower where name = $1 and position = $2',
    values: [name, from.position],
  })
  await client.query({
    name: 'log-follower-move',
    text: 'insert into log_follower (name, position, epoch, set_aside) values ($1, $2, $3, $4)',
    values: [name, to.position, to.epoch, to.setAside],
  })
}

/** The lag of a follower behind the log. */
export interface FollowerLag {
  readonly name: LogFollower['name']
  /** The age of the first logged event that the follower has not read; 0 if there is none. */
  readonly seconds: number
  readonly setAside: number
}

export async function readFollowerLags(client: Queryable): Promise<readonly FollowerLag[]> {
  const { rows } = await client.query<FollowerLag>({
    name: 'log-follower-lags',
    text: `select f.name, f.set_aside::float8 as "setAside",
        greatest(0, extract(epoch from clock_timestamp() - l.logged_at))::float8 as seconds
      from (values ('figures'), ('settlement'), ('payouts')) k(name)
      cross join lateral (select * from log_follower where name = k.name
        order by position desc limit 1) f
      left join lateral (select logged_at from event_log where position > f.position
        order by position limit 1) l on true`,
  })
  return rows
}
