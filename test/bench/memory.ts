import { detailNotes, type Sample, toFigure } from './alternate-rounds.ts'
import type { Benchmark } from './benchmark.ts'
import { startChildProcess, startLoad } from './child-process.ts'
import { EVENTS, SUBSCRIBERS, seedEvents } from './fanout.ts'
import type { FanoutLoadOptions, FanoutResult } from './load/fanout-load.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import { ACCOUNTS, seedAccounts } from './seed.ts'
import { readMemory } from './service-metrics.ts'
import { startServiceProcess } from './service-process.ts'

const GRACE_MS = 60_000
const MIB_MAX = 360

/** The memory of one process after payments and subscribers, each as in its own benchmark. */
export const memory: Benchmark = {
  name: 'memory',
  slow: true,
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    await seedEvents(databaseUrl, EVENTS)
    const service = await startServiceProcess(bench, databaseUrl)
    const { grpcAddress: address, adminToken: token } = service
    const options: GrpcLoadOptions = {
      address,
      token,
      connections: 4,
      inFlight: 64,
      call: { kind: 'record', accounts: ACCOUNTS },
    }
    const ingest = await startLoad(bench, 'load/grpc-load.ts', options)
    const fanout = await startChildProcess<undefined, undefined, FanoutResult>(
      bench,
      'load/fanout-load.ts',
      {
        address,
        token,
        subscribers: SUBSCRIBERS,
        messages: EVENTS,
      } satisfies FanoutLoadOptions,
    )
    const samples: Sample[] = []
    for (let round = 1; round <= bench.rounds; round++) {
      const { seconds } = bench
      const { failures, firstFailure } = await ingest.run({ seconds }, seconds * 1000 + GRACE_MS)
      if (failures > 0) throw new Error(`memory: ${failures} failures, first: ${firstFailure}`)
      const { residentMib: before } = await readMemory(service)
      await fanout.run(undefined, GRACE_MS)
      const { residentMib: value, heapMib, heapTotalMib, externalMib } = await readMemory(service)
      bench.log(
        `  round ${round}: ${before.toFixed(0)} MiB, ${value.toFixed(0)} MiB, of it ${heapTotalMib.toFixed(0)} of heap`,
      )
      samples.push({
        value,
        details: {
          'MiB before the subscribers': before,
          'of heap': heapTotalMib,
          'used of it': heapMib,
          external: externalMib,
        },
      })
    }
    const ours = toFigure({ name: 'Inflow' }, samples)
    const what = `resident after ingest, then ${SUBSCRIBERS} subscribers`
    const target = { atMost: MIB_MAX }
    return [
      {
        name: 'memory',
        what,
        unit: ' MiB',
        ours,
        yardstick: undefined,
        target,
        notes: detailNotes(ours),
      },
    ]
  },
}
