import { fromJson, type JsonValue } from '@bufbuild/protobuf'
import { nanos } from '@nats-io/transport-node'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { registerRelayMetrics } from '../../src/relay/metrics.ts'
import { useDatabase } from '../support/database.ts'
import {
  beginTimeline,
  expireEvents,
  loseEvents,
  sequence,
  writeEvents,
} from '../support/events.ts'
import { hasNats, type NatsServer, startNats } from '../support/nats.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor } from '../support/wait-for.ts'
import { listen } from './captured-log.ts'
import { expectMirror, logIds, startRelay, untilPublished, useReader } from './fixture.ts'

const db = useDatabase()
const FIRST = 'INFLOW_EVENTS_1'
const SECOND = 'INFLOW_EVENTS_2'

async function useNats(...extra: string[]): Promise<NatsServer> {
  const server = await startNats(...extra)
  onTestFinished(() => server.stop())
  return server
}

/** Adds events to the log. @returns their ids */
async function publish(count: number, options = {}): Promise<string[]> {
  const { durablePool } = db.database
  const ids = await writeEvents(durablePool, count, options)
  await sequence(durablePool)
  return ids
}

/** A new epoch, with a first event. */
async function beginEpoch(): Promise<number> {
  const { durablePool } = db.database
  await beginTimeline(durablePool)
  await publish(1)
  return (await readLogState(durablePool)).epoch
}

test.skipIf(!hasNats)('publishes each event once, in order, with its place', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  const [live] = await publish(1, { businessId: 'biz_1' })
  await publish(1, { businessId: 'biz_2', live: false })
  const { epoch, floor } = await readLogState(durablePool)
  startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  const reader = await useReader(server)
  await expectMirror(durablePool, reader, FIRST, floor)
  const message = (await reader.messages(FIRST)).at(-2)!
  expect(message.subject).toBe('inflow.events.live.biz_1.ACCOUNT_CREATED')
  expect(message.header('Nats-Msg-Id')).toBe(live)
  expect(message.header('Inflow-Epoch')).toBe(`${epoch}`)
  expect(message.header('Inflow-Cursor')).not.toBe('')
  expect(message.header('Content-Type')).toBe('application/protobuf; proto=inflow.event.v1.Event')
  expect((await reader.last(FIRST))?.subject).toBe('inflow.events.test.biz_2.ACCOUNT_CREATED')
})

test.skipIf(!hasNats)('publishes JSON if that is the format', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  const [id] = await publish(1)
  startRelay(durablePool, server, { format: 'json' })
  await untilPublished(durablePool, server, FIRST)
  const last = (await (await useReader(server)).last(FIRST))!
  expect(last.header.get('Content-Type')).toBe('application/json')
  const event = fromJson(EventSchema, last.json<JsonValue>(), { ignoreUnknownFields: false })
  const { end } = await readLogState(durablePool)
  expect([event.id, event.position]).toEqual([id, end.position])
})

test.skipIf(!hasNats)('three relays publish each event once, and a fourth continues', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  await publish(2_000)
  const relays = [1, 2, 3].map(() => startRelay(durablePool, server))
  for (let i = 0; i < 10; i++) {
    await publish(100)
    for (const relay of relays) relay.wake()
  }
  await untilPublished(durablePool, server, FIRST)
  await Promise.all(relays.map((relay) => relay.stop()))
  await publish(500)
  startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await expectMirror(durablePool, await useReader(server), FIRST)
})

test.skipIf(!hasNats)('a killed server gets the events once it is back', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  const log = listen()
  const relay = startRelay(durablePool, server, { log: log.log })
  await publish(500)
  await untilPublished(durablePool, server, FIRST)
  await server.kill()
  await publish(500)
  relay.wake()
  await waitFor(() => expect(relay.isUp()).toBe(false))
  await waitFor(() => expect(log.text()).toContain('event relay'))
  await server.restart()
  await untilPublished(durablePool, server, FIRST)
  expect(relay.isUp()).toBe(true)
  await expectMirror(durablePool, await useReader(server), FIRST)
})

test.skipIf(!hasNats)('what a server lost is published again, at the same sequences', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  const relay = startRelay(durablePool, server)
  await publish(300)
  await untilPublished(durablePool, server, FIRST)
  await relay.stop()
  await server.kill()
  await server.saveStore()
  await server.restart()
  const again = startRelay(durablePool, server)
  await publish(300)
  await untilPublished(durablePool, server, FIRST)
  await server.kill()
  await server.restoreStore()
  await server.restart()
  await untilPublished(durablePool, server, FIRST)
  await again.stop()
  await expectMirror(durablePool, await useReader(server), FIRST)
})

