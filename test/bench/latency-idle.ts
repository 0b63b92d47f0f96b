import { detailNotes, median, type Sample, toFigure } from './alternate-rounds.ts'
import type { Benchmark, Result } from './benchmark.ts'
import { type ChildProcess, startChildProcess } from './child-process.ts'
import type { IdleCommand, IdleReady, IdleResult } from './load/idle-load.ts'
import { openPaidBusiness } from './paid-business.ts'
import { startLocalService } from './service-process.ts'

type Load = ChildProcess<IdleReady, IdleCommand, IdleResult>

/**
 * The time from the acknowledgement of a payment, right after its commit, to its event at a subscriber and its webhook
 * at the receiver, on a service that has nothing else to do.
 */
export const latencyIdle: Benchmark = {
  name: 'latency-idle',
  async measure(bench) {
    const load: Load = await startChildProcess(bench, 'load/idle-load.ts', {})
    const service = await startLocalService(bench)
    const { accountNumber } = await openPaidBusiness(service, [load.ready.url])
    const { adminToken: token, grpcAddress: address } = service
    const run = (seconds: number) =>
      load.run({ address, token, accountNumber, seconds }, seconds * 1_000 + 30_000)
    await run(bench.warmUpSeconds)
    const subscriber: Sample[] = []
    const webhook: Sample[] = []
    for (let round = 1; round <= bench.rounds; round++) {
      const measured = await run(bench.seconds)
      const details = { 'acknowledged after ms': median(measured.acknowledged) }
      subscriber.push({ value: median(measured.subscriber), details })
      webhook.push({ value: median(measured.webhook), details })
      const texts = [subscriber, webhook].map((samples) => samples.at(-1)?.value.toFixed(2))
      bench.log(`  round ${round}: subscriber p50 ${texts[0]} ms, webhook p50 ${texts[1]} ms`)
    }
    return [result('subscriber', subscriber, 5), result('webhook', webhook, 10)]
  },
}

function result(where: string, samples: readonly Sample[], atMost: number): Result {
  const ours = toFigure({ name: 'Inflow' }, samples)
  return {
    name: 'latency-idle',
    what: `committed → ${where}, one at a time, p50`,
    unit: ' ms',
    ours,
    yardstick: undefined,
    target: { atMost },
    notes: detailNotes(ours),
  }
}
