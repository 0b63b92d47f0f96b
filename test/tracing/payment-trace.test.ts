import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openTracing } from '../../src/app/start-service.ts'
import { readConfig } from '../../src/config/config.ts'
import { formatTraceparent, paymentTraceOf } from '../../src/tracing/tracing.ts'

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

async function beginCall(sampler: string) {
  const { tracing: settings } = readConfig({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    OTEL_TRACES_SAMPLER: sampler,
  })
  const tracing = (await openTracing(settings, pino({ level: 'silent' })))!
  onTestFinished(() => tracing.close())
  return tracing.start('call')
}

test('a payment without a traceparent keeps that of its own span, if it is recorded', async () => {
  const recorded = await beginCall('always_on')
  expect(paymentTraceOf({ span: recorded })).toEqual({
    traceparent: formatTraceparent(recorded.context),
    span: recorded,
  })
  const unrecorded = await beginCall('always_off')
  expect(unrecorded.child('step')).toBeUndefined()
  expect(paymentTraceOf({ span: unrecorded }).traceparent).toBeUndefined()
  expect(paymentTraceOf(undefined).traceparent).toBeUndefined()
})

test.each(['always_on', 'always_off'])(
  'a payment with a traceparent keeps it, with the sampler %s',
  async (sampler) => {
    const span = await beginCall(sampler)
    expect(paymentTraceOf({ traceparent: TRACEPARENT, span }).traceparent).toBe(TRACEPARENT)
  },
)
