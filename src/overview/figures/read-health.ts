import { readLag } from '../../events/lag.ts'
import { readLogState } from '../../events/log-state.ts'
import type { Database } from '../../postgres/orm.ts'
import { listStandbys, readServerVersion, type Standby } from '../../postgres/replicas/standbys.ts'
import { dispatchedUpTo } from '../../webhooks/deliveries/backlog.ts'
import { countUncounted } from './figures-job.ts'

/** The health of this instance and its database. */
export interface Health {
  /** Why the instance cannot serve calls; empty: it can. */
  readonly notReady: readonly string[]
  readonly databaseLatencyMs: number
  readonly postgresVersion: string
  readonly standbys: readonly Standby[]
  readonly sequencerLagMs: number
  readonly uncountedEvents: bigint
  readonly undispatchedEvents: bigint
}

const STANDBYS_MAX = 20

/** @param ready says why the instance cannot serve calls */
export async function readHealth(
  { pool }: Database,
  ready: () => Promise<readonly string[]>,
): Promise<Health> {
  const server = await readServerVersion(pool)
  const [notReady, standbys, lag, { end }, dispatched, uncountedEvents] = await Promise.all([
    ready(),
    listStandbys(pool, STANDBYS_MAX),
    readLag(pool),
    readLogState(pool),
    dispatchedUpTo(pool),
    countUncounted(pool),
  ])
  return {
    notReady,
    databaseLatencyMs: Math.ceil(server.latencyMs),
    postgresVersion: server.version,
    standbys,
    sequencerLagMs: Math.max(0, Math.round((lag?.seconds ?? 0) * 1000)),
    uncountedEvents,
    undispatchedEvents: end.position > dispatched ? end.position - dispatched : 0n,
  }
}
