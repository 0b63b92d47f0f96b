import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { alternateRounds, type Contender, detailNotes, type Figure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark, Result } from './benchmark.ts'
import { startLoad } from './child-process.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import { loadContender } from './load/load-contender.ts'
import { inflowRest, type RestService } from './rest.ts'
import { SEEDED_BUSINESS, seedKey } from './seed.ts'
import { type GrowthSizes, growthAccounts, growthSessions, seedGrowth } from './seed-growth.ts'
import { startServiceProcess } from './service-process.ts'

const SMALL: GrowthSizes = {
  businesses: 20,
  accounts: 10_000,
  transactions: 10_000,
  deliveries: 3_000,
}

const LARGE: GrowthSizes = {
  businesses: 1_000,
  accounts: 100_000,
  transactions: Number(process.env['GROWTH_TRANSACTIONS'] ?? 3_000_000),
  years: Number(process.env['GROWTH_YEARS'] ?? 10),
  events: 2_000_000,
  deliveries: 1_000_000,
}

/** A tenth, which a quick run can seed in time. */
const LARGE_QUICK: GrowthSizes = {
  businesses: 1_000,
  accounts: 100_000,
  transactions: 300_000,
  deliveries: 100_000,
}

const QUICK_SECONDS = 8

/** The payments of some hours, which businesses look up as they hear of them. */
const NEWEST = 100_000

/** The service ends the seeded partitions when it starts, and reads them for it. */
const CUT_QUIET_MS = 3_000
const CUT_LIMIT_MS = 120_000

/** Payments and lookups on a full database, against those on a nearly empty one. */
export const growth: Benchmark = {
  name: 'growth',
  slow: true,
  async measure(bench) {
    const sizes = bench.seconds < QUICK_SECONDS ? LARGE_QUICK : LARGE
    const small = await open(bench, SMALL)
    const large = await open(bench, sizes)
    // Once, not before every round as elsewhere: after a checkpoint the first write to a page logs the
    // whole page, which costs more on many pages than with checkpoints minutes apart. Lookups come
    // first, as payments make the small database larger.
    await bench.checkpoint()
    const lookups = await alternateRounds(
      { small: await lookupContender(bench, small), large: await lookupContender(bench, large) },
      bench,
    )
    const newest = await alternateRounds(
      {
        small: await lookupContender(bench, small, NEWEST),
        large: await lookupContender(bench, large, NEWEST),
      },
      bench,
    )
    const payments = await alternateRounds(
      { small: await paymentContender(bench, small), large: await paymentContender(bench, large) },
      bench,
    )
    const at = `at ${sizes.transactions.toLocaleString('en')} transactions`
    return [
      toResult(`RecordPayment, 64 in flight, ${at}`, payments.large, payments.small),
      toResult(`REST getTransaction, 64 connections, ${at}`, lookups.large, lookups.small),
      toResult(
        `the same, of the newest ${NEWEST.toLocaleString('en')}`,
        newest.large,
        newest.small,
      ),
    ]
  },
}

function toResult(what: string, ours: Figure, yardstick: Figure): Result {
  return {
    name: 'growth',
    what,
    unit: '/s',
    ours,
    yardstick,
    target: { atLeastTimes: 0.85 },
    notes: detailNotes(ours, yardstick),
  }
}

interface Setup {
  readonly name: string
  readonly sizes: GrowthSizes
  readonly service: RestService
}

async function open(bench: Bench, sizes: GrowthSizes): Promise<Setup> {
  const databaseUrl = await bench.createDatabase()
  const started = performance.now()
  await seedGrowth(databaseUrl, sizes)
  await finishJobs(databaseUrl)
  const seconds = (performance.now() - started) / 1000
  const name = `at ${sizes.transactions.toLocaleString('en')}`
  bench.log(`  ${name}: made in ${seconds.toFixed(0)} s`)
  const secretKey = await seedKey(databaseUrl, SEEDED_BUSINESS)
  const service = await startServiceProcess(bench, databaseUrl)
  await untilCut(databaseUrl)
  return { name, sizes, service: { ...service, businessId: SEEDED_BUSINESS, secretKey } }
}

/** Everything is settled and all figures are made, so that neither is done during a measurement. */
async function finishJobs(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(
      `insert into settlement (id, business_id, live, status, forced, cut_off_at, from_sequence, to_sequence,
          scanned_sequence, fee_flat_minor, fee_basis_points, fee_cap_minor, transaction_count, gross_minor,
          fees_minor, balance_pending_minor, balance_available_minor, balance_fees_minor, started_at,
          completed_at)
        select 'stl_' || upper(md5(business_id || live)), business_id, live, 'COMPLETED', false, now(), 0,
          max(business_sequence), max(business_sequence), 0, 0, 0, count(*), 0, 0, 0, 0, 0, now(), now()
        from event_log group by business_id, live`,
    )
    await client.query(
      "update log_follower set position = (select position from sequencer) where name = 'figures'",
    )
  } finally {
    await client.end()
  }
}

/** Waits until the service has ended the seeded partitions. */
async function untilCut(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    const startedMs = performance.now()
    let cutMs = startedMs
    while (performance.now() - cutMs < CUT_QUIET_MS) {
      if (performance.now() - startedMs > CUT_LIMIT_MS) throw new Error('partitions are still cut')
      const { rowCount } = await client.query(
        `select from pg_stat_activity where state = 'active' and query ~ '^select cut_partition'`,
      )
      if (rowCount !== 0) cutMs = performance.now()
      await sleep(100)
    }
  } finally {
    await client.end()
  }
}

async function lookupContender(
  bench: Bench,
  { name, sizes, service }: Setup,
  count = sizes.transactions,
): Promise<Contender> {
  const transactions = growthSessions(sizes)
  const body = { kind: 'look-up', transactions, newest: Math.min(count, transactions) } as const
  return { ...(await inflowRest(bench, service, 'getTransaction', body)), name }
}

async function paymentContender(bench: Bench, { name, sizes, service }: Setup): Promise<Contender> {
  const options: GrpcLoadOptions = {
    address: service.grpcAddress,
    token: service.adminToken,
    connections: 4,
    inFlight: 64,
    call: { kind: 'record', accounts: growthAccounts(sizes) },
  }
  const load = await startLoad(bench, 'load/grpc-load.ts', options)
  return loadContender(bench, { name, load, server: service.pid })
}
