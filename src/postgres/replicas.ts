import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError, type Pool, type PoolClient } from 'pg'
import type { Logger } from 'pino'
import { withTimeout } from '../core/concurrency.ts'
import { Fault } from '../core/errors.ts'
import { createLoop } from '../core/loop.ts'
import { createBatcher } from './batcher.ts'
import { DEADLINES } from './client.ts'
import type { Queryable } from './in-transaction.ts'
import { isRetryable } from './is-retryable.ts'
import {
  type PrimaryState,
  REPLICA_TIMEOUT_MS,
  type ReplicaState,
  readPrimary,
  readReplica,
  replicaFault,
  selectReplica,
} from './server-state.ts'

/**
 * Runs a read: on a replica that has every commit that was acknowledged or visible before the call, or on the primary. So
 * a caller finds every row that any instance has reported in any way. The read may run twice.
 *
 * The replica must have replayed the primary's log up to its position after the call arrived. A position that this instance
 * remembers is not enough, because another instance may have sent a webhook since then.
 */
export type Read = <Result>(run: Run<Result>) => Promise<Result>

interface Options {
  /** The pool of the primary. */
  readonly durablePool: Pool
  /** The pools of the replicas, by their names. */
  readonly pools: ReadonlyMap<string, Pool>
  /** SQL that selects the timeline that the primary last wrote into the database. */
  readonly loggedTimeline: string
  readonly log: Logger
  /** Called for each read with the name of the replica, or `primary`. */
  readonly onRead: (target: string) => void
}

/** How often the replicas are checked. */
const CHECK_MS = 1_000

/** The most concurrent reads of the primary's state: a second read can start while the first is in progress. */
const STATES_MAX = 2

const QUEUE_MAX = 20_000

/** Distributes reads over the replicas. */
export function createReplicas({ durablePool, pools, loggedTimeline, log, onRead }: Options) {
  const all = [...pools].map(([name, replicaPool]) => {
    const onChange = (fault: string | undefined): void => {
      if (fault === undefined) log.info({ replica: name }, 'reads go to the replica')
      else log.warn({ replica: name, fault }, 'reads go to the primary instead of the replica')
    }
    return createReplica({ name, pool: replicaPool, loggedTimeline, onChange })
  })
  const primaryState = createReadState(durablePool)
  let turn = 0
  /** Chooses a usable replica by round robin. */
  const next = (): Replica | undefined => {
    const usable = all.filter((replica) => replica.fault() === undefined)
    turn += 1
    return usable[turn % usable.length]
  }
  const loop = createLoop({
    name: 'replicas',
    log,
    everyMs: CHECK_MS,
    async turn() {
      const state = await readPrimary(durablePool, REPLICA_TIMEOUT_MS)
      await Promise.all(all.map((replica) => replica.check(state)))
      return undefined
    },
  })
  const read: Read = async (run) => {
    const replica = next()
    const state = replica && (await primaryState())
    const result = state && (await replica?.read(state, run))
    onRead(replica !== undefined && result !== undefined ? replica.name : 'primary')
    return result === undefined ? run(durablePool) : result.value
  }
  return {
    all,
    read,
    /** Starts to check and use the replicas. */
    start: () => loop.start(),
    async stop() {
      await loop.stop()
      // A server that does not respond must not delay the stop.
      await withTimeout(Promise.all(all.map((replica) => replica.close())), REPLICA_TIMEOUT_MS)
    },
  }
}

/**
 * Reads the state of the primary after the call; calls that arrive during a read share the next one.
 *
 * @returns undefined if the server is not a primary
 */
function createReadState(pool: Pool): () => Promise<PrimaryState | undefined> {
  const read = createBatcher<undefined, PrimaryState>({
    async run(calls) {
      const state = await readPrimary(pool, DEADLINES.hot)
      return calls.map(() => state)
    },
    itemsMax: QUEUE_MAX,
    batchesMax: STATES_MAX,
    queueMax: QUEUE_MAX,
  })
  return () =>
    read(undefined).catch((error: unknown) => {
      // An unavailable primary could not run the read either.
      if (isRetryable(error) || error instanceof Fault) throw error
      return undefined
    })
}

