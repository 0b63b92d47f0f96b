import type { Bench } from './bench.ts'
import { type Contender, type Figure, inTurn } from './in-turn.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import type { LoadAnswer, LoadCommand } from './load/lanes.ts'
import { underLoad } from './load/under-load.ts'
import { notes } from './notes.ts'
import { startProgram } from './program.ts'
import { ourRest, type Protocol } from './rest.ts'
import type { Result, Row } from './row.ts'
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
  transactions: 3_000_000,
  deliveries: 1_000_000,
}

/** A tenth, which is made within what a quick run has. */
const LARGE_QUICK: GrowthSizes = {
  businesses: 1_000,
  accounts: 100_000,
  transactions: 300_000,
  deliveries: 100_000,
}

const QUICK_SECONDS = 8

/** Payments and look-ups of a database that is full, against those of one that is nearly empty. */
export const growth: Row = {
  name: 'growth',
  slow: true,
  async measure(bench) {
    const sizes = bench.seconds < QUICK_SECONDS ? LARGE_QUICK : LARGE
    const small = await open(bench, SMALL)
    const large = await open(bench, sizes)
    // Once, and not before every round as elsewhere: the first payment on a page after a checkpoint
    // writes the whole page to the log, which weighs on many pages more than it does between
    // checkpoints that are minutes apart. Look-ups come first, as payments make the small one larger.
    await bench.checkpoint()
    const lookups = await inTurn(
      { small: await lookingUp(bench, small), large: await lookingUp(bench, large) },
      bench,
    )
    const payments = await inTurn(
      { small: await paying(bench, small), large: await paying(bench, large) },
      bench,
    )
    const at = `at ${sizes.transactions.toLocaleString('en')} transactions`
    return [
      toResult(`RecordPayment, 64 in flight, ${at}`, payments.large, payments.small),
      toResult(`REST getTransaction, 64 connections, ${at}`, lookups.large, lookups.small),
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
    notes: notes(ours, yardstick),
  }
}

interface Scene {
  readonly name: string
  readonly sizes: GrowthSizes
  readonly door: Protocol
}

async function open(bench: Bench, sizes: GrowthSizes): Promise<Scene> {
  const databaseUrl = await bench.createDatabase()
  const started = performance.now()
  await seedGrowth(databaseUrl, sizes)
  const seconds = (performance.now() - started) / 1000
  const name = `at ${sizes.transactions.toLocaleString('en')}`
  bench.log(`  ${name}: made in ${seconds.toFixed(0)} s`)
  const secretKey = await seedKey(databaseUrl, SEEDED_BUSINESS)
  const service = await startServiceProcess(bench, databaseUrl)
  return { name, sizes, door: { ...service, businessId: SEEDED_BUSINESS, secretKey } }
}

async function lookingUp(bench: Bench, { name, sizes, door }: Scene): Promise<Contender> {
  const body = { kind: 'look-up', transactions: growthSessions(sizes) } as const
  return { ...(await ourRest(bench, door, 'getTransaction', body)), name }
}

async function paying(bench: Bench, { name, sizes, door }: Scene): Promise<Contender> {
  const options: GrpcLoadOptions = {
    address: door.grpcAddress,
    token: door.adminToken,
    connections: 4,
    inFlight: 64,
    call: { kind: 'record', accounts: growthAccounts(sizes) },
  }
  const load = await startProgram<undefined, LoadCommand, LoadAnswer>('load/grpc-load.ts', options)
  bench.onEnd(load.stop)
  return underLoad(bench, { name, load, server: door.pid })
}
