import pg from 'pg'
import type { Bench } from './bench.ts'
import { type Contender, inTurn } from './in-turn.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import type { LoadAnswer, LoadCommand } from './load/lanes.ts'
import { underLoad } from './load/under-load.ts'
import { notes } from './notes.ts'
import { startProgram } from './program.ts'
import type { Result } from './row.ts'
import { ACCOUNTS, seedAccounts } from './seed.ts'
import { startServiceProcess } from './service-process.ts'
import { pgbenchScript } from './yardstick/payment-sql.ts'
import { findPgbench, pgbench } from './yardstick/pgbench.ts'
import type { PoolWriterOptions } from './yardstick/pool-writer.ts'

interface IngestAgainst {
  readonly name: string
  readonly what: string
  readonly call: GrpcLoadOptions['call']
  readonly paymentsPerCall: number
  readonly inFlight: number
  readonly atLeastTimesPool: number
  readonly atLeastTimesPgbench: number
}

/** What the event of such a payment takes; measured, and the same for the yardsticks. */
const PAYLOAD_BYTES = 423

/** How long the sequencer may take to number what a round left. */
const SEQUENCED_LIMIT_MS = 60_000

/**
 * Payments over gRPC, everything that they write, with sequencer and dispatcher running, against the
 * same writes as one statement a payment. The yardsticks write into a database of their own, so that
 * no sequencer works for them.
 */
export async function ingestAgainst(bench: Bench, row: IngestAgainst): Promise<readonly Result[]> {
  const ours = await openOurs(bench, row)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const pool = await openPool(bench, databaseUrl)
  const file = await findPgbench()
  const script = pgbenchScript(ACCOUNTS, PAYLOAD_BYTES)
  const { folder, checkpoint: before } = bench
  if (file === undefined) {
    bench.log('  pgbench is not installed: its line is left out')
    const figures = await inTurn({ ours, pool }, { ...bench, before })
    return [toResult(row, figures.ours, figures.pool, row.atLeastTimesPool)]
  }
  const inC = await pgbench({ file, databaseUrl, script, folder })
  const figures = await inTurn({ ours, pool, inC }, { ...bench, before })
  return [
    toResult(row, figures.ours, figures.pool, row.atLeastTimesPool),
    toResult(row, figures.ours, figures.inC, row.atLeastTimesPgbench),
  ]
}

function toResult(
  { name, what }: IngestAgainst,
  ours: Result['ours'],
  yardstick: Result['ours'],
  atLeastTimes: number,
): Result {
  const target = { atLeastTimes }
  return { name, what, unit: '/s', ours, yardstick, target, notes: notes(ours, yardstick) }
}

async function openOurs(bench: Bench, row: IngestAgainst): Promise<Contender> {
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const service = await startServiceProcess(bench, databaseUrl)
  const options: GrpcLoadOptions = {
    address: service.grpcAddress,
    token: service.adminToken,
    connections: 4,
    inFlight: row.inFlight,
    call: row.call,
  }
  const load = await startProgram<undefined, LoadCommand, LoadAnswer>('load/grpc-load.ts', options)
  bench.onEnd(load.stop)
  const database = new pg.Client({ connectionString: databaseUrl })
  await database.connect()
  bench.onEnd(() => database.end())
  return underLoad(bench, {
    name: 'Inflow',
    load,
    server: service.pid,
    unitsPerCall: row.paymentsPerCall,
    after: async () => ({ 's behind': await drainOutbox(database) }),
  })
}

async function openPool(bench: Bench, databaseUrl: string): Promise<Contender> {
  const options: PoolWriterOptions = {
    databaseUrl,
    connections: 16,
    inFlight: 64,
    payloadBytes: PAYLOAD_BYTES,
  }
  const load = await startProgram<undefined, LoadCommand, LoadAnswer>(
    'yardstick/pool-writer.ts',
    options,
  )
  bench.onEnd(load.stop)
  return underLoad(bench, { name: 'pg pool of 16', load })
}

/** Waits until every event has its place in the log. @returns how many seconds that took */
async function drainOutbox(database: pg.Client): Promise<number> {
  const started = performance.now()
  const waitedMs = () => performance.now() - started
  while (waitedMs() < SEQUENCED_LIMIT_MS) {
    const { rows } = await database.query<{ waiting: boolean }>(
      `select exists (select from outbox, sequencer
        where xid >= pg_snapshot_xmax(coalesce(target, snapshot))) or
        exists (select from sequencer where target is not null) as waiting`,
    )
    if (rows[0]?.waiting === false) return waitedMs() / 1000
  }
  throw new Error('the sequencer did not catch up')
}
