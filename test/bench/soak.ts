import { readdirSync, readFileSync } from 'node:fs'
import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { toFigure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark, Result } from './benchmark.ts'
import { type ChildProcess, startChildProcess } from './child-process.ts'
import { parentOf } from './cpu-usage.ts'
import type { SoakCommand, SoakReady, SoakResult } from './load/soak-load.ts'
import { readMemory, readMetrics } from './service-metrics.ts'
import { type ServiceProcess, startLocalService } from './service-process.ts'

const MINUTES = 30
const SAMPLE_SECONDS = 30
const CALIBRATION_SECONDS = 10
/** The first calibration only warms up the compiler. */
const CALIBRATIONS = 2
const ACCOUNTS = 500
const SUBSCRIBERS = 5
const GRACE_MS = 150_000

type Load = ChildProcess<SoakReady, SoakCommand, SoakResult>

/** The figures of each half minute. */
interface Sample {
  readonly minute: number
  readonly residentMib: number
  readonly heapMib: number
  readonly externalMib: number
  readonly loopP99Ms: number
  readonly handles: number
  readonly connections: number
  readonly databaseConnections: number
  readonly paymentsPerSecond: number
  readonly lookUpsPerSecond: number
  readonly eventsPerSecond: number
  readonly webhooksPerSecond: number
  readonly skipped: number
  readonly p99Ms: number
  readonly errors: number
}

/**
 * Half of the maximum load for a long time: payments, a lookup of each, subscribers, webhooks. Runs 30
 * minutes, or SOAK_MINUTES.
 */
export const soak: Benchmark = {
  name: 'soak',
  onlyWhenNamed: true,
  async measure(bench) {
    const minutes = Number(process.env['SOAK_MINUTES'] ?? MINUTES)
    const count = Math.round((minutes * 60) / SAMPLE_SECONDS)
    if (!(count >= 3))
      throw new Error('SOAK_MINUTES must be at least 1.5: the run is divided into three thirds')
    const service = await startLocalService(bench)
    const load: Load = await startChildProcess(bench, 'load/soak-load.ts', {})
    const run = (command: SoakCommand, seconds = 0) => load.run(command, seconds * 1000 + GRACE_MS)
    await run({ kind: 'open', ...(await openBusiness(service, load.ready.url)) })
    const perSecond = (await calibrate(bench, run)) / 2
    const readDatabase = () => databaseConnections(bench)
    const samples: Sample[] = []
    let firstError: string | undefined
    bench.log(`  ${line(HEADS)}`)
    for (let i = 1; i <= count; i++) {
      const measured = await run(
        { kind: 'pace', seconds: SAMPLE_SECONDS, perSecond },
        SAMPLE_SECONDS,
      )
      firstError ??= measured.firstError
      const sample = await toSample((i * SAMPLE_SECONDS) / 60, measured, service, readDatabase())
      samples.push(sample)
      bench.log(`  ${line(Object.values(sample).map(text))}`)
    }
    const last = await run({ kind: 'drain' })
    firstError ??= last.firstError
    const errors = samples.reduce((sum, sample) => sum + sample.errors, last.errors)
    return verdict(samples, errors, firstError, perSecond)
  },
}

function verdict(
  samples: readonly Sample[],
  errors: number,
  firstError: string | undefined,
  perSecond: number,
): readonly Result[] {
  const third = Math.floor(samples.length / 3)
  const figure = (name: string, from: number, to?: number) =>
    toFigure(
      { name },
      samples.slice(from, to).map(({ residentMib }) => ({ value: residentMib })),
    )
  const minutes = samples.at(-1)?.minute
  const what = `resident, ${minutes} minutes of ${Math.round(perSecond).toLocaleString('en')} payments/s`
  const flat: Result = {
    name: 'soak',
    what: `${what}, last third`,
    unit: ' MiB',
    ours: figure('last third', -third),
    yardstick: figure('second third', -2 * third, -third),
    target: { atMostTimes: 1.05 },
    notes: [],
  }
  const failed: Result = {
    name: 'soak',
    what: 'errors',
    unit: '',
    ours: toFigure({ name: 'errors' }, [{ value: errors }]),
    yardstick: undefined,
    target: { atMost: 0 },
    notes: firstError === undefined ? [] : [`first error: ${firstError}`],
  }
  return [flat, failed]
}

