import type { Bench } from './bench.ts'
import { watchCores } from './cores.ts'
import { type Sample, toFigure } from './in-turn.ts'
import type { LoadCommand } from './load/lanes.ts'
import type { LatencyAnswer, LatencyLoadOptions } from './load/latency-load.ts'
import { notes } from './notes.ts'
import { type Program, startProgram } from './program.ts'
import type { Result, Row } from './row.ts'
import { seedAccounts } from './seed.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'

const PAYMENTS_PER_SECOND = 1_000
const SUBSCRIBERS = 10

/**
 * From a payment's call being sent to its event being at a subscriber: more than from the commit,
 * which nobody outside can see.
 */
export const latency: Row = {
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
    const load = await startProgram<undefined, LoadCommand, LatencyAnswer>(
      'load/latency-load.ts',
      options,
    )
    bench.onEnd(load.stop)
    const p50: Sample[] = []
    const p99: Sample[] = []
    await load.run({ seconds: 1 }, 30_000)
    for (let round = 1; round <= bench.rounds; round++) {
      const { answer, aside } = await measure(bench, load, service)
      bench.log(
        `  round ${round}: p50 ${answer.p50Ms.toFixed(2)} ms, p99 ${answer.p99Ms.toFixed(2)} ms`,
      )
      p50.push({ value: answer.p50Ms, aside })
      p99.push({ value: answer.p99Ms })
    }
    return [result('p50', p50, 10), result('p99', p99, 30)]
  },
}

async function measure(
  bench: Bench,
  load: Program<undefined, LoadCommand, LatencyAnswer>,
  service: ServiceProcess,
) {
  const cores = watchCores({ load: load.pid, service: service.pid })
  const answer = await load.run({ seconds: bench.seconds }, bench.seconds * 1000 + 30_000)
  if (answer.events !== answer.expected) {
    throw new Error(`latency: ${answer.events} events of ${answer.expected} came`)
  }
  return { answer, aside: cores() }
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
    notes: notes(ours),
  }
}
