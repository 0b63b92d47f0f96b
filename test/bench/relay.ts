import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import pg from 'pg'
import pino from 'pino'
import { createRelay, WINDOW_MAX } from '../../src/relay/relay.ts'
import { openSink } from '../relay/fixture.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { type Child, startChild } from './child.ts'
import { type Benchmark, type Contender, compare, withCores } from './rounds.ts'
import { seedEvents } from './streams.ts'

/** The relay from its start, with a log to publish, into a JetStream of this machine, against a bare publisher. */
export const relay: Benchmark = async (bench) => {
  if (!hasNats) {
    bench.log('  skipped: nats-server is not installed')
    return []
  }
  const nats = await startNats()
  bench.onEnd(nats.stop)
  const databaseUrl = await bench.createDatabase()
  const count = bench.quick ? 10_000 : 50_000
  let end = 0
  // Each round publishes events of its own: the stream continues where the last round ended.
  const addEvents = async () => {
    const [message] = await seedEvents(databaseUrl, count, end)
    end += count
    return message?.length ?? 0
  }
  const file = import.meta.filename
  const bytes = await addEvents()
  const ours = await startChild(bench, file, relayLoad, { databaseUrl, server: nats.address })
  const bare = await startChild(bench, file, barePublisher, { server: nats.address, bytes })
  const measure = ({ pid, run }: Child<undefined, number, number>, command: number) =>
    withCores({ load: pid, service: nats.pid }, () => run(command))
  const relayed: Contender = {
    name: 'the relay',
    async measure() {
      const sample = await measure(ours, end)
      await addEvents()
      return sample
    },
  }
  const name = 'a bare publisher of such messages'
  const published: Contender = { name, measure: () => measure(bare, count) }
  const what = 'events of the log into a local NATS JetStream'
  return compare(bench, what, 0.8, [relayed, published], ' events/s')
}

/** The relay alone. Command: to publish up to a position. Output: events per second. */
export async function relayLoad(options: { databaseUrl: string; server: string }) {
  const pool = new pg.Pool({ connectionString: options.databaseUrl, max: 4 })
  const log = pino({ level: 'warn' }, pino.destination(2))
  const runtime = createTestRuntime({ durablePool: pool }, { log })
  const run = async (upTo: number): Promise<number> => {
    const relay = createRelay(runtime, {
      random: Math.random,
      format: 'protobuf',
      openSink: () => openSink({ address: options.server }),
    })
    const startedMs = performance.now()
    relay.start()
    while (Number(relay.publishedUpTo() ?? -1) < upTo)
      await new Promise((resolve) => setTimeout(resolve, 5))
    const perSecond = (relay.published() / (performance.now() - startedMs)) * 1_000
    await relay.stop()
    return perSecond
  }
  return { ready: undefined, run }
}

const STREAM = 'BARE'
/** As long as that of an event. */
const CURSOR = 'djIuMS4xMDAwMDAuMDAwMDAx'
const SUBJECT = 'bare.live.biz_bench.PAYMENT_NOTIFICATION'

/**
 * Publishes messages like the relay's, with its window: as many bytes, the same headers, each expecting the one before
 * it. It reads and encodes nothing. Command: to publish so many. Output: messages per second.
 */
export async function barePublisher({ server, bytes }: { server: string; bytes: number }) {
  const connection = await connect({ servers: server, noAsyncTraces: true })
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: STREAM, subjects: ['bare.>'] })
  const client = jetstream(connection)
  const body = new Uint8Array(bytes)
  let ids = 0
  const run = async (count: number): Promise<number> => {
    const startedMs = performance.now()
    let left = count
    const publish = async (): Promise<void> => {
      while (left > 0) {
        left -= 1
        ids += 1
        const header = headers()
        header.set('Content-Type', 'application/protobuf; proto=inflow.event.v1.Event')
        header.set('Inflow-Position', `${ids}`)
        header.set('Inflow-Epoch', '1')
        header.set('Inflow-Cursor', CURSOR)
        await client.publish(SUBJECT, body, {
          msgID: `evt_01${String(ids).padStart(24, '0')}`,
          headers: header,
          expect: { lastSequence: ids - 1, streamName: STREAM },
        })
      }
    }
    await Promise.all(Array.from({ length: WINDOW_MAX }, publish))
    return (count / (performance.now() - startedMs)) * 1_000
  }
  return { ready: undefined, run }
}
