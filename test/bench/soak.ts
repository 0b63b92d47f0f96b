import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Bench } from './bench.ts'
import { parentOf } from './cores.ts'
import { toFigure } from './in-turn.ts'
import type { SoakAnswer, SoakCommand, SoakReady } from './load/soak-load.ts'
import { type Program, startProgram } from './program.ts'
import type { Result, Row } from './row.ts'
import { readMemory, readMetrics } from './service-metrics.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'

const MINUTES = 30
const SAMPLE_SECONDS = 30
const CALIBRATION_SECONDS = 10
/** What the first calibration finds is the compiler's. */
const CALIBRATIONS = 2
const ACCOUNTS = 500
const SUBSCRIBERS = 5
const GRACE_MS = 150_000

type Load = Program<SoakReady, SoakCommand, SoakAnswer>

/** What is told of each half minute. */
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
  readonly heldBack: number
  readonly p99Ms: number
  readonly errors: number
}

/**
 * Half of what the service bears, for long: payments, a look at each, subscribers, webhooks. Minutes
 * are 30, or what SOAK_MINUTES says.
 */
export const soak: Row = {
  name: 'soak',
  onlyWhenNamed: true,
  async measure(bench) {
    const minutes = Number(process.env['SOAK_MINUTES'] ?? MINUTES)
    const count = Math.round((minutes * 60) / SAMPLE_SECONDS)
    if (!(count >= 3)) throw new Error('SOAK_MINUTES: at least 1.5, as there are three thirds')
    const dataDir = join(bench.folder, 'soak')
    // Embedded, as only then may a receiver be this machine, without TLS.
    const service = await startServiceProcess(bench, undefined, dataDir)
    const load: Load = await startProgram('load/soak-load.ts', {})
    bench.onEnd(load.stop)
    const run = (command: SoakCommand, seconds = 0) => load.run(command, seconds * 1000 + GRACE_MS)
    await run({ kind: 'open', ...(await openBusiness(service, load.ready.url)) })
    const perSecond = (await calibrate(bench, run)) / 2
    const readDatabase = () => databaseConnections(service.pid)
    const samples: Sample[] = []
    let firstError: string | undefined
    bench.log(`  ${line(HEADS)}`)
    for (let i = 1; i <= count; i++) {
      const answer = await run({ kind: 'pace', seconds: SAMPLE_SECONDS, perSecond }, SAMPLE_SECONDS)
      firstError ??= answer.firstError
      const sample = await toSample((i * SAMPLE_SECONDS) / 60, answer, service, readDatabase())
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

/** @returns payments per second that are recorded, looked at, told and sent without falling behind */
async function calibrate(
  bench: Bench,
  run: (command: SoakCommand, seconds: number) => Promise<SoakAnswer>,
): Promise<number> {
  let perSecond = 0
  for (let i = 0; i < CALIBRATIONS; i++) {
    const command = { kind: 'calibrate', seconds: CALIBRATION_SECONDS } as const
    const answer = await run(command, CALIBRATION_SECONDS)
    if (answer.errors > 0) throw new Error(`soak: ${answer.firstError}`)
    perSecond = answer.payments / answer.seconds
    bench.log(`  at the most ${perSecond.toFixed(0)} payments/s, with all that follows from them`)
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
  ...['payments/s', 'look-ups/s', 'events/s', 'webhooks/s', 'held back', 'p99 ms', 'errors'],
]

const line = (cells: readonly string[]) =>
  cells.map((cell, at) => cell.padStart(HEADS[at]?.length ?? 0)).join('  ')

const text = (value: number) => value.toFixed(value < 100 && !Number.isInteger(value) ? 1 : 0)

async function toSample(
  minute: number,
  answer: SoakAnswer,
  service: ServiceProcess,
  databaseConnections: number,
): Promise<Sample> {
  const metric = await readMetrics(service)
  const { residentMib, heapMib, externalMib } = await readMemory(service)
  const { seconds } = answer
  return {
    minute,
    residentMib,
    heapMib,
    externalMib,
    // Since it was last asked for: of this half minute.
    loopP99Ms: metric('nodejs_eventloop_lag_p99_seconds') * 1000,
    handles: metric('nodejs_active_handles_total'),
    connections: metric('inflow_connections'),
    databaseConnections,
    paymentsPerSecond: answer.payments / seconds,
    lookUpsPerSecond: answer.lookUps / seconds,
    eventsPerSecond: answer.events / seconds,
    webhooksPerSecond: answer.webhooks / seconds,
    heldBack: answer.heldBack,
    p99Ms: answer.p99Ms,
    errors: answer.errors,
  }
}

/** Backends of clients, by what the children of the service's PostgreSQL call themselves. */
function databaseConnections(servicePid: number): number {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.filter((pid) => {
    const postmaster = parentOf(Number(pid))
    if (postmaster === undefined || parentOf(postmaster) !== servicePid) return false
    return CLIENT_BACKEND.test(titleOf(pid))
  }).length
}

/** user, database, from where: processes of the server itself have no such. */
const CLIENT_BACKEND = /^postgres: \S+ \S+ (\[local\]|[\d.:a-f]+\(\d+\))/

function titleOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
