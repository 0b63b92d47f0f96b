import type pg from 'pg'
import { notificationBody, startFakeNinePsb } from '../../src/banks/9psb/fake.ts'
import { freePort } from '../support/free-port.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { openHttp } from './clients.ts'
import { type Calls, startGrpcLoad } from './grpc-load.ts'
import { type Caller, runCallers, underLoad } from './load.ts'
import { pgbench, poolWriter } from './payment-writers.ts'
import { alternateRounds, type Benchmark, type Contender, compare } from './rounds.ts'
import { ACCOUNTS, openDatabase, seedAccounts } from './seed.ts'
import { startSeeded, startService } from './service.ts'

const SINGLE = { calls: { kind: 'record', accounts: ACCOUNTS }, perCall: 1, inFlight: 64 } as const
const PER_CALL = 500

/** Single payments over gRPC. */
export const ingest: Benchmark = (bench) =>
  compareWithWriters(bench, 'RecordPayment, 64 in flight', SINGLE, [1.3, 1.2])

export const ingestBatch: Benchmark = (bench) => {
  const calls = { kind: 'record-batch', payments: PER_CALL } as const
  const batches = { calls, perCall: PER_CALL, inFlight: 4 }
  return compareWithWriters(bench, `RecordPayments, ${PER_CALL} a call`, batches, [4, 3])
}

/** Payments that a live bank reports, against payments over gRPC. */
export const bankIngest: Benchmark = async (bench) =>
  compare(bench, "a live bank's notifications, 64 in flight", 0.4, [
    await openNotified(bench),
    await openRecorder(bench, 'ingest', SINGLE),
  ])

interface Recording {
  readonly calls: Calls
  readonly perCall: number
  readonly inFlight: number
}

/**
 * Payments over gRPC, with all their writes and with sequencer and dispatcher running, against the same writes as one
 * statement a payment. The yardsticks write to a database of their own, where no sequencer runs.
 */
async function compareWithWriters(
  bench: Bench,
  what: string,
  recording: Recording,
  [timesPool, timesPgbench]: readonly [number, number],
) {
  const ours = await openRecorder(bench, 'Inflow', recording)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const pool = await poolWriter(bench, databaseUrl)
  const inC = await pgbench(bench, databaseUrl)
  const figures = await alternateRounds(bench, [ours, pool, ...(inC ? [inC] : [])])
  const [our, ...writers] = figures as readonly [(typeof figures)[0], ...typeof figures]
  return writers.map((yardstick, at) => {
    const target = { atLeastTimes: at === 0 ? timesPool : timesPgbench }
    return { what, unit: '/s', ours: our, yardstick, target }
  })
}

/** A service of its own that records payments over gRPC. */
async function openRecorder(
  bench: Bench,
  name: string,
  { calls, perCall, inFlight }: Recording,
): Promise<Contender> {
  const service = await startSeeded(bench)
  const load = await startGrpcLoad(bench, service, calls, inFlight)
  const database = await openDatabase(bench, service.databaseUrl)
  // What the log of the database gets, with the pages that it copies after a checkpoint.
  const readWritten = async () => {
    const { rows } = await database.query<{ bytes: string; payments: string }>(
      "select pg_current_wal_insert_lsn() - '0/0' as bytes, position as payments from sequencer",
    )
    return { bytes: Number(rows[0]?.bytes), payments: Number(rows[0]?.payments) }
  }
  let first = await readWritten()
  return underLoad(bench, name, load, {
    server: service.pid,
    unitsPerCall: perCall,
    before: async () => {
      first = await readWritten()
    },
    after: async () => {
      const behind = await drainOutbox(database)
      const last = await readWritten()
      const bytes = (last.bytes - first.bytes) / (last.payments - first.payments)
      return { 's behind': behind, 'WAL bytes a payment': bytes }
    },
  })
}

const SEQUENCED_LIMIT_MS = 60_000

/** Waits until every event has its position in the log. @returns how many seconds that took */
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

const CREDENTIALS = {
  publicKey: 'bench',
  privateKey: 'bench',
  notificationUser: 'bench',
  notificationPassword: 'bench',
}

/** The bank runs in the process of the load, and answers the requeries of the service. */
async function openNotified(bench: Bench): Promise<Contender> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}/banks/9psb/notifications`
  const load = await startChild(bench, import.meta.filename, bankLoad, url)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const database = await openDatabase(bench, databaseUrl)
  await database.query(
    `update account a set connector = 'live', account_number = n.number
      from unnest($1::text[]) with ordinality n(number, at) where a.account_number = lpad(at::text, 10, '0')`,
    [load.ready.accountNumbers],
  )
  const service = await startService(bench, databaseUrl, {
    HTTP_PORT: port,
    BANKS: '9PSB=live',
    BANK_9PSB_BASE_URL: load.ready.url,
    BANK_9PSB_PUBLIC_KEY: CREDENTIALS.publicKey,
    BANK_9PSB_PRIVATE_KEY: CREDENTIALS.privateKey,
    BANK_9PSB_NOTIFICATION_USER: CREDENTIALS.notificationUser,
    BANK_9PSB_NOTIFICATION_PASSWORD: CREDENTIALS.notificationPassword,
    // It would ask for the payments of every account while they are measured.
    RECONCILE_INTERVAL_MINUTES: '0',
  })
  return underLoad(bench, 'Inflow', load, {
    server: service.pid,
    after: async () => {
      // Some other outcomes are acknowledged too, and are not what is measured.
      const { rows } = await database.query<{ outcome: string; cause: string }>(
        "select outcome, cause from bank_notification where outcome <> 'RECORDED' limit 1",
      )
      if (rows[0]) throw new Error(`a notification ended as ${rows[0].outcome}: ${rows[0].cause}`)
      return { 's behind': await drainOutbox(database) }
    },
  })
}

/** A bank that is paid and notifies the service, which may start later, over 64 connections. */
export async function bankLoad(url: string) {
  const bank = await startFakeNinePsb({ port: 0, credentials: CREDENTIALS })
  const accountNumbers = Array.from(
    { length: ACCOUNTS },
    (_, index) => bank.openAccount(`Ada Obi ${index}`).accountNumber,
  )
  const { notificationUser: user, notificationPassword: password } = CREDENTIALS
  const basic = Buffer.from(`${user}:${password}`).toString('base64')
  const post = openHttp(url, 64, `Basic ${basic}`)
  const notify: Caller = (done) => {
    const account = accountNumbers[Math.floor(Math.random() * ACCOUNTS)] as string
    const naira = `${1 + Math.floor(Math.random() * 100_000)}.50`
    // The bank repeats the notification after any code but 00.
    post(notificationBody(bank.receive(account, naira), password), (failure, text) => {
      done(failure ?? (text.includes('"code":"00"') ? undefined : text))
    })
  }
  const callers = Array<Caller>(64).fill(notify)
  return {
    ready: { url: bank.url, accountNumbers },
    run: (seconds: number) => runCallers(callers, seconds),
  }
}
