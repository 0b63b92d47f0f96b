import { hasNats, startNats } from '../support/nats.ts'
import { alternateRounds, detailNotes } from './alternate-rounds.ts'
import type { Benchmark } from './benchmark.ts'
import { startChildProcess } from './child-process.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import { seedEvents } from './fanout.ts'
import type { RelayLoadCommand, RelayLoadOptions } from './load/relay-load.ts'
import type { BarePublisherCommand, BarePublisherOptions } from './yardstick/bare-publisher.ts'

/** Events of a round. */
const EVENTS = 50_000
const EVENTS_QUICK = 10_000
const ROUND_LIMIT_MS = 120_000

/** The relay from its start, with a log to publish, into a JetStream of this machine. */
export const relay: Benchmark = {
  name: 'relay',
  async measure(bench) {
    if (!hasNats) {
      bench.log('  skipped: nats-server is not installed')
      return []
    }
    const server = await startNats()
    bench.onEnd(server.stop)
    const databaseUrl = await bench.createDatabase()
    const count = bench.quick ? EVENTS_QUICK : EVENTS
    let end = 0
    let bytes = 0
    // Each round publishes events of its own: the stream continues where the last round ended.
    const addEvents = async (): Promise<void> => {
      const messages = await seedEvents(databaseUrl, count, end)
      end += count
      bytes = messages[0]?.length ?? 0
    }
    await addEvents()
    const options: RelayLoadOptions = { databaseUrl, server: server.address }
    const ours = await startChildProcess<undefined, RelayLoadCommand, { perSecond: number }>(
      bench,
      'load/relay-load.ts',
      options,
    )
    const bareOptions: BarePublisherOptions = { server: server.address, bytes }
    const bare = await startChildProcess<undefined, BarePublisherCommand, { perSecond: number }>(
      bench,
      'yardstick/bare-publisher.ts',
      bareOptions,
    )
    const measured = async (run: Promise<{ perSecond: number }>, pid: number) => {
      const cpuUsage = trackCpuUsage({ load: pid, service: server.pid })
      const { perSecond } = await run
      return { value: perSecond, details: cpuUsage() }
    }
    const figures = await alternateRounds(
      {
        ours: {
          name: 'the relay',
          async measure() {
            const upTo = end
            const sample = await measured(ours.run({ upTo }, ROUND_LIMIT_MS), ours.pid)
            await addEvents()
            return sample
          },
        },
        bare: {
          name: 'a bare publisher of such messages',
          measure: () => measured(bare.run({ count }, ROUND_LIMIT_MS), bare.pid),
        },
      },
      bench,
    )
    return [
      {
        name: 'relay',
        what: 'events of the log into a local NATS JetStream',
        unit: ' events/s',
        ours: figures.ours,
        yardstick: figures.bare,
        target: { atLeastTimes: 0.8 },
        notes: detailNotes(figures.ours, figures.bare),
      },
    ]
  },
}
