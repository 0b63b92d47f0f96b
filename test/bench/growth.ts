import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from './bench.ts'
import { startGrpcLoad } from './grpc-load.ts'
import { underLoad } from './load.ts'
import { lookUps } from './rest.ts'
import { alternateRounds, type Benchmark, type Contender } from './rounds.ts'
import { SEEDED_BUSINESS, seedKey, withClient } from './seed.ts'
import { type GrowthSizes, growthAccounts, growthSessions, seedGrowth } from './seed-growth.ts'
import { startService } from './service.ts'

const SMALL = { businesses: 20, accounts: 10_000, transactions: 10_000, deliveries: 3_000 }

const LARGE: GrowthSizes = {
  businesses: 1_000,
  accounts: 100_000,
  transactions: Number(process.env['GROWTH_TRANSACTIONS'] ?? 3_000_000),
  years: Number(process.env['GROWTH_YEARS'] ?? 10),
  events: 2_000_000,
  deliveries: 1_000_000,
}

/** The payments of some hours, which businesses look up as they hear of them. */
const NEWEST = 100_000

/** Payments and look-ups on a full database, against those on a nearly empty one. */
export const growth: Benchmark = async (bench) => {
  const small = await open(bench, SMALL)
  const large = await open(bench, LARGE)
  // Once, not before every round as elsewhere: after a checkpoint the first write to a page logs the whole page, which
  // costs more on many pages than with checkpoints minutes apart. Look-ups come first, as payments make the small
  // database larger.
  await bench.checkpoint()
  const row = async (what: string, contender: (setup: Setup) => Promise<Contender>) => {
    const both = [await contender(large), await contender(small)] as const
    const [ours, yardstick] = await alternateRounds(bench, both, async () => undefined)
    return { what, unit: '/s', ours, yardstick, target: { atLeastTimes: 0.85 } }
  }
  const lookUp =
    (newest = Number.POSITIVE_INFINITY) =>
    ({ name, sizes, service }: Setup) => {
      const transactions = growthSessions(sizes)
      return lookUps(bench, name, service, transactions, Math.min(newest, transactions))
    }
  const all = await row(`REST getTransaction, 64 connections, ${large.name} transactions`, lookUp())
  const newest = await row(`the same, of the newest ${NEWEST.toLocaleString('en')}`, lookUp(NEWEST))
  const record = async ({ name, sizes, service }: Setup) => {
    const calls = { kind: 'record', accounts: growthAccounts(sizes) } as const
    const load = await startGrpcLoad(bench, service, calls)
    return underLoad(bench, name, load, { server: service.pid })
  }
  return [await row(`RecordPayment, 64 in flight, ${large.name} transactions`, record), all, newest]
}

type Setup = Awaited<ReturnType<typeof open>>

async function open(bench: Bench, sizes: GrowthSizes) {
  const databaseUrl = await bench.createDatabase()
  const started = performance.now()
  await seedGrowth(databaseUrl, sizes)
  await finishJobs(databaseUrl)
  const count = sizes.transactions.toLocaleString('en')
  bench.log(`  at ${count}: made in ${((performance.now() - started) / 1000).toFixed(0)} s`)
  const secretKey = await seedKey(databaseUrl, SEEDED_BUSINESS)
  const service = await startService(bench, databaseUrl)
  await untilCut(databaseUrl)
  return { name: `at ${count}`, sizes, service: { ...service, secretKey } }
}

/** Everything is settled and all figures are made, so that neither is done during a measurement. */
function finishJobs(databaseUrl: string): Promise<void> {
  return withClient(databaseUrl, async (client) => {
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
  })
}

const CUT_QUIET_MS = 3_000
const CUT_LIMIT_MS = 120_000

/** Waits until the service has ended the seeded partitions, which it reads for it when it starts. */
function untilCut(databaseUrl: string): Promise<void> {
  return withClient(databaseUrl, async (client) => {
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
  })
}
