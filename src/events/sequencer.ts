import type { Pool } from 'pg'
import { Histogram } from 'prom-client'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert } from '../core/errors.ts'
import { createLogSampler } from '../core/log-sampler.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'

/** The most events that one tick numbers. */
export const ROWS_MAX = 5_000

/** A tick that takes longer delays every event: see the runbook of InflowSlowTicks. */
const SLOW_MS = 100

/** How long to wait for the tick of another instance. */
const BUSY_MS = 10

/** The result of a tick. */
interface Tick {
  readonly numbered: number
  readonly last_position: string
  /** Null: another instance ticks. */
  readonly more: boolean | null
  readonly began_epoch: number | null
}

/**
 * Assigns positions to committed events, without gaps and in an order in which no event precedes
 * its cause.
 *
 * Identity values are assigned before commit, so a reader that stores the highest value it has read
 * misses rows that commit later. A tick instead takes the rows that are visible in its snapshot and
 * were not visible in the previous one. Any instance may tick; an advisory lock lets one at a time.
 * Before it numbers anything, a tick notices a failover or a restore and begins an epoch. The SQL
 * function is `sequence_events`, in the migrations.
 *
 * @param onAdvance called after a tick that appended events to the log
 */
export function createSequencer(runtime: Runtime, onAdvance: (lastPosition: bigint) => void): Loop {
  const { log } = runtime
  const observe = watchTicks(runtime)
  return createLoop({
    name: 'sequencer',
    log,
    async turn() {
      const span = runtime.tracing?.start('sequence events')
      const startedMs = performance.now()
      const result = await runtime.database.recordingPool.query<Tick>({
        name: 'sequence-events',
        text: 'select numbered, last_position, more, began_epoch from sequence_events($1)',
        values: [ROWS_MAX],
      })
      const [row] = result.rows
      assert(row, 'sequence_events always returns a row')
      if (row.began_epoch !== null) {
        const { began_epoch: epoch, last_position: position } = row
        log.warn(
          { epoch, position },
          'the database failed over or was restored: a new epoch begins',
        )
      }
      observe(performance.now() - startedMs, row.numbered)
      if (row.numbered > 0) {
        span?.set({ 'inflow.events': row.numbered })
        span?.end()
      }
      if (row.numbered > 0 || row.began_epoch !== null) onAdvance(BigInt(row.last_position))
      if (row.more === null) return BUSY_MS
      return row.more ? 0 : undefined
    },
  })
}

/** @returns a function that records the duration of a tick in milliseconds and the number of events that it numbered */
function watchTicks({ log, metrics }: Runtime): (tookMs: number, numbered: number) => void {
  const durations =
    metrics &&
    new Histogram({
      name: 'inflow_sequencer_tick_duration_seconds',
      help: 'Duration of the ticks that give committed events their positions in the log.',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
      registers: [metrics],
    })
  const warn = createLogSampler({
    log,
    level: 'warn',
    text: 'slow tick of the sequencer',
    by: 'cause',
    linesMax: 1,
    totalMax: 1,
    windowMs: 60_000,
  })
  return (tookMs, numbered) => {
    durations?.observe(tookMs / 1_000)
    if (tookMs > SLOW_MS) warn('database', { took_ms: Math.round(tookMs), numbered })
  }
}

/**
 * Begins a new epoch at the end of the log, after a restore that the sequencer could not notice.
 * Events without a position get a position. Payments wait for at most two seconds.
 */
export async function bumpEpoch(pool: Pool, actor: Actor): Promise<{ readonly epoch: number }> {
  return inTransaction(pool, async (client) => {
    const sql = 'select new_epoch from bump_event_epoch()'
    const { rows } = await client.query<{ new_epoch: number }>(sql)
    const [row] = rows
    assert(row, 'bump_event_epoch always returns a row')
    // In the same commit, so that no reader sees events without a position.
    await client.query('select from sequence_events($1)', [ROWS_MAX])
    const targetId = `${row.new_epoch}`
    await appendAudit(client, actor, { action: 'epoch.bump', targetId })
    return { epoch: row.new_epoch }
  })
}