test.skipIf(!hasNats)('a stream without its last messages is replaced', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  await publish(10)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await relay.stop()
  const reader = await useReader(server)
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
  const server = await useNats()
  const { durablePool } = db.database
  await publish(10)
  const lost = await publish(3)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  const { end } = await readLogState(durablePool)
  const consumer = { durable_name: 'billing', filter_subject: 'inflow.events.live.>' }
  const reader = await useReader(server)
  await reader.manager.consumers.add(FIRST, consumer)
  await loseEvents(durablePool, lost)
  const epoch = await beginEpoch()
  relay.wake()
  await untilPublished(durablePool, server, SECOND)
  await expectMirror(durablePool, reader, SECOND, end.position - 3n)
  const { config } = await reader.info(SECOND)
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

test.skipIf(!hasNats)('a later stream takes the settings of the one before it', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  await publish(1)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  const reader = await useReader(server)
  const changed = { max_age: nanos(7_200_000), max_bytes: 100_000_000 }
  await reader.manager.streams.update(FIRST, changed)
  await beginEpoch()
  relay.wake()
  await untilPublished(durablePool, server, SECOND)
  expect((await reader.info(SECOND)).config).toMatchObject({ ...changed, deny_purge: true })
})

test.skipIf(!hasNats)('without deleted events, a new stream states what it lacks', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  await publish(5)
  const relay = startRelay(durablePool, server)
  await untilPublished(durablePool, server, FIRST)
  await relay.stop()
  const { end } = await readLogState(durablePool)
  await publish(20)
  const floor = end.position + 12n
  await expireEvents(durablePool, floor)
  const log = listen()
  startRelay(durablePool, server, { log: log.log })
  await untilPublished(durablePool, server, SECOND)
  const reader = await useReader(server)
  await expectMirror(durablePool, reader, SECOND, floor)
  expect((await reader.info(SECOND)).config.description).toMatch(
    `positions ${end.position + 1n} to ${floor} are missing`,
  )
  expect(log.lines().find(({ level }) => level === 50)).toMatchObject({ missing: '12' })
})

test.skipIf(!hasNats)(
  'a log that contradicts the stream is not published until an operator decides',
  async () => {
    const server = await useNats()
    const { durablePool } = db.database
    const log = listen()
    const relay = startRelay(durablePool, server, { log: log.log })
    const lost = await publish(3)
    await untilPublished(durablePool, server, FIRST)
    await relay.stop()
    const reader = await useReader(server)
    const publishedIds = async () =>
      (await reader.messages(FIRST)).map(({ header }) => header('Nats-Msg-Id'))
    const published = await publishedIds()
    expect(published.slice(-3)).toEqual(lost)
    // A restore that begins no epoch.
    await loseEvents(durablePool, lost)
    await publish(5)
    const again = startRelay(durablePool, server, { log: log.log })
    await waitFor(() => expect(log.text()).toContain('inflow events epoch bump'))
    expect(again.isUp()).toBe(false)
    expect(await publishedIds()).toEqual(published)
    await beginEpoch()
    await untilPublished(durablePool, server, SECOND)
    const { floor } = await readLogState(durablePool)
    await expectMirror(durablePool, reader, SECOND, floor)
  },
)

test.skipIf(!hasNats)('a stream of a later epoch is left alone', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  const { epoch } = await readLogState(durablePool)
  const reader = await useReader(server)
  await reader.manager.streams.add({
    name: FIRST,
    subjects: ['inflow.events.>'],
    description: `Inflow event log, epoch ${epoch + 1}: sequence 1 is position 1`,
  })
  const log = listen()
  startRelay(durablePool, server, { log: log.log })
  await waitFor(() => expect(log.text()).toContain('is this an older copy of the database'))
  expect((await reader.info(FIRST)).state.messages).toBe(0)
})

test.skipIf(!hasNats)('reports how far the stream is behind', async () => {
  const server = await useNats()
  const { durablePool } = db.database
  await publish(10)
  const relay = startRelay(durablePool, server)
  const metrics = new Registry()
  registerRelayMetrics(createTestRuntime({ durablePool }, { metrics }), relay)
  await untilPublished(durablePool, server, FIRST)
  await waitFor(async () => {
    const text = await metrics.metrics()
    expect(text).toContain('inflow_relay_up 1')
    expect(text).toContain('inflow_relay_lag_rows 0')
    expect(text).toContain('inflow_relay_lag_seconds 0')
    expect(text).toContain(
      `inflow_relay_events_total ${(await logIds(durablePool, (await readLogState(durablePool)).floor)).length}`,
    )
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
})
