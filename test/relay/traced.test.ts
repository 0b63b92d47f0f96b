import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openTracing } from '../../src/app/start-service.ts'
import { readConfig } from '../../src/config/config.ts'
import { parseTraceparent } from '../../src/tracing/tracing.ts'
import { startCollector } from '../support/collector.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { startRelay, untilPublished, useReader } from './fixture.ts'

const db = useDatabase()
const STREAM = 'INFLOW_EVENTS_1'
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

test.skipIf(!hasNats)(
  'a message continues the trace of its payment, with a span of its own where tracing is on',
  async () => {
    const { durablePool } = db.database
    const server = await startNats()
    onTestFinished(() => server.stop())
    const collector = await startCollector()
    onTestFinished(() => collector.close())
    const reader = await useReader(server)
    const publish = async (count: number, traceparent?: string) => {
      await writeEvents(durablePool, count, traceparent === undefined ? {} : { traceparent })
      await sequence(durablePool)
      await untilPublished(durablePool, server, STREAM)
      const messages = await reader.messages(STREAM)
      return messages.slice(-count).map(({ header }) => header('traceparent'))
    }
    const untraced = startRelay(durablePool, server)
    expect(await publish(1)).toEqual([''])
    expect(await publish(2, TRACEPARENT)).toEqual([TRACEPARENT, TRACEPARENT])
    await untraced.stop()

    const { tracing: settings } = readConfig({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: '20',
    })
    const tracing = await openTracing(settings, pino({ level: 'silent' }))
    startRelay(durablePool, server, { tracing })
    expect(await publish(1)).toEqual([''])
    const [header] = await publish(1, TRACEPARENT)
    const { traceId, spanId } = parseTraceparent(header)!
    const [span] = await collector.waitFor((each) => each.spanId === spanId)
    expect(span).toMatchObject({
      name: `send ${STREAM}`,
      kind: 4,
      traceId,
      parentSpanId: '00f067aa0ba902b7',
      attributes: { 'messaging.system.name': 'nats', 'messaging.destination.name': STREAM },
    })
    expect(traceId).toBe(parseTraceparent(TRACEPARENT)!.traceId)
    expect(collector.spans).toHaveLength(1)
    await tracing!.close()
  },
)
