import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { alternateRounds, type Contender, detailNotes } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import { type Benchmark, compareWith, type Result } from './benchmark.ts'
import { startLoad } from './child-process.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import { loadContender } from './load/load-contender.ts'
import { ACCOUNTS, seedAccounts } from './seed.ts'
import { startServiceProcess } from './service-process.ts'
import { pgbenchScript } from './yardstick/payment-sql.ts'
import { findPgbench, pgbench } from './yardstick/pgbench.ts'
import type { PoolWriterOptions } from './yardstick/pool-writer.ts'

/** Single payments over gRPC. */
export const RECORD_PAYMENT = {
  call: { kind: 'record', accounts: ACCOUNTS },
  paymentsPerCall: 1,
  inFlight: 64,
} as const

export const ingest: Benchmark = {
  name: 'ingest',
  measure: (bench) =>
    compareIngest(bench, {
      ...RECORD_PAYMENT,
      name: 'ingest',
      what: 'RecordPayment, 64 in flight',
      atLeastTimesPool: 1.3,
      atLeastTimesPgbench: 1.2,
    }),
}

const PAYMENTS_PER_CALL = 500

export const ingestBatch: Benchmark = {
  name: 'ingest-batch',
  measure: (bench) =>
    compareIngest(bench, {
      name: 'ingest-batch',
      what: `RecordPayments, ${PAYMENTS_PER_CALL} a call`,
      call: { kind: 'record-batch', payments: PAYMENTS_PER_CALL },
      paymentsPerCall: PAYMENTS_PER_CALL,
      inFlight: 4,
      atLeastTimesPool: 4,
      atLeastTimesPgbench: 3,
    }),
}

/** Single payments over gRPC while one trace in a hundred is exported, against the same without traces. */
export const ingestTraced: Benchmark = {
  name: 'ingest-traced',
  async measure(bench) {
    const traced = await openOurs(bench, RECORD_PAYMENT, {
      OTEL_EXPORTER_OTLP_ENDPOINT: await startSink(bench),
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.01',
    })
    const untraced = { ...(await openOurs(bench, RECORD_PAYMENT)), name: 'ingest' }
    const row = {
      name: 'ingest-traced',
      what: 'RecordPayment, 64 in flight, 1 % traced',
      unit: '/s',
      target: { atLeastTimes: 0.95 },
    }
    return compareWith(bench, row, { ours: traced, yardstick: untraced })
  },
}

/** A collector that accepts everything and keeps nothing. */
async function startSink(bench: Bench): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.end('{}'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  bench.onEnd(async () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

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
async function compareIngest(
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
  const load = await startLoad(bench, 'load/grpc-load.ts', options)
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
  const load = await startLoad(bench, 'yardstick/pool-writer.ts', options)
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
