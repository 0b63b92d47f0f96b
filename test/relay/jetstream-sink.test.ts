import { expect, onTestFinished, test } from 'vitest'
import { type EventMessage, SinkConflict } from '../../src/relay/event-sink.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { openSink, useReader } from './fixture.ts'

const message = (id: string, position: bigint): EventMessage => ({
  id,
  position,
  mode: 'live',
  businessId: 'biz_1',
  kind: 'ACCOUNT_CREATED',
  cursor: 'cursor',
  epoch: 1,
  contentType: 'text/plain',
  body: new Uint8Array(1),
})

test.skipIf(!hasNats)(
  'a stream takes only the event after its last one, until it has ended',
  async () => {
    const server = await startNats()
    onTestFinished(() => server.stop())
    const sink = await openSink(server)
    onTestFinished(() => sink.close())
    await sink.begin({ epoch: 1, after: 10n })
    const stream = (await sink.latest())!
    expect(stream).toMatchObject({ name: 'INFLOW_EVENTS_1', epoch: 1, after: 10n, end: 10n })
    const conflict = (id: string, position: bigint) =>
      expect(sink.append(stream, message(id, position))).rejects.toThrow(SinkConflict)
    await conflict('evt_2', 12n)
    await sink.append(stream, message('evt_1', 11n))
    await conflict('evt_other', 11n)
    await conflict('evt_1', 11n)
    await conflict('evt_3', 13n)
    await sink.append(stream, message('evt_2', 12n))

    // Another instance begins the next stream, or the same one.
    const ended = await sink.end(stream)
    expect(ended).toMatchObject({ end: 12n, isOpen: false, last: { position: 12n } })
    await expect(sink.append(stream, message('evt_3', 13n))).rejects.toThrow()
    await sink.begin({ epoch: 2, after: 12n }, ended)
    await sink.begin({ epoch: 2, after: 12n }, ended)
    await expect(sink.begin({ epoch: 2, after: 11n }, ended)).rejects.toThrow(SinkConflict)
    await conflict('evt_3', 13n)
    // Nor at the sequence that the next stream expects.
    await conflict('evt_other', 11n)
    const next = (await sink.latest())!
    expect(next).toMatchObject({ name: 'INFLOW_EVENTS_2', epoch: 2, after: 12n, end: 12n })

    // An instance dies before it begins the third.
    await sink.end(next)
    expect(await sink.latest()).toMatchObject({ name: 'INFLOW_EVENTS_2', isOpen: false })
  },
)

test.skipIf(!hasNats)(
  'a stream whose messages have all expired goes on where it ended',
  async () => {
    const server = await startNats()
    onTestFinished(() => server.stop())
    const sink = await openSink(server)
    onTestFinished(() => sink.close())
    const reader = await useReader(server)
    await reader.manager.streams.add({
      name: 'INFLOW_EVENTS_1',
      subjects: ['inflow.events.>'],
      description: 'Inflow event log, epoch 1: sequence 1 is position 11',
    })
    const stream = (await sink.latest())!
    await sink.append(stream, message('evt_1', 11n))
    await sink.append(stream, message('evt_2', 12n))
    await reader.manager.streams.purge(stream.name)
    const expired = (await sink.latest())!
    expect(expired).toMatchObject({ end: 12n, last: undefined, isOpen: true })
    await sink.append(expired, message('evt_3', 13n))
    expect(await sink.latest()).toMatchObject({ end: 13n, last: { position: 13n } })
  },
)
