import { expect, onTestFinished, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { readLog } from '../../src/events/read-log.ts'
import type { EventSink } from '../../src/relay/event-sink.ts'
import { findStream } from '../../src/relay/find-stream.ts'
import { toMessage } from '../../src/relay/message.ts'
import { useDatabase } from '../support/database.ts'
import { beginTimeline, sequence, writeEvents } from '../support/events.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { listen } from './captured-log.ts'
import { openSink } from './fixture.ts'

const db = useDatabase()
const EPOCH = 1

test.skipIf(!hasNats)(
  'the next stream begins after what another instance published just before the end of the last one',
  async () => {
    const server = await startNats()
    onTestFinished(() => server.stop())
    const { durablePool } = db.database
    await writeEvents(durablePool, 3)
    await sequence(durablePool)
    const { entries } = await readLog(durablePool, 1n, 3)
    const [first, second] = entries.map((entry) => toMessage(entry, EPOCH, 'protobuf'))
    const sink = await openSink(server)
    onTestFinished(() => sink.close())
    await sink.begin({ epoch: EPOCH, after: 0n })
    const stream = (await sink.latest())!
    await sink.append(stream, first!)
    await beginTimeline(durablePool)
    await writeEvents(durablePool, 1)
    await sequence(durablePool)

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
    const { log } = listen()
    const begun = await findStream(createTestRuntime({ durablePool }, { log }), { sink: late })
    const { epoch } = await readLogState(durablePool)
    expect(begun).toMatchObject({ name: 'INFLOW_EVENTS_2', epoch, after: 2n, end: 2n })
  },
)
