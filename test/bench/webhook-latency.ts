import {
  HOSTILITIES,
  redirectTo,
  startBrokenTls,
  startHostile,
} from '../webhooks/sender/hostile.ts'
import { detailNotes, type Figure, type Sample, toFigure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark, Result } from './benchmark.ts'
import { type ChildProcess, startChildProcess } from './child-process.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import type { ReceiverCommand, ReceiverReady, ReceiverResult } from './load/receiver.ts'
import type {
  WebhookLatencyCommand,
  WebhookLatencyReady,
  WebhookLatencyResult,
} from './load/webhook-latency-load.ts'
import { openPaidBusiness } from './paid-business.ts'
import { type ServiceProcess, startLocalService } from './service-process.ts'

const PAYMENTS_PER_SECOND = 300

type Load = ChildProcess<WebhookLatencyReady, WebhookLatencyCommand, WebhookLatencyResult>

/** One service with one healthy endpoint, alone or beside others. */
interface Setup {
  readonly name: string
  readonly load: Load
  readonly service: ServiceProcess
  readonly accountNumber: string
  readonly p50: Sample[]
  readonly p99: Sample[]
}

/**
 * The time from sending a payment to its webhook's arrival at the receiver: more than from the commit,
 * which cannot be observed from outside. Measured alone, and beside further endpoints that get the same
 * payments: healthy ones, against as many hostile ones.
 */
export const webhookLatency: Benchmark = {
  name: 'webhook-latency',
  slow: true,
  async measure(bench) {
    const hostile = await startHostiles(bench)
    const setups = [
      await open(bench, 'alone', []),
      await open(bench, 'beside healthy ones', await startHealthy(bench, hostile.length)),
      await open(bench, 'beside hostile ones', hostile),
    ]
    // Warms up the code, and lets the service detect the hostile receivers.
    for (const setup of setups) await run(bench, setup, 2)
    for (const setup of setups) setup.p50.length = setup.p99.length = 0
    for (let round = 1; round <= bench.rounds; round++) {
      for (const setup of round % 2 === 1 ? setups : setups.toReversed()) {
        await run(bench, setup, bench.seconds)
        const { p50, p99 } = setup
        const text = (samples: readonly Sample[]) => `${samples.at(-1)?.value.toFixed(2)} ms`
        bench.log(`  round ${round}: ${setup.name}: p50 ${text(p50)}, p99 ${text(p99)}`)
      }
    }
    const [alone, healthy, beside] = setups.map(({ name, p99 }) => toFigure({ name }, p99))
    return [
      result('p99', alone as Figure, undefined, { atMost: 60 }),
      result('p99 beside hostile ones', beside as Figure, healthy, { atMostTimes: 1.1 }),
    ]
  },
}

async function open(bench: Bench, name: string, others: readonly string[]): Promise<Setup> {
  const load: Load = await startChildProcess(bench, 'load/webhook-latency-load.ts', {})
  const service = await startLocalService(bench)
  const { accountNumber } = await openPaidBusiness(service, [load.ready.url, ...others])
  return { name, load, service, accountNumber, p50: [], p99: [] }
}

async function run(bench: Bench, setup: Setup, seconds: number): Promise<void> {
  const { load, service, accountNumber } = setup
  const cpuUsage = trackCpuUsage({ load: load.pid, service: service.pid })
  const measured = await load.run(
    {
      address: service.grpcAddress,
      token: service.adminToken,
      accountNumber,
      paymentsPerSecond: PAYMENTS_PER_SECOND,
      seconds,
    },
    seconds * 1_000 + 30_000,
  )
  if (measured.received !== measured.expected) {
    throw new Error(
      `webhook-latency: ${measured.received} of ${measured.expected} webhooks arrived`,
    )
  }
  setup.p50.push({ value: measured.p50Ms })
  setup.p99.push({ value: measured.p99Ms, details: cpuUsage() })
  await bench.checkpoint()
}

async function startHealthy(bench: Bench, count: number): Promise<readonly string[]> {
  const receiver = await startChildProcess<ReceiverReady, ReceiverCommand, ReceiverResult>(
    bench,
    'load/receiver.ts',
    {},
  )
  return Array.from({ length: count }, (_, index) => {
    return `http://127.0.0.1:${receiver.ready.port}/${index}`
  })
}

async function startHostiles(bench: Bench): Promise<readonly string[]> {
  const receivers = [
    ...(await Promise.all(Object.values(HOSTILITIES).map(startHostile))),
    await startHostile(redirectTo('http://127.0.0.1:1/')),
    await startBrokenTls(),
  ]
  for (const receiver of receivers) bench.onEnd(receiver.close)
  return receivers.map(({ url }) => url)
}

function result(
  part: string,
  ours: Figure,
  yardstick: Figure | undefined,
  target: Result['target'],
): Result {
  return {
    name: 'webhook-latency',
    what: `sent → receiver, ${PAYMENTS_PER_SECOND}/s, ${part}`,
    unit: ' ms',
    ours,
    yardstick,
    target,
    notes: detailNotes(ours),
  }
}
