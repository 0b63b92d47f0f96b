import pg from 'pg'
import { newId } from '../../src/core/ids.ts'
import { cutPartition } from '../../src/postgres/partitions/partitions.ts'
import { detailNotes, type Sample, toFigure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark } from './benchmark.ts'
import { type ChildProcess, startChildProcess, startLoad } from './child-process.ts'
import { loadContender } from './load/load-contender.ts'
import type { PacedLoadOptions } from './load/paced-load.ts'
import type { RetentionLoadOptions, RetentionLoadResult } from './load/retention-load.ts'
import { SEEDED_BUSINESS, seedAccounts } from './seed.ts'
import { startServiceProcess } from './service-process.ts'

const EVENTS = Number(process.env['RETENTION_EVENTS'] ?? 2_000_000)
const EVENTS_QUICK = 200_000
const PAYMENTS_PER_SECOND = 500

/** As the service's, when a day has this many or fewer. */
const PARTITION_EVENTS = 100_000

/** The retention is through by then. */
const WINDOWS_MAX = 500
const LIMIT_MS = 3_600_000

/** Payments while expired events are archived and dropped, against the same without. */
export const retention: Benchmark = {
  name: 'retention',
  slow: true,
  async measure(bench) {
    const events = bench.quick ? EVENTS_QUICK : EVENTS
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    await seedPayments(databaseUrl, events)
    await bench.checkpoint()
    const service = await startServiceProcess(bench, databaseUrl)
    const load = await startLoad(bench, 'load/paced-load.ts', {
      address: service.grpcAddress,
      token: service.adminToken,
      paymentsPerSecond: PAYMENTS_PER_SECOND,
    } satisfies PacedLoadOptions)
    const job = await startChildProcess<undefined, null, RetentionLoadResult>(
      bench,
      'load/retention-load.ts',
      { databaseUrl, events } satisfies RetentionLoadOptions,
    )
    const payments = loadContender(bench, { name: 'payments', load, server: service.pid })
    const window = async (): Promise<Sample> => {
      const { details = {} } = await payments.measure(bench.seconds)
      const { 'p99 ms': value = Number.NaN, ...rest } = details
      return { value, details: rest }
    }
    await window()
    const without: Sample[] = []
    for (let round = 0; round < bench.rounds; round++) without.push(await window())
    const { during, result, seconds } = await whileExpiring(bench, job, window)
    const yardstick = toFigure({ name: 'without' }, without)
    const count = events.toLocaleString('en')
    return [
      {
        name: 'retention',
        what: `p99 of ${PAYMENTS_PER_SECOND} payments/s while ${count} events expire`,
        unit: ' ms',
        ours: toFigure({ name: 'meanwhile' }, during),
        yardstick,
        target: { atMost: 2 * yardstick.median },
        notes: [
          `${result.archived.toLocaleString('en')} archived, ${result.dropped} partitions dropped in ${seconds.toFixed(0)} s`,
          ...detailNotes(yardstick, toFigure({ name: 'meanwhile' }, during)),
        ],
      },
    ]
  },
}

/** Adds numbered events of payments, in partitions. */
async function seedPayments(databaseUrl: string, count: number): Promise<void> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 })
  try {
    for (let last = PARTITION_EVENTS; last <= count; last += PARTITION_EVENTS) {
      const cut = { boundary: `${last + 1}`, suffix: `${last - PARTITION_EVENTS}` }
      await cutPartition(pool, 'outbox', cut)
      await cutPartition(pool, 'event_log', cut)
      await pool.query(`insert into outbox
          (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
        select 'evt_01' || lpad(n::text, 24, '0'), '${SEEDED_BUSINESS}', true, 'PAYMENT_NOTIFICATION', now(),
          decode(repeat(md5(n::text), 16), 'hex'), 'txn_01' || lpad(n::text, 24, '0'), 150050
        from generate_series(${last - PARTITION_EVENTS + 1}, ${last}) n order by n`)
      await pool.query('select sequence_events(2000000000)')
    }
    await finishPayments(pool)
    await pool.query('vacuum analyze')
  } finally {
    await pool.end()
  }
}

/** The events are read by all who follow the log, and their payments are settled. */
async function finishPayments(pool: pg.Pool): Promise<void> {
  await pool.query('insert into webhook_dispatcher select position from sequencer')
  await pool.query('update log_follower set position = (select position from sequencer)')
  await pool.query(
    `insert into settlement (id, business_id, live, status, forced, cut_off_at, from_sequence,
        to_sequence, scanned_sequence, fee_flat_minor, fee_basis_points, fee_cap_minor,
        transaction_count, gross_minor, fees_minor, balance_pending_minor, balance_available_minor,
        balance_fees_minor, started_at, completed_at)
      select $1, business_id, live, 'COMPLETED', false, now(), 0, last_sequence, last_sequence, 0, 0, 0,
        last_sequence, pending_minor, 0, 0, pending_minor, 0, now(), now()
      from event_business_counter order by last_sequence desc limit 1`,
    [newId('set', Date.now())],
  )
}

/** Measures one window after the other until the retention is through. */
async function whileExpiring(
  bench: Bench,
  job: ChildProcess<undefined, null, RetentionLoadResult>,
  window: () => Promise<Sample>,
): Promise<{ during: Sample[]; result: RetentionLoadResult; seconds: number }> {
  const started = performance.now()
  let seconds = 0
  const running = job.run(null, LIMIT_MS).finally(() => {
    seconds = (performance.now() - started) / 1_000
  })
  // A failure is thrown where it is awaited, after the windows.
  running.catch(() => undefined)
  const during: Sample[] = []
  while (seconds === 0 && during.length < WINDOWS_MAX) {
    during.push(await window())
    bench.log(`  p99 ${during.at(-1)?.value.toFixed(1)} ms`)
  }
  const result = await running
  // It ended within the last window, which is dropped unless it is the only one.
  return { during: during.length > 1 ? during.slice(0, -1) : during, result, seconds }
}