/** A replica that runs reads. */
export interface Replica {
  /** `host:port` */
  readonly name: string
  /** Why the replica gets no reads; undefined: it gets reads. Only a check clears a fault. */
  fault(): string | undefined
  /** How far the replica was behind the primary at the last check. */
  lag(): Lag
  /**
   * Runs a read if the replica has replayed everything up to the primary's state.
   *
   * @returns undefined if it has not or failed, so that the primary must run the read
   * @throws Fault that the read itself throws
   */
  read<Result>(
    primary: PrimaryState,
    run: Run<Result>,
  ): Promise<{ readonly value: Result } | undefined>
  /** Checks whether the replica can get reads. */
  check(primary: PrimaryState): Promise<void>
  close(): Promise<void>
}

type Run<Result> = (on: Queryable) => Promise<Result>

interface Lag {
  readonly bytes: number
  /** For how long the replica has not reached positions of the primary in time; 0: it does. */
  readonly seconds: number
}

interface ReplicaOptions {
  readonly name: string
  readonly pool: Pool
  /** SQL that selects the timeline that the primary last wrote into the database. */
  readonly loggedTimeline: string
  /** Called when the replica starts or stops getting reads, and when the reason changes. */
  readonly onChange: (fault: string | undefined) => void
}

/** The waits for a replica that is behind: a healthy replica lags by the time that a commit takes to arrive. */
const WAITS_MS = [1, 2, 4, 8, 16, 20]

export function createReplica({ name, pool, loggedTimeline, onChange }: ReplicaOptions): Replica {
  const select = selectReplica(loggedTimeline)
  let fault: string | undefined = 'it is not checked yet'
  let bytes = 0
  let seconds = 0
  let behindSinceMs: number | undefined

  const setFault = (next: string | undefined): void => {
    if (next === fault) return
    fault = next
    onChange(next)
  }
  /** Begins a transaction on a replica that has everything up to the primary's state. */
  const enter = async (client: PoolClient, primary: PrimaryState): Promise<void> => {
    let state = await readReplica(client, `begin read only; ${select}`, REPLICA_TIMEOUT_MS)
    for (const waitMs of WAITS_MS) {
      if (!isBehind(state, primary)) break
      await sleep(waitMs)
      state = await readReplica(client, select, REPLICA_TIMEOUT_MS)
    }
    const found = replicaFault(state, primary)
    if (found !== undefined) throw new Error(found)
    if (isBehind(state, primary)) throw new Behind(primary.bytes - (state.bytes ?? 0n))
  }
  const attempt = async <Result>(primary: PrimaryState, run: Run<Result>): Promise<Result> => {
    const client = await pool.connect()
    try {
      // The check and the read share a connection, because other connections may lead to other servers, and a transaction,
      // in which each statement sees at least as much as the previous one.
      await enter(client, primary)
      return await run(client)
    } finally {
      void leave(client)
    }
  }
  return {
    name,
    fault: () => fault,
    lag: () => ({ bytes, seconds }),
    async read(primary, run) {
      try {
        return { value: await attempt(primary, run) }
      } catch (error) {
        if (error instanceof Fault) throw error
        // An error of one statement, for example a conflict with recovery, is no fault of the replica.
        if (!(error instanceof DatabaseError)) setFault(textOf(error))
        return undefined
      }
    },
    async check(primary) {
      const nowMs = performance.now()
      try {
        await attempt(primary, async () => undefined)
        behindSinceMs = undefined
        bytes = 0
        setFault(undefined)
      } catch (error) {
        behindSinceMs ??= nowMs
        if (error instanceof Behind) bytes = Number(error.bytes)
        setFault(textOf(error))
      }
      seconds = behindSinceMs === undefined ? 0 : (performance.now() - behindSinceMs) / 1_000
    },
    close: () => pool.end(),
  }
}

class Behind extends Error {
  readonly bytes: bigint

  constructor(bytes: bigint) {
    super('it is behind the primary')
    this.bytes = bytes
  }
}

function isBehind({ isStandby, bytes }: ReplicaState, primary: PrimaryState): boolean {
  return isStandby && bytes !== null && bytes < primary.bytes
}

/** Ends the transaction after the caller has its result. If that fails, the connection is closed. */
async function leave(client: PoolClient): Promise<void> {
  try {
    await client.query('rollback')
    client.release()
  } catch {
    client.release(true)
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
