import { join } from 'node:path'
import type { Bench } from './bench.ts'
import { watchCores } from './cores.ts'
import { type Contender, inTurn } from './in-turn.ts'
import type { ReceiverAnswer, ReceiverCommand, ReceiverReady } from './load/receiver.ts'
import { notes } from './notes.ts'
import { openPayer } from './payer.ts'
import { type Program, startProgram } from './program.ts'
import type { Result, Row, Target } from './row.ts'
import { startServiceProcess } from './service-process.ts'
import type { JobQueueCommand, JobQueueOptions } from './yardstick/job-queue.ts'

/** How many deliveries one round makes, and one of a quick run. */
const DELIVERIES = { full: 10_000, quick: 2_000 }
const ROUND_LIMIT_MS = 120_000

/** What an endpoint, and all endpoints together, are sent at once; the yardsticks get as much. */
const CONCURRENCY_EACH = 10
const CONCURRENCY_ALL = 100

/** What a notification takes. */
const BODY_BYTES = 750

const AT_LEAST_TIMES = { one: 1, many: 1.3 }

type Receiver = Program<ReceiverReady, ReceiverCommand, ReceiverAnswer>

export const webhooks: Row = {
  name: 'webhooks',
  async measure(bench) {
    return [...(await measure(bench, 1)), ...(await measure(bench, 50))]
  },
}

async function measure(bench: Bench, endpoints: number): Promise<readonly Result[]> {
  const receiver: Receiver = await startProgram('load/receiver.ts', {})
  bench.onEnd(receiver.stop)
  const urls = Array.from({ length: endpoints }, (_, i) => {
    return `http://127.0.0.1:${receiver.ready.port}/${i}`
  })
  const queue = (kind: JobQueueOptions['kind'], logged: boolean) =>
    jobQueue(bench, receiver, urls, kind, logged)
  const [ours, graphile, boss, bareGraphile, bareBoss] = await Promise.all([
    inflow(bench, receiver, urls),
    queue('graphile-worker', true),
    queue('pg-boss', true),
    queue('graphile-worker', false),
    queue('pg-boss', false),
  ])
  const options = { ...bench, before: bench.checkpoint }
  const figures = await inTurn({ ours, graphile, boss, bareGraphile, bareBoss }, options)
  const result = (yardstick: Result['yardstick'], target: Target): Result => ({
    name: 'webhooks',
    what: `deliveries to ${endpoints} endpoint${endpoints > 1 ? 's' : ''}, signed and logged`,
    unit: '/s',
    ours: figures.ours,
    yardstick,
    target,
    notes: notes(figures.ours, ...(yardstick ? [yardstick] : [])),
  })
  const target = { atLeastTimes: AT_LEAST_TIMES[endpoints > 1 ? 'many' : 'one'] }
  return [
    result(figures.graphile, target),
    result(figures.boss, target),
    result(figures.bareGraphile, { none: true }),
    result(figures.bareBoss, { none: true }),
  ]
}

/**
 * Embedded, as only then may a receiver be this machine, without TLS. The deliveries are made while
 * the endpoints are disabled, as the yardsticks' jobs are in their queues before the first is done.
 */
async function inflow(
  bench: Bench,
  receiver: Receiver,
  urls: readonly string[],
): Promise<Contender> {
  const deliveries = DELIVERIES[bench.quick ? 'quick' : 'full']
  const service = await startServiceProcess(bench, undefined, join(bench.folder, `w${urls.length}`))
  const payer = await openPayer(service, urls)
  return {
    name: 'Inflow',
    async measure() {
      await payer.enable(false)
      await payer.pay(deliveries / urls.length)
      const cores = watchCores({ process: service.pid })
      const received = receiver.run({ requests: deliveries }, ROUND_LIMIT_MS)
      await payer.enable(true)
      return { value: (await received).perSecond, aside: cores() }
    },
  }
}

async function jobQueue(
  bench: Bench,
  receiver: Receiver,
  urls: readonly string[],
  kind: JobQueueOptions['kind'],
  logged: boolean,
): Promise<Contender> {
  const deliveries = DELIVERIES[bench.quick ? 'quick' : 'full']
  const options: JobQueueOptions = {
    kind,
    databaseUrl: await bench.createDatabase(),
    urls,
    concurrency: Math.min(CONCURRENCY_ALL, CONCURRENCY_EACH * urls.length),
    bodyBytes: BODY_BYTES,
    logged,
  }
  const queue = await startProgram<undefined, JobQueueCommand, undefined>(
    'yardstick/job-queue.ts',
    options,
  )
  bench.onEnd(queue.stop)
  return {
    name: logged ? kind : `${kind}, neither signed nor logged`,
    async measure() {
      const cores = watchCores({ process: queue.pid })
      const received = receiver.run({ requests: deliveries }, ROUND_LIMIT_MS)
      await queue.run({ jobs: deliveries }, ROUND_LIMIT_MS)
      return { value: (await received).perSecond, aside: cores() }
    },
  }
}
