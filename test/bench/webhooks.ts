import { alternateRounds, type Contender, detailNotes } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark, Result, Target } from './benchmark.ts'
import { type ChildProcess, startChildProcess } from './child-process.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import type { ReceiverCommand, ReceiverReady, ReceiverResult } from './load/receiver.ts'
import { openPaidBusiness } from './paid-business.ts'
import { startLocalService } from './service-process.ts'
import type { JobQueueCommand, JobQueueOptions } from './yardstick/job-queue.ts'

/** Deliveries a round. With fewer, the queues would be measured while they wait for their next poll. */
const DELIVERIES = 10_000
const ROUND_LIMIT_MS = 120_000

/** Concurrent requests to one endpoint and to all together; the same for the yardsticks. */
const CONCURRENCY_EACH = 10
const CONCURRENCY_ALL = 100

/** The size of a webhook's body. */
const BODY_BYTES = 750

const AT_LEAST_TIMES = { one: 1, many: 1.3 }

type Receiver = ChildProcess<ReceiverReady, ReceiverCommand, ReceiverResult>

export const webhooks: Benchmark = {
  name: 'webhooks',
  slow: true,
  async measure(bench) {
    return [...(await measure(bench, 1)), ...(await measure(bench, 50))]
  },
}

async function measure(bench: Bench, endpoints: number): Promise<readonly Result[]> {
  const receiver: Receiver = await startChildProcess(bench, 'load/receiver.ts', {})
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
  const figures = await alternateRounds({ ours, graphile, boss, bareGraphile, bareBoss }, options)
  const result = (yardstick: Result['yardstick'], target: Target): Result => ({
    name: 'webhooks',
    what: `deliveries to ${endpoints} endpoint${endpoints > 1 ? 's' : ''}, signed and logged`,
    unit: '/s',
    ours: figures.ours,
    yardstick,
    target,
    notes: detailNotes(figures.ours, ...(yardstick ? [yardstick] : [])),
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
 * The deliveries are created while the endpoints are disabled, as the yardsticks queue all jobs before
 * the first is run.
 */
async function inflow(
  bench: Bench,
  receiver: Receiver,
  urls: readonly string[],
): Promise<Contender> {
  const service = await startLocalService(bench)
  const paidBusiness = await openPaidBusiness(service, urls)
  return {
    name: 'Inflow',
    async measure() {
      await paidBusiness.enable(false)
      await paidBusiness.pay(DELIVERIES / urls.length)
      const cpuUsage = trackCpuUsage({ process: service.pid })
      const received = receiver.run({ requests: DELIVERIES }, ROUND_LIMIT_MS)
      await paidBusiness.enable(true)
      return { value: (await received).perSecond, details: cpuUsage() }
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
  const options: JobQueueOptions = {
    kind,
    databaseUrl: await bench.createDatabase(),
    urls,
    concurrency: Math.min(CONCURRENCY_ALL, CONCURRENCY_EACH * urls.length),
    bodyBytes: BODY_BYTES,
    logged,
  }
  const queue = await startChildProcess<undefined, JobQueueCommand, undefined>(
    bench,
    'yardstick/job-queue.ts',
    options,
  )
  return {
    name: logged ? kind : `${kind}, neither signed nor logged`,
    async measure() {
      const cpuUsage = trackCpuUsage({ process: queue.pid })
      const received = receiver.run({ requests: DELIVERIES }, ROUND_LIMIT_MS)
      await queue.run({ jobs: DELIVERIES }, ROUND_LIMIT_MS)
      return { value: (await received).perSecond, details: cpuUsage() }
    },
  }
}
