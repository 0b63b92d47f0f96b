import { expect, onTestFinished, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { readLog } from '../../src/events/read-log.ts'
import { toMessage } from '../../src/relay/message.ts'
import { createRelay } from '../../src/relay/relay.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectMirror, openSink, untilPublished, useReader } from './fixture.ts'

const db = useDatabase()
const STREAM = 'INFLOW_EVENTS_1'

/** Seconds between the turns of an idle relay: it waits until it is woken. */
const IDLE = 1_000

test.skipIf(!hasNats)('an instance that met another one takes over when that stops', async () => {
  const server = await startNats()
  onTestFinished(() => server.stop())
  const { durablePool } = db.database
  await writeEvents(durablePool, 3)
  await sequence(durablePool)
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
          refused += 1
          throw error
        })
      }
      return sink
    },
  })
  relay.start()
  onTestFinished(() => relay.stop())
  await untilPublished(durablePool, server, STREAM)
  await waitFor(() => expect(relay.published()).toBe(3))

  // Another instance publishes one event meanwhile, and dies.
  const { end } = await readLogState(durablePool)
  await writeEvents(durablePool, 1)
  await sequence(durablePool)
  const { entries } = await readLog(durablePool, end.position + 1n, 1)
  const other = await openSink(server)
  onTestFinished(() => other.close())
  const stream = await other.latest()
  overtake = () => other.append(stream!, toMessage(entries[0]!, end.epoch, 'protobuf'))
  waits = 0
  relay.wake()
  await waitFor(() => expect(refused).toBe(1))
  await writeEvents(durablePool, 1)
  await sequence(durablePool)
  await untilPublished(durablePool, server, STREAM)
  await expectMirror(durablePool, await useReader(server), STREAM)
  await waitFor(() => expect(relay.published()).toBe(4))
})