/** @returns the highest rate of payments per second, with lookups, events and webhooks keeping up */
async function calibrate(
  bench: Bench,
  run: (command: SoakCommand, seconds: number) => Promise<SoakResult>,
): Promise<number> {
  let perSecond = 0
  for (let i = 0; i < CALIBRATIONS; i++) {
    const command = { kind: 'calibrate', seconds: CALIBRATION_SECONDS } as const
    const measured = await run(command, CALIBRATION_SECONDS)
    if (measured.errors > 0) throw new Error(`soak: ${measured.firstError}`)
    perSecond = measured.payments / measured.seconds
    bench.log(
      `  maximum: ${perSecond.toFixed(0)} payments/s, with their lookups, events and webhooks`,
    )
  }
  return perSecond
}

/** A business with accounts, and one endpoint. */
async function openBusiness(service: ServiceProcess, url: string) {
  const { adminToken: token, grpcAddress: address } = service
  const transport = createGrpcTransport({
    baseUrl: `http://${address}`,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${token}`)
        return next(request)
      },
    ],
  })
  const { business, secretKey: key } = await createClient(
    BusinessService,
    transport,
  ).createBusiness({ name: 'Soak' })
  const businessId = business?.id ?? ''
  await createClient(WebhookService, transport).createEndpoint({
    businessId,
    url,
    kinds: ['PAYMENT_NOTIFICATION'],
    concurrency: 50,
  })
  const accounts = createClient(AccountService, transport)
  const accountNumbers: string[] = []
  for (let i = 0; i < ACCOUNTS; i++) accountNumbers.push(await openAccount(accounts, businessId, i))
  const lookUpUrl = `${service.httpUrl}/v2/thirdparty/getTransaction/`
  return { address, token, lookUpUrl, key, accountNumbers, subscribers: SUBSCRIBERS }
}

async function openAccount(
  accounts: Client<typeof AccountService>,
  businessId: string,
  number: number,
): Promise<string> {
  const { account } = await accounts.createAccount({
    businessId,
    reference: `order-${number}`,
    bank: Bank.BANK_9PSB,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
  })
  return account?.accountNumber ?? ''
}

const HEADS = [
  ...['minute', 'RSS MiB', 'heap MiB', 'ext. MiB', 'loop p99 ms', 'handles', 'conn.', 'db conn.'],
  ...['payments/s', 'lookups/s', 'events/s', 'webhooks/s', 'skipped', 'p99 ms', 'errors'],
]

const line = (cells: readonly string[]) =>
  cells.map((cell, at) => cell.padStart(HEADS[at]?.length ?? 0)).join('  ')

const text = (value: number) => value.toFixed(value < 100 && !Number.isInteger(value) ? 1 : 0)

async function toSample(
  minute: number,
  measured: SoakResult,
  service: ServiceProcess,
  databaseConnections: number,
): Promise<Sample> {
  const metric = await readMetrics(service)
  const { residentMib, heapMib, externalMib } = await readMemory(service)
  const { seconds } = measured
  return {
    minute,
    residentMib,
    heapMib,
    externalMib,
    // Covers the time since the last scrape: this half minute.
    loopP99Ms: metric('nodejs_eventloop_lag_p99_seconds') * 1000,
    handles: metric('nodejs_active_handles_total'),
    connections: metric('inflow_connections'),
    databaseConnections,
    paymentsPerSecond: measured.payments / seconds,
    lookUpsPerSecond: measured.lookUps / seconds,
    eventsPerSecond: measured.events / seconds,
    webhooksPerSecond: measured.webhooks / seconds,
    skipped: measured.skipped,
    p99Ms: measured.p99Ms,
    errors: measured.errors,
  }
}

/** Backends of clients, by what the children of the PostgreSQL call themselves; one of them is the benchmark's own. */
function databaseConnections({ postmaster }: Bench): number {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.filter(
    (pid) => parentOf(Number(pid)) === postmaster && CLIENT_BACKEND.test(titleOf(pid)),
  ).length
}

/** The title of a client's backend has user, database and address; other processes have not. */
const CLIENT_BACKEND = /^postgres: \S+ \S+ (\[local\]|[\d.:a-f]+\(\d+\))/

function titleOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
