import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { newId } from '../../src/core/ids.ts'
import { createRetention } from '../../src/events/retention.ts'
import { cutPartition, LOCKED_MS } from '../../src/postgres/partitions/partitions.ts'
import { createTestRuntime } from '../support/runtime.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { trackCosts } from './load.ts'
import { pay, startPayments } from './payments.ts'
import { type Benchmark, percentile, type Row, type Sample, toFigure } from './rounds.ts'
import {
  ACCOUNT_NUMBERS,
  SEEDED_BUSINESS,
  seedAccounts,
  seedLedger,
  seedTransactions,
} from './seed.ts'
import { adminClient, type Service, startService } from './service.ts'

const PER_SECOND = 500

/** A job is through by then. */
const WINDOWS_MAX = 500
const LIMIT_MS = 3_600_000

/** Payments during a settlement of their business, against the same without the settlement. */
export const settlement: Benchmark = async (bench) => {
  const transactions = bench.quick ? 100_000 : 1_000_000
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  // From here on all accounts, and so the payments of the load, belong to the business.
  await seedTransactions(databaseUrl, SEEDED_BUSINESS, transactions)
  await seedLedger(databaseUrl, SEEDED_BUSINESS)
  const names = ['while it runs', 'without the settlement'] as const
  const what = `${transactions.toLocaleString('en')} are settled`
  return measureBeside(bench, databaseUrl, what, names, (service) => {
    const client = adminClient(service, SettlementService)
    return {
      async run(): Promise<string> {
        const startedMs = performance.now()
        const request = { businessId: SEEDED_BUSINESS, requestId: 'bench', force: true }
        while (!(await client.settle(request)).completed);
        const seconds = (performance.now() - startedMs) / 1000
        const perSecond = Math.round(transactions / seconds).toLocaleString('en')
        return `settled in ${seconds.toFixed(0)} s: ${perSecond} a second`
      },
      async progress(): Promise<string> {
        const [last] = (await client.listSettlements({ pageSize: 1 })).settlements
        if (last === undefined) return '; not begun'
        const isDone = last.status === SettlementStatus.COMPLETED
        const count = last.transactionCount.toLocaleString('en')
        return `; ${count} settled, ${isDone ? 'done' : `${last.percentDone} %`}`
      },
    }
  })
}

/** Payments while expired events are archived and dropped, against the same without. */
export const retention: Benchmark = async (bench) => {
  const events = bench.quick ? 200_000 : Number(process.env['RETENTION_EVENTS'] ?? 2_000_000)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  await seedExpired(databaseUrl, events)
  const job = await startChild(bench, import.meta.filename, retentionJob, { databaseUrl, events })
  const what = `${events.toLocaleString('en')} events expire`
  return measureBeside(bench, databaseUrl, what, ['meanwhile', 'without'], () => ({
    async run(): Promise<string> {
      const startedMs = performance.now()
      const { archived, dropped } = await job.run(undefined, LIMIT_MS)
      const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0)
      return `${archived.toLocaleString('en')} archived, ${dropped} partitions dropped in ${seconds} s`
    },
    progress: async () => '',
  }))
}

interface Job {
  /** @returns a note on what it did */
  run(): Promise<string>
  progress(): Promise<string>
}

/** The p99 of payments at a constant rate in one window after the other until a job is through, and before it. */
async function measureBeside(
  bench: Bench,
  databaseUrl: string,
  what: string,
  [during, before]: readonly [string, string],
  openJob: (service: Service) => Job,
): Promise<readonly Row[]> {
  await bench.checkpoint()
  const service = await startService(bench, databaseUrl)
  const load = await startPayments(bench)
  const window = async (): Promise<Sample> => {
    const costs = trackCosts(bench, load.pid, service.pid)
    const options = {
      accountNumbers: ACCOUNT_NUMBERS,
      seconds: bench.seconds,
      perSecond: PER_SECOND,
    }
    const { responses } = await pay(load, { ...service, ...options })
    const details = { 'p50 ms': percentile(responses, 0.5), ...costs(PER_SECOND) }
    return { value: percentile(responses, 0.99), details }
  }
  await window()
  const without: Sample[] = []
  for (let round = 0; round < bench.rounds; round++) without.push(await window())
  const job = openJob(service)
  let running = true
  const note = job.run().finally(() => {
    running = false
  })
  // A failure is thrown where it is awaited, after the windows.
  note.catch(() => undefined)
  const samples: Sample[] = []
  while (running && samples.length < WINDOWS_MAX) {
    samples.push(await window())
    bench.log(`  p99 ${samples.at(-1)?.value.toFixed(1)} ms${await job.progress()}`)
  }
  const yardstick = toFigure(before, without)
  return [
    {
      notes: [await note],
      what: `p99 of ${PER_SECOND} payments/s while ${what}`,
      unit: ' ms',
      // The job ended within the last window, which is dropped unless it is the only one.
      ours: toFigure(during, samples.length > 1 ? samples.slice(0, -1) : samples),
      yardstick,
      target: { atMost: 2 * yardstick.median },
    },
  ]
}

const DAY_MS = 86_400_000
const RUNS_MAX = 60

/** Runs the retention as of two days later, again while partitions are in use. */
export async function retentionJob(options: { databaseUrl: string; events: number }) {
  const pool = new pg.Pool({ connectionString: options.databaseUrl, max: 2 })
  const { run } = createRetention(
    createTestRuntime({ durablePool: pool }, { clock: { now: () => Date.now() + 2 * DAY_MS } }),
    { retentionDays: 1, dispatchedUpTo: async () => BigInt(options.events) },
  )
  return {
    ready: undefined,
    async run(_: undefined) {
      const total = { archived: 0, dropped: 0 }
      for (let runs = 1; runs <= RUNS_MAX; runs++) {
        const { archived, dropped, inUse } = await run()
        total.archived += archived
        total.dropped += dropped.length
        if (!inUse) break
        await sleep(LOCKED_MS)
      }
      return total
    },
  }
}

/** As the service's, when a day has this many events or fewer. */
const PARTITION_EVENTS = 100_000

/** Adds numbered events of payments, in partitions. All who follow the log have read them; their payments are settled. */
async function seedExpired(databaseUrl: string, count: number): Promise<void> {
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
    await pool.query('vacuum analyze')
  } finally {
    await pool.end()
  }
}
