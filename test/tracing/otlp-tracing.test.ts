import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { openTracing } from '../../src/app/start-service.ts'
import { readConfig } from '../../src/config/config.ts'
import { formatTraceparent, paymentTraceOf, type Tracing } from '../../src/core/tracing.ts'
import { type CapturedLog, captureLog } from '../support/captured-log.ts'
import { startCollector } from '../support/collector.ts'
import { freePort } from '../support/free-port.ts'
import { startInstance } from '../support/instance.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

async function trace(environment: NodeJS.ProcessEnv): Promise<[Tracing, CapturedLog]> {
  const { tracing: settings } = readConfig({
    OTEL_BSP_SCHEDULE_DELAY: '10',
    OTEL_BSP_MAX_QUEUE_SIZE: '20',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '10',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector-secret',
    ...environment,
  })
  const captured = captureLog()
  const tracing = (await openTracing(settings, captured.log))!
  return [tracing, captured]
}

/** Traces calls, by default many more than the queue has room for. */
function traceCalls(tracing: Tracing, count = 100): void {
  for (let each = 0; each < count; each++) tracing.start('call').end()
}

const linesOf = ({ lines }: CapturedLog) =>
  lines.filter(({ msg }) => msg === 'spans could not be exported and are lost')

test.each([
  ['refuses connections', undefined, expect.stringMatching(/^(ECONNREFUSED|Request timed out)$/)],
  ['never responds', 'hang', 'Request timed out'],
  ['responds 503', 503, expect.any(String)],
  ['responds 400', 400, 400],
] as const)('a collector that %s costs one line of log, and no call', async (_, how, reason) => {
  const collector = how === undefined ? undefined : await startCollector()
  if (how !== undefined) collector?.answer(how)
  onTestFinished(() => collector?.close())
  const url = collector?.url ?? `http://127.0.0.1:${await freePort()}`
  const [tracing, captured] = await trace({
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    // The exporter repeats what is refused until then; a response that is final must arrive before, on any machine.
    OTEL_EXPORTER_OTLP_TIMEOUT: how === 400 ? '30000' : '200',
  })
  traceCalls(tracing)
  await waitFor(() => expect(linesOf(captured)).toHaveLength(1))
  traceCalls(tracing)
  await tracing.close()
  expect(linesOf(captured)).toEqual([
    expect.objectContaining({ level: 40, collector: new URL(url).host, reason }),
  ])
  expect(linesOf(captured)[0]!['spans']).toBeLessThanOrEqual(20)
  expect(JSON.stringify(captured.lines)).not.toContain('collector-secret')
})

test('what has ended is exported before the service stops, however long the delay', async () => {
  const collector = await startCollector()
  onTestFinished(() => collector.close())
  const [tracing] = await trace({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/custom/path`,
    OTEL_BSP_SCHEDULE_DELAY: '600000',
    OTEL_BSP_MAX_QUEUE_SIZE: '100',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '100',
  })
  traceCalls(tracing, 5)
  expect(collector.spans).toEqual([])
  await tracing.close()
  expect(collector.spans).toHaveLength(5)
  expect(collector.headers[0]).toMatchObject({ authorization: 'Bearer collector-secret' })
})

test.each([
  ['parentbased_always_off', undefined, 0],
  ['traceidratio', '0', 0],
  ['parentbased_traceidratio', '1', 20],
  ['always_on', undefined, 20],
])('the sampler %s with %s records what it should', async (name, argument, expected) => {
  const collector = await startCollector()
  onTestFinished(() => collector.close())
  const [tracing] = await trace({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_TRACES_SAMPLER: name,
    OTEL_TRACES_SAMPLER_ARG: argument,
    OTEL_BSP_MAX_QUEUE_SIZE: '100',
  })
  traceCalls(tracing, 20)
  await tracing.close()
  expect(collector.spans).toHaveLength(expected)
})

test('a certificate that cannot be read is an error with the name of the setting', async () => {
  const { tracing: settings } = readConfig({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://127.0.0.1:9',
    OTEL_EXPORTER_OTLP_CERTIFICATE: '/nonexistent/missing.pem',
  })
  await expect(openTracing(settings, pino({ level: 'silent' }))).rejects.toThrow(
    /OTEL_EXPORTER_OTLP_CERTIFICATE cannot be read: ENOENT/,
  )
})

test.each([
  ['always_on', true],
  ['always_off', false],
])('a payment keeps its traceparent, or else that of a recorded span: %s', async (name, isOn) => {
  const [tracing] = await trace({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    OTEL_TRACES_SAMPLER: name,
  })
  onTestFinished(() => tracing.close())
  const span = tracing.start('call')
  expect(paymentTraceOf({ traceparent: TRACEPARENT, span }).traceparent).toBe(TRACEPARENT)
  const own = isOn ? formatTraceparent(span.context) : undefined
  expect(paymentTraceOf({ span }).traceparent).toBe(own)
  expect(span.child('step') === undefined).toBe(!isOn)
  expect(paymentTraceOf(undefined).traceparent).toBeUndefined()
})

const service = useSharedService()

test.each([{}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }])(
  'lines about a call have its trace id, also where the trace is only passed on: %j',
  async (environment) => {
    const captured = captureLog()
    const { tracing } = readConfig(environment)
    const instance = await startInstance(service.url, { tracing }, captured.log)
    onTestFinished(() => instance.close())
    const missing = { businessId: 'biz_none' }
    const client = instance.client(BusinessService)
    const headers = { traceparent: TRACEPARENT }
    await expect(client.getBusiness(missing, { headers })).rejects.toThrow()
    const own = captured.lines.filter(({ trace_id }) => trace_id !== undefined)
    expect(own).toMatchObject([
      { trace_id: '4bf92f3577b34da6a3ce929d0e0e4736', request_id: expect.any(String) },
    ])
    await expect(client.getBusiness(missing)).rejects.toThrow()
    const last = captured.lines.findLast(({ rpc }) => rpc !== undefined)
    const isOn = tracing !== undefined
    expect(last!['trace_id']).toEqual(isOn ? expect.stringMatching(/^[0-9a-f]{32}$/) : undefined)
  },
)
