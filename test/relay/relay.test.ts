import { nanos } from '@nats-io/transport-node'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { readLog } from '../../src/events/read-log.ts'
import { type EventSink, SinkConflict } from '../../src/relay/event-sink.ts'
import { toMessage } from '../../src/relay/message.ts'
import { createRelay, findStream, registerRelayMetrics } from '../../src/relay/relay.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { beginTimeline, expireEvents, loseEvents, publishEvents } from '../support/events.ts'
import {
  hasNats,
  type NatsServer,
  openReader,
  type StreamReader,
  startNats,
} from '../support/nats.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectMirror, openSink, startRelay, untilPublished } from './fixture.ts'

const db = useDatabase()
const FIRST = 'INFLOW_EVENTS_1'
const SECOND = 'INFLOW_EVENTS_2'

/** The server of all tests but those that kill it; each finds it without streams. */
let server: NatsServer
let reader: StreamReader

beforeAll(async () => {
  if (!hasNats) return
  server = await startNats()
  reader = await openReader(server)
})
// The relays of the test before have stopped only now.
beforeEach(async () => {
  if (!hasNats) return
  for await (const { config } of reader.manager.streams.list()) {
    await reader.manager.streams.delete(config.name)
  }
})
afterAll(async () => {
  await reader?.close()
  await server?.stop()
})

/** A server of a test that kills it. */
async function useNats(): Promise<NatsServer> {
  const own = await startNats()
  onTestFinished(() => own.stop())
  return own
}

/** Adds events to the log. @returns their ids */
const publish = (count: number, options = {}) =>
  publishEvents(db.database.durablePool, count, options)

/** A new epoch, with a first event. */
async function beginEpoch(): Promise<number> {
  const { durablePool } = db.database
  await beginTimeline(durablePool)
  await publish(1)
  return (await readLogState(durablePool)).epoch
}

test.skipIf(!hasNats)('publishes each event once, in order, with its place', async () => {
  const { durablePool } = db.database
  const [live] = await publish(1, { businessId: 'biz_1' })
  // An unmatched payment belongs to no business.
  await publish(1, { businessId: '', kind: 'PAYMENT_UNMATCHED' })
  await publish(1, { businessId: 'biz_2', live: false })
  const { epoch, floor } = await readLogState(durablePool)
  startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await expectMirror(durablePool, reader, FIRST, floor)
  const [message, unmatched] = (await reader.messages(FIRST)).slice(-3)
  expect(unmatched!.subject).toBe('inflow.events.live._.PAYMENT_UNMATCHED')
  expect(message!.subject).toBe('inflow.events.live.biz_1.ACCOUNT_CREATED')
  expect(message!.header('Nats-Msg-Id')).toBe(live)
  expect(message!.header('Inflow-Epoch')).toBe(`${epoch}`)
  expect(message!.header('Inflow-Cursor')).not.toBe('')
  expect(message!.header('Content-Type')).toBe('application/protobuf; proto=inflow.event.v1.Event')
  expect((await reader.last(FIRST))?.subject).toBe('inflow.events.test.biz_2.ACCOUNT_CREATED')
})

test.skipIf(!hasNats)('a stream without its last messages is replaced', async () => {
  const { durablePool } = db.database
  await publish(10)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await relay.stop()
  // The server refuses to delete messages of the relay's streams …
  const { state, config } = await reader.info(FIRST)
  const { streams } = reader.manager
  await expect(streams.deleteMessage(FIRST, state.last_seq)).rejects.toThrow('not permitted')
  await expect(streams.purge(FIRST)).rejects.toThrow('not permitted')
  // … but not those of a stream that an operator made.
  await streams.delete(FIRST)
  await streams.add({ ...config, deny_delete: false, deny_purge: false })
  const other = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await other.stop()
  for (const back of [0, 1, 2]) await streams.deleteMessage(FIRST, state.last_seq - back)
  startRelay(durablePool, server)
  await untilPublished(durablePool, server, SECOND)
  const after = BigInt(state.last_seq - 3)
  await expectMirror(durablePool, reader, SECOND, after)
  expect((await reader.info(SECOND)).config.description).toMatch(
    `sequence 1 is position ${after + 1n}; continues ${FIRST} after its sequence ${after}`,
  )
})

