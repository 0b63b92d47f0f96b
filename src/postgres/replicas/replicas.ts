import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { Fault } from '../../core/errors.ts'
import { createLoop } from '../../core/loop.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import { createBatcher } from '../batcher.ts'
import { DEADLINES } from '../client.ts'
import { isRetryable } from '../is-retryable.ts'
import { createReplica, REPLICA_TIMEOUT_MS, type Replica, type Run } from './replica.ts'
import { type PrimaryState, readPrimary } from './server-state.ts'

/**
 * Runs a read that changes nothing: on a replica that has every commit that was acknowledged or visible
 * before the call, or on the primary. So what was reported, in whatever way and by whichever
 * instance, is found. The read may run twice.
 *
 * The bound is the position of the primary's log, read after the call arrived. A position that this instance remembers
 * would not do: another instance may have sent a webhook meanwhile.
 */
export type Read = <Result>(run: Run<Result>) => Promise<Result>

/** Where reads go. */
export interface Replicas {
  readonly read: Read
  readonly all: readonly Replica[]
  /** Begins to use the replicas. */
  start(): void
  stop(): Promise<void>
}

interface Options {
  /** Of the primary. */
  readonly durablePool: Pool
  /** The replicas' pools, by their names. */
  readonly pools: ReadonlyMap<string, Pool>
  /** SQL that selects the timeline that the primary was on when it last wrote it. */
  readonly loggedTimeline: string
  readonly log: Logger
  /** Called for each read with the name of the replica, or `primary`. */
  readonly onRead: (target: string) => void
}

/** How often the replicas are checked. */
const CHECK_MS = 1_000

/** Reads of the primary's state at once: the second one begins while the first travels. */
const STATES_MAX = 2

const QUEUE_MAX = 20_000

export function createReplicas({
  durablePool,
  pools,
  loggedTimeline,
  log,
  onRead,
}: Options): Replicas {
  const all = [...pools].map(([name, replicaPool]) => {
    const onChange = (fault: string | undefined): void => {
      if (fault === undefined) log.info({ replica: name }, 'reads go to the replica')
      else log.warn({ replica: name, fault }, 'reads go to the primary instead of the replica')
    }
    return createReplica({ name, pool: replicaPool, loggedTimeline, onChange })
  })
  const primaryState = createReadState(durablePool)
  let turn = 0
  /** The replicas take turns. */
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
  return {
    all,
    async read(run) {
      const replica = next()
      const state = replica && (await primaryState())
      const result = state && (await replica?.read(state, run))
      onRead(replica !== undefined && result !== undefined ? replica.name : 'primary')
      return result === undefined ? run(durablePool) : result.value
    },
    start: () => loop.start(),
    async stop() {
      await loop.stop()
      // A server that does not respond does not hold up the stop.
      await withTimeout(Promise.all(all.map((replica) => replica.close())), REPLICA_TIMEOUT_MS)
    },
  }
}

/**
 * Reads the primary's state as it is after the call; calls that arrive meanwhile share the next read.
 *
 * @returns undefined: the server is no primary
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
      // A server that is unavailable would not run the read either.
      if (isRetryable(error) || error instanceof Fault) throw error
      return undefined
    })
}
