import { expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { type CapturedLog, listen } from '../relay/captured-log.ts'
import { startCollector } from '../support/collector.ts'
import { useDatabase } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

async function trace(environment: NodeJS.ProcessEnv): Promise<[Instance, CapturedLog]> {
  const { tracing } = readConfig({
    OTEL_BSP_SCHEDULE_DELAY: '10',
    OTEL_BSP_MAX_QUEUE_SIZE: '20',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '10',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector-secret',
    ...environment,
  })
  const captured = listen()
  return [await startInstance(db.url, { tracing }, captured.log), captured]
}

/** Calls the service, many more times than the queue has room for. */
async function callOften(instance: Instance, times = 100): Promise<void> {
  const client = instance.client(BusinessService)
  await Promise.all(Array.from({ length: times }, () => client.listBusinesses({})))
}

const linesOf = ({ lines }: CapturedLog) =>
  lines().filter(({ msg }) => msg === 'spans could not be exported and are lost')

test.each([
  ['refuses connections', undefined, 'ECONNREFUSED'],
  ['never responds', 'hang', 'Request timed out'],
  ['responds 503', 503, expect.any(String)],
  ['responds 400', 400, 400],
] as const)('a collector that %s costs one line of log, and no call', async (_, how, reason) => {
  const collector = how === undefined ? undefined : await startCollector()
  if (how !== undefined) collector?.answer(how)
  onTestFinished(() => collector?.close())
  const url = collector?.url ?? `http://127.0.0.1:${await freePort()}`
  const [instance, captured] = await trace({
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    // The exporter repeats what is refused until then; a response that is final must arrive before, on any machine.
    OTEL_EXPORTER_OTLP_TIMEOUT: how === 400 ? '30000' : '200',
  })
  try {
    await callOften(instance)
    await waitFor(() => expect(linesOf(captured)).toHaveLength(1))
    await callOften(instance)
  } finally {
    // Exports what is left.
    await instance.close()
  }
  expect(linesOf(captured)).toEqual([
    expect.objectContaining({ level: 40, collector: new URL(url).host, reason }),
  ])
  expect(linesOf(captured)[0]!['spans']).toBeLessThanOrEqual(20)
  expect(captured.text()).not.toContain('collector-secret')
})

test('a stop does not wait for a collector that never responds', async () => {
  const collector = await startCollector()
  onTestFinished(() => collector.close())
  collector.answer('hang')
  const [instance] = await trace({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_TIMEOUT: '600000',
    OTEL_BSP_EXPORT_TIMEOUT: '600000',
  })
  await callOften(instance, 5)
  await instance.close()
})

test('what has ended is exported before the service stops, however long the delay', async () => {
  const collector = await startCollector()
  onTestFinished(() => collector.close())
  const [instance] = await trace({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/custom/path`,
    OTEL_BSP_SCHEDULE_DELAY: '600000',
    OTEL_BSP_MAX_QUEUE_SIZE: '100',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '100',
  })
  await callOften(instance, 5)
  expect(collector.spans).toEqual([])
  await instance.close()
  expect(collector.spans.filter(({ name }) => name.endsWith('/ListBusinesses'))).toHaveLength(5)
  expect(collector.headers[0]).toMatchObject({ authorization: 'Bearer collector-secret' })
})

test.each([
  ['always_off', undefined, 0],
  ['parentbased_always_off', undefined, 0],
  ['traceidratio', '0', 0],
  ['parentbased_traceidratio', '1', 20],
  ['always_on', undefined, 20],
])('the sampler %s with %s records what it should', async (name, argument, expected) => {
  const collector = await startCollector()
  onTestFinished(() => collector.close())
  const [instance] = await trace({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_TRACES_SAMPLER: name,
    OTEL_TRACES_SAMPLER_ARG: argument,
    OTEL_BSP_MAX_QUEUE_SIZE: '100',
  })
  await callOften(instance, 20)
  await instance.close()
  const calls = collector.spans.filter(({ name }) => name.endsWith('/ListBusinesses'))
  expect(calls).toHaveLength(expected)
})

test('lines about a call have its trace id, also where the trace is only passed on', async () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  for (const environment of [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }]) {
    const [instance, captured] = await trace(environment)
    const missing = { businessId: 'biz_none' }
    const client = instance.client(BusinessService)
    await expect(client.getBusiness(missing, { headers: { traceparent } })).rejects.toThrow()
    const own = captured.lines().filter(({ trace_id }) => trace_id !== undefined)
    expect(own).toMatchObject([
      { trace_id: '4bf92f3577b34da6a3ce929d0e0e4736', request_id: expect.any(String) },
    ])
    await expect(client.getBusiness(missing)).rejects.toThrow()
    const last = captured.lines().findLast(({ rpc }) => rpc !== undefined)
    const isOn = 'OTEL_EXPORTER_OTLP_ENDPOINT' in environment
    expect(last!['trace_id']).toEqual(isOn ? expect.stringMatching(/^[0-9a-f]{32}$/) : undefined)
    await instance.close()
  }
})
