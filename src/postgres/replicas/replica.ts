import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError, type Pool, type PoolClient } from 'pg'
import { Fault } from '../../core/errors.ts'
import type { Queryable } from '../in-transaction.ts'
import {
  type PrimaryState,
  type ReplicaState,
  readReplica,
  replicaFault,
  selectReplica,
} from './server-state.ts'

/** A server that reads go to. */
export interface Replica {
  /** `host:port` */
  readonly name: string
  /** Why no read goes there; undefined: reads do. Once there is a fault, only a check removes it. */
  fault(): string | undefined
  /** How far the replica is behind the primary, as last checked. */
  lag(): Lag
  /**
   * Runs a read, if the replica has everything up to the primary's state.
   *
   * @returns undefined: it has not, or it failed, and the primary must run the read
   * @throws Fault of the read, which is its result
   */
  read<Result>(
    primary: PrimaryState,
    run: Run<Result>,
  ): Promise<{ readonly value: Result } | undefined>
  /** Finds out whether reads may go there. */
  check(primary: PrimaryState): Promise<void>
  close(): Promise<void>
}

export type Run<Result> = (on: Queryable) => Promise<Result>

interface Lag {
  readonly bytes: number
  /** Since when the replica reaches no position of the primary in time; 0: it does. */
  readonly seconds: number
}

interface Options {
  readonly name: string
  readonly pool: Pool
  /** SQL that selects the timeline that the primary was on when it last wrote it. */
  readonly loggedTimeline: string
  /** Called when reads begin to go there, or do not, and when the reason changes. */
  readonly onChange: (fault: string | undefined) => void
}

/** A replica that does not respond by then is not used. */
export const REPLICA_TIMEOUT_MS = 1_000

/** The waits for a replica that is behind: a healthy one is so for as long as a commit travels. */
const WAITS_MS = [1, 2, 4, 8, 16, 20]

export function createReplica({ name, pool, loggedTimeline, onChange }: Options): Replica {
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
  /** Begins a transaction that sees everything up to the primary's state. */
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
      // The check and the read have one connection, which may lead to any of several servers, and one
      // transaction, in which each statement sees at least what the one before it saw.
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
        // A server that refuses one statement, such as one in conflict with its recovery, may run the next.
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

/** Ends the transaction, for which no caller waits. If that fails, the connection is closed. */
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
