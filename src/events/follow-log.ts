import type { PoolClient } from 'pg'
import type { Logger } from 'pino'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type LogState, readLogState } from './log-state.ts'

/** A follower keeps something up to date from the event log, with a position of its own. */
export interface LogFollower {
  /** Identifies its rows in `log_follower`, and it in the log and the metrics. */
  readonly name: 'figures' | 'settlement' | 'payouts'
  /** Locks what it writes until the commit. @returns false: another instance follows */
  lock(client: PoolClient): Promise<boolean>
  /**
   * Takes in the events after a position, up to another one. Its statements are named, so that their plans are kept.
   *
   * @returns how many there are; fewer than positions if retention deleted some
   */
  take(client: PoolClient, after: bigint, upTo: bigint): Promise<bigint>
  /** Called before the commit when it may lack events: some were deleted or set aside, or an epoch began. */
  onGap?(client: PoolClient): Promise<void>
}

/** How far a follower has read, in which epoch, and how many events it could not take in. */
interface Place {
  readonly position: bigint
  readonly epoch: number
  readonly setAside: bigint
}

/** The most events of one transaction, and the most transactions of one call. */
const EVENTS_MAX = 2_000
const TURNS_MAX = 500

/**
 * Follows the event log up to its present end. The work and the position are written in one transaction, so
 * each event counts once, wherever an instance stops. An event that the database refuses is set aside: it costs
 * neither the others nor the next call.
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
      const outcome = await inTransaction(durablePool, (client) =>
        followNext(client, follower, { state, eventsMax, log: runtime.log }),
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
  await keepPlans(client)
  if (!(await follower.lock(client))) return 'busy'
  // Read after the lock was taken, so it is what the last holder has committed.
  const from = await readPlace(client, follower)
  const { epoch, end } = state
  // Another instance was here since the state was read.
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
 * Continues after a failover or a restore. The position, and what the follower wrote, were lost or restored together
 * with the log, so both belong to the log as it is now.
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

/** Passes the event after a position, unless another instance has. */
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

/** Whether the database refuses what is written: SQLSTATE class 22, data, or 23, integrity. */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^2[23]...$/.test(String(error.code))
}

/**
 * Until the commit, PostgreSQL plans each statement once, and never as a scan of a table that was small then. Without
 * these settings, PostgreSQL plans a statement anew for each range of positions, or keeps a scan until it analyses the
 * table again.
 */
async function keepPlans(client: PoolClient): Promise<void> {
  await client.query({
    name: 'log-follower-plans',
    text: `select set_config('plan_cache_mode', 'force_generic_plan', true),
      set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`,
  })
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

/** How far a follower is behind the log. */
export interface FollowerLag {
  readonly name: LogFollower['name']
  /** How long ago the first event was logged that it has not read; 0 if there is none. */
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