test.skipIf(!hasNats)('a new epoch begins a stream where the logs part', async () => {
  const { durablePool } = db.database
  await publish(10)
  const lost = await publish(3)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  const { end } = await readLogState(durablePool)
  const consumer = { durable_name: 'billing', filter_subject: 'inflow.events.live.>' }
  await reader.manager.consumers.add(FIRST, consumer)
  // A later stream takes the settings of the one before it.
  const changed = { max_age: nanos(7_200_000), max_bytes: 100_000_000 }
  await reader.manager.streams.update(FIRST, changed)
  await loseEvents(durablePool, lost)
  const epoch = await beginEpoch()
  relay.wake()
  await untilPublished(durablePool, server, SECOND)
  await expectMirror(durablePool, reader, SECOND, end.position - 3n)
  const { config } = await reader.info(SECOND)
  expect(config).toMatchObject({ ...changed, deny_purge: true })
  expect(config.description).toBe(
    `Inflow event log, epoch ${epoch}: sequence 1 is position ${end.position - 2n}; continues ${FIRST} after its sequence ${end.position - 3n}`,
  )
  // Consumers of the ended stream read it to its end.
  const ended = await reader.messages(FIRST)
  expect(ended.slice(-3).map(({ header }) => header('Nats-Msg-Id'))).toEqual(lost)
  expect((await reader.info(FIRST)).config.subjects).toEqual([`inflow.ended.${FIRST}`])
  const live = ended.filter(({ subject }) => subject.startsWith('inflow.events.live.'))
  expect((await reader.manager.consumers.info(FIRST, 'billing')).num_pending).toBe(live.length)
})

test.skipIf(!hasNats)('without deleted events, a new stream states what it lacks', async () => {
  const { durablePool } = db.database
  await publish(5)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await relay.stop()
  const { end } = await readLogState(durablePool)
  await publish(20)
  const floor = end.position + 12n
  await expireEvents(durablePool, floor)
  const { log, lines } = captureLog()
  startRelay(durablePool, server, { log })
  await untilPublished(durablePool, server, SECOND)
  await expectMirror(durablePool, reader, SECOND, floor)
  expect((await reader.info(SECOND)).config.description).toMatch(
    `positions ${end.position + 1n} to ${floor} are missing`,
  )
  expect(lines.find(({ level }) => level === 50)).toMatchObject({ missing: '12' })
})

test.skipIf(!hasNats)(
  'a log that contradicts the stream is not published until an operator decides',
  async () => {
    const { durablePool } = db.database
    const { log, lines } = captureLog()
    const relay = startRelay(durablePool, server, { log })
    const lost = await publish(3)
    await untilPublished(durablePool, server, FIRST)
    await relay.stop()
    const publishedIds = async () =>
      (await reader.messages(FIRST)).map(({ header }) => header('Nats-Msg-Id'))
    const published = await publishedIds()
    expect(published.slice(-3)).toEqual(lost)
    // A restore that begins no epoch.
    await loseEvents(durablePool, lost)
    await publish(5)
    const again = startRelay(durablePool, server, { log })
    await waitFor(() => expect(JSON.stringify(lines)).toContain('inflow events epoch bump'))
    expect(again.isUp()).toBe(false)
    expect(await publishedIds()).toEqual(published)
    await beginEpoch()
    await untilPublished(durablePool, server, SECOND)
    const { floor } = await readLogState(durablePool)
    await expectMirror(durablePool, reader, SECOND, floor)
  },
)

test.skipIf(!hasNats)('a stream of a later epoch is left alone', async () => {
  const { durablePool } = db.database
  const { epoch } = await readLogState(durablePool)
  await reader.manager.streams.add({
    name: FIRST,
    subjects: ['inflow.events.>'],
    description: `Inflow event log, epoch ${epoch + 1}: sequence 1 is position 1`,
  })
  const { log, lines } = captureLog()
  startRelay(durablePool, server, { log })
  await waitFor(() =>
    expect(JSON.stringify(lines)).toContain('is this an older copy of the database'),
  )
  expect((await reader.info(FIRST)).state.messages).toBe(0)
})

