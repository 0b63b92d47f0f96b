import pg from 'pg'
import { alternateRounds, type Contender } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Result } from './benchmark.ts'
import { startChildProcess } from './child-process.ts'
import { detailNotes } from './detail-notes.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import { loadContender } from './load/load-contender.ts'
import type { LoadCommand, LoadResult } from './load/run-callers.ts'
import { ACCOUNTS, seedAccounts } from './seed.ts'
import { startServiceProcess } from './service-process.ts'
import { pgbenchScript } from './yardstick/payment-sql.ts'
import { findPgbench, pgbench } from './yardstick/pgbench.ts'
import type { PoolWriterOptions } from './yardstick/pool-writer.ts'

interface IngestComparison {
  readonly name: string
  readonly what: string
  readonly call: GrpcLoadOptions['call']
  readonly paymentsPerCall: number
  readonly inFlight: number
  readonly atLeastTimesPool: number
  readonly atLeastTimesPgbench: number
}

/** The measured size of a payment's event; the yardsticks write as much. */
const PAYLOAD_BYTES = 423

/** How long the sequencer may take for the events of one round. */
const SEQUENCED_LIMIT_MS = 60_000

/**
 * Measures payments over gRPC, with all their writes and with sequencer and dispatcher running, against
 * the same writes as one statement a payment. The yardsticks write to a database of their own, where no
 * sequencer runs.
 */
export async function compareIngest(
  bench: Bench,
  comparison: IngestComparison,
): Promise<readonly Result[]> {
  const ours = await openOurs(bench, comparison)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const pool = await openPool(bench, databaseUrl)
  const file = await findPgbench()
  const script = pgbenchScript(ACCOUNTS, PAYLOAD_BYTES)
  const { folder, checkpoint: before } = bench
  if (file === undefined) {
    bench.log('  pgbench is not installed: its line is left out')
    const figures = await alternateRounds({ ours, pool }, { ...bench, before })
    return [toResult(comparison, figures.ours, figures.pool, comparison.atLeastTimesPool)]
  }
  const inC = await pgbench({ file, databaseUrl, script, folder })
  const figures = await alternateRounds({ ours, pool, inC }, { ...bench, before })
  return [
    toResult(comparison, figures.ours, figures.pool, comparison.atLeastTimesPool),
    toResult(comparison, figures.ours, figures.inC, comparison.atLeastTimesPgbench),
  ]
}

function toResult(
  { name, what }: IngestComparison,
  ours: Result['ours'],
  yardstick: Result['ours'],
  atLeastTimes: number,
): Result {
  const target = { atLeastTimes }
  return { name, what, unit: '/s', ours, yardstick, target, notes: detailNotes(ours, yardstick) }
}

/** A service of its own that records payments over gRPC. */
export async function openOurs(
  bench: Bench,
  comparison: Pick<IngestComparison, 'call' | 'paymentsPerCall' | 'inFlight'>,
  environment: NodeJS.ProcessEnv = {},
): Promise<Contender> {
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const service = await startServiceProcess(bench, databaseUrl, environment)
  const options: GrpcLoadOptions = {
    address: service.grpcAddress,
    token: service.adminToken,
    connections: 4,
    inFlight: comparison.inFlight,
    call: comparison.call,
  }
  const load = await startChildProcess<undefined, LoadCommand, LoadResult>(
    'load/grpc-load.ts',
    options,
  )
  bench.onEnd(load.stop)
  const database = new pg.Client({ connectionString: databaseUrl })
  await database.connect()
  bench.onEnd(() => database.end())
  const written = await trackWritten(database)
  const contender = loadContender(bench, {
    name: 'Inflow',
    load,
    server: service.pid,
    unitsPerCall: comparison.paymentsPerCall,
    after: async () => ({
      's behind': await drainOutbox(database),
      'WAL bytes a payment': await written.bytesPerPayment(),
    }),
  })
  return {
    name: contender.name,
    async measure(seconds) {
      await written.begin()
      return contender.measure(seconds)
    },
  }
}

/** What the log of the database gets for each payment, with the pages that it copies after a checkpoint. */
async function trackWritten(database: pg.Client) {
  const read = async () => {
    const { rows } = await database.query<{ bytes: string; payments: string }>(
      "select pg_current_wal_insert_lsn() - '0/0' as bytes, position as payments from sequencer",
    )
    return { bytes: Number(rows[0]?.bytes), payments: Number(rows[0]?.payments) }
  }
  let first = await read()
  return {
    async begin(): Promise<void> {
      first = await read()
    },
    async bytesPerPayment(): Promise<number> {
      const last = await read()
      return (last.bytes - first.bytes) / (last.payments - first.payments)
    },
  }
}

async function openPool(bench: Bench, databaseUrl: string): Promise<Contender> {
  const options: PoolWriterOptions = {
    databaseUrl,
    connections: 16,
    inFlight: 64,
    payloadBytes: PAYLOAD_BYTES,
  }
  const load = await startChildProcess<undefined, LoadCommand, LoadResult>(
    'yardstick/pool-writer.ts',
    options,
  )
  bench.onEnd(load.stop)
  return loadContender(bench, { name: 'pg pool of 16', load })
}

/** Waits until every event has its position in the log. @returns how many seconds that took */
export async function drainOutbox(database: pg.Client): Promise<number> {
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
