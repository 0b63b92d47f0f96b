import { join } from 'node:path'
import {
  HOSTILITIES,
  redirectTo,
  startBrokenTls,
  startHostile,
} from '../webhooks/sender/hostile.ts'
import type { Bench } from './bench.ts'
import { watchCores } from './cores.ts'
import { type Figure, type Sample, toFigure } from './in-turn.ts'
import type { ReceiverAnswer, ReceiverCommand, ReceiverReady } from './load/receiver.ts'
import type {
  WebhookLatencyAnswer,
  WebhookLatencyCommand,
  WebhookLatencyReady,
} from './load/webhook-latency-load.ts'
import { notes } from './notes.ts'
import { openPayer } from './payer.ts'
import { type Program, startProgram } from './program.ts'
import type { Result, Row } from './row.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'

const PAYMENTS_PER_SECOND = 300

type Load = Program<WebhookLatencyReady, WebhookLatencyCommand, WebhookLatencyAnswer>

/** One service with one healthy endpoint, and perhaps hostile ones beside it. */
interface Scene {
  readonly name: string
  readonly load: Load
  readonly service: ServiceProcess
  readonly accountNumber: string
  readonly p50: Sample[]
  readonly p99: Sample[]
}

/**
 * From a payment's call being sent to its webhook being at a receiver: more than from the commit,
 * which nobody outside can see. Alone; and on services whose business has more endpoints, each of
 * which gets the same payments: healthy ones, against as many hostile ones.
 */
export const webhookLatency: Row = {
  name: 'webhook-latency',
  slow: true,
  async measure(bench) {
    const hostile = await startHostiles(bench)
    const scenes = [
      await open(bench, 'alone', []),
      await open(bench, 'beside healthy ones', await startHealthy(bench, hostile.length)),
      await open(bench, 'beside hostile ones', hostile),
    ]
    // Hostile receivers are found out, and the code is warm, before it counts.
    for (const scene of scenes) await run(bench, scene, 2)
    for (const scene of scenes) scene.p50.length = scene.p99.length = 0
    for (let round = 1; round <= bench.rounds; round++) {
      for (const scene of round % 2 === 1 ? scenes : scenes.toReversed()) {
        await run(bench, scene, bench.seconds)
        const { p50, p99 } = scene
        const text = (samples: readonly Sample[]) => `${samples.at(-1)?.value.toFixed(2)} ms`
        bench.log(`  round ${round}: ${scene.name}: p50 ${text(p50)}, p99 ${text(p99)}`)
      }
    }
    const [alone, healthy, beside] = scenes.map(({ name, p99 }) => toFigure({ name }, p99))
    return [
      result('p99', alone as Figure, undefined, { atMost: 60 }),
      result('p99 beside hostile ones', beside as Figure, healthy, { atMostTimes: 1.1 }),
    ]
  },
}

async function open(bench: Bench, name: string, others: readonly string[]): Promise<Scene> {
  const load: Load = await startProgram('load/webhook-latency-load.ts', {})
  bench.onEnd(load.stop)
  const dataDir = join(bench.folder, `latency-${name.replaceAll(' ', '-')}`)
  const service = await startServiceProcess(bench, undefined, dataDir)
  const { accountNumber } = await openPayer(service, [load.ready.url, ...others])
  return { name, load, service, accountNumber, p50: [], p99: [] }
}

async function run(bench: Bench, scene: Scene, seconds: number): Promise<void> {
  const { load, service, accountNumber } = scene
  const cores = watchCores({ load: load.pid, service: service.pid })
  const answer = await load.run(
    {
      address: service.grpcAddress,
      token: service.adminToken,
      accountNumber,
      paymentsPerSecond: PAYMENTS_PER_SECOND,
      seconds,
    },
    seconds * 1_000 + 30_000,
  )
  if (answer.received !== answer.expected) {
    throw new Error(`webhook-latency: ${answer.received} webhooks of ${answer.expected} came`)
  }
  scene.p50.push({ value: answer.p50Ms })
  scene.p99.push({ value: answer.p99Ms, aside: cores() })
  await bench.checkpoint()
}

async function startHealthy(bench: Bench, count: number): Promise<readonly string[]> {
  const receiver = await startProgram<ReceiverReady, ReceiverCommand, ReceiverAnswer>(
    'load/receiver.ts',
    {},
  )
  bench.onEnd(receiver.stop)
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
    notes: notes(ours),
  }
}