test.skipIf(!hasNats)(
  'reports how far the stream is behind, and continues once a killed server is back',
  async () => {
    const server = await useNats()
    const { durablePool } = db.database
    await publish(10)
    const { log, lines } = captureLog()
    const relay = startRelay(durablePool, server, { log })
    const metrics = new Registry()
    registerRelayMetrics(createTestRuntime({ durablePool }, { metrics }), relay)
    await untilPublished(durablePool, server, FIRST)
    await waitFor(async () => {
      const text = await metrics.metrics()
      expect(text).toContain('inflow_relay_up 1')
      expect(text).toContain('inflow_relay_lag_rows 0')
      expect(text).toContain('inflow_relay_lag_seconds 0')
      // The server may have lost an acknowledgement: the event was there already then, and does not count.
      expect(text).toMatch(/inflow_relay_events_total [1-9]/)
    })
    await server.kill()
    await publish(7)
    relay.wake()
    await waitFor(async () => {
      const text = await metrics.metrics()
      expect(text).toContain('inflow_relay_up 0')
      expect(text).toContain('inflow_relay_lag_rows 7')
      expect(text).toMatch(/inflow_relay_lag_seconds (?!0$)[\d.e-]+$/m)
    })
    expect(JSON.stringify(lines)).toContain('event relay')
    await server.restart()
    await untilPublished(durablePool, server, FIRST)
    await waitFor(async () => expect(await metrics.metrics()).toContain('inflow_relay_up 1'))
  },
)

/** A draw that makes the pauses of an idle relay the longest. */
const IDLE = 1_000

test.skipIf(!hasNats)('an instance that met another one takes over when that stops', async () => {
  const { durablePool } = db.database
  await publish(3)
  let waits = IDLE
  // What another instance does just before this one publishes, whatever this one knew of the stream.
  let overtake: (() => Promise<void>) | undefined
  let overtaken: Promise<void> | undefined
  let refused = 0
  const relay = createRelay(createTestRuntime({ durablePool }), {
    format: 'protobuf',
    random: () => waits,
    async openSink() {
      const sink = await openSink(server)
      const append = sink.append.bind(sink)
      sink.append = async (stream, message) => {
        overtaken ??= overtake?.()
        await overtaken
        return append(stream, message).catch((error) => {
          if (error instanceof SinkConflict) refused += 1
          throw error
        })
      }
      return sink
    },
  })
  relay.start()
  onTestFinished(() => relay.stop())
  await untilPublished(durablePool, server, FIRST)
  const { end, floor } = await readLogState(durablePool)
  await waitFor(() => expect(relay.publishedUpTo()).toBe(end.position))
  const published = relay.published()

  // Another instance publishes one event meanwhile, and dies.
  const other = await openSink(server)
  onTestFinished(() => other.close())
  const stream = await other.latest()
  overtake = async () => {
    const { entries } = await readLog(durablePool, end.position + 1n, 1)
    await other.append(stream!, toMessage(entries[0]!, end.epoch, 'protobuf'))
  }
  await publish(1)
  waits = 0
  relay.wake()
  await waitFor(() => expect(refused).toBe(1))
  await publish(1)
  await untilPublished(durablePool, server, FIRST)
  await expectMirror(durablePool, reader, FIRST, floor)
  await waitFor(() => expect(relay.published()).toBe(published + 1))
})

test.skipIf(!hasNats)(
  'the next stream begins after what another instance published just before the end of the last one',
  async () => {
    const { durablePool } = db.database
    const { end: before, epoch: present } = await readLogState(durablePool)
    const after = before.position
    await publish(3)
    const { entries } = await readLog(durablePool, after + 1n, 3)
    const [first, second] = entries.map((entry) => toMessage(entry, present, 'protobuf'))
    const sink = await openSink(server)
    onTestFinished(() => sink.close())
    await sink.begin({ epoch: present, after })
    const stream = (await sink.latest())!
    await sink.append(stream, first!)
    const epoch = await beginEpoch()

    const late: EventSink = {
      latest: () => sink.latest(),
      begin: (next, previous) => sink.begin(next, previous),
      append: (...args) => sink.append(...args),
      close: () => sink.close(),
      async end(ending) {
        await sink.append(stream, second!)
        return sink.end(ending)
      },
    }
    const begun = await findStream(createTestRuntime({ durablePool }), late)
    expect(begun).toMatchObject({ name: SECOND, epoch, after: after + 2n, end: after + 2n })
  },
)
