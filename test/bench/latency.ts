import { detailNotes, type Sample, toFigure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark, Result } from './benchmark.ts'
import { type ChildProcess, startChildProcess } from './child-process.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import type { LatencyLoadOptions, LatencyResult } from './load/latency-load.ts'
import type { LoadCommand } from './load/run-callers.ts'
import { seedAccounts } from './seed.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'

const PAYMENTS_PER_SECOND = 1_000
const SUBSCRIBERS = 10

/**
 * The time from sending a payment to its event's arrival at a subscriber: more than from the commit,
 * which cannot be observed from outside.
 */
export const latency: Benchmark = {
  name: 'latency',
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    const service = await startServiceProcess(bench, databaseUrl)
    const options: LatencyLoadOptions = {
      address: service.grpcAddress,
      token: service.adminToken,
      subscribers: SUBSCRIBERS,
      paymentsPerSecond: PAYMENTS_PER_SECOND,
    }
    const load = await startChildProcess<undefined, LoadCommand, LatencyResult>(
      bench,
      'load/latency-load.ts',
      options,
    )
    const p50: Sample[] = []
    const p99: Sample[] = []
    await load.run({ seconds: 1 }, 30_000)
    for (let round = 1; round <= bench.rounds; round++) {
      const { measured, details } = await measure(bench, load, service)
      bench.log(
        `  round ${round}: p50 ${measured.p50Ms.toFixed(2)} ms, p99 ${measured.p99Ms.toFixed(2)} ms`,
      )
      p50.push({ value: measured.p50Ms, details })
      p99.push({ value: measured.p99Ms })
    }
    return [result('p50', p50, 10), result('p99', p99, 30)]
  },
}

async function measure(
  bench: Bench,
  load: ChildProcess<undefined, LoadCommand, LatencyResult>,
  service: ServiceProcess,
) {
  const cpuUsage = trackCpuUsage({ load: load.pid, service: service.pid })
  const measured = await load.run({ seconds: bench.seconds }, bench.seconds * 1000 + 30_000)
  if (measured.events !== measured.expected) {
    throw new Error(`latency: ${measured.events} of ${measured.expected} events arrived`)
  }
  return { measured, details: cpuUsage() }
}

function result(part: string, samples: readonly Sample[], atMost: number): Result {
  const ours = toFigure({ name: 'Inflow' }, samples)
  return {
    name: 'latency',
    what: `sent → subscriber, ${PAYMENTS_PER_SECOND}/s, ${SUBSCRIBERS} subscribers, ${part}`,
    unit: ' ms',
    ours,
    yardstick: undefined,
    target: { atMost },
    notes: detailNotes(ours),
  }
}
