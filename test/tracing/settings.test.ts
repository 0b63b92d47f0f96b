import { expect, test } from 'vitest'
import { type ConfigError, readConfig } from '../../src/config/config.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example:4318/otlp' }

function faultsOf(environment: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(environment)
    return []
  } catch (error) {
    return (error as ConfigError).faults
  }
}

test.each([
  [{}],
  [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' }],
  [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }],
  [{ OTEL_SERVICE_NAME: 'without an endpoint' }],
])('nothing is traced with %j', (environment) => {
  expect(readConfig(environment).tracing).toBeUndefined()
})

test('the defaults are those of the specification', () => {
  expect(readConfig(ENDPOINT).tracing).toEqual({
    url: 'https://collector.example:4318/otlp/v1/traces',
    headers: {},
    timeoutMs: 10_000,
    compression: 'none',
    sampler: { isParentBased: true, ratio: 1 },
    resource: { 'service.name': 'inflow' },
    queueMax: 2_048,
    batchMax: 512,
    delayMs: 5_000,
    exportTimeoutMs: 30_000,
  })
})

test('settings of traces take precedence over those of all signals, and headers are merged', () => {
  const { tracing } = readConfig({
    ...ENDPOINT,
    OTEL_SDK_DISABLED: 'false',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://traces.example/as/it/is',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=all, tenant=a%2Cb',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'api-key=traces',
    OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '2000',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_EXPORTER_OTLP_CERTIFICATE: 'all.pem',
    OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: 'traces.pem',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=replaced,deployment.environment.name=live%20one',
    OTEL_SERVICE_NAME: 'payments',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.01',
  })
  expect(tracing).toMatchObject({
    url: 'http://traces.example/as/it/is',
    headers: { 'api-key': 'traces', tenant: 'a,b' },
    timeoutMs: 2_000,
    compression: 'gzip',
    caFile: 'traces.pem',
    sampler: { isParentBased: false, ratio: 0.01 },
    resource: { 'service.name': 'payments', 'deployment.environment.name': 'live one' },
  })
})

test.each([
  ['OTEL_SDK_DISABLED', 'yes', 'must be true or false'],
  ['OTEL_TRACES_EXPORTER', 'jaeger', 'must be one of otlp, none'],
  ['OTEL_SERVICE_NAME', 'x'.repeat(256), 'must have at most 255 characters'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'name', /^must be pairs such as /],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', /^must be a URL such as /],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'grpc://collector', /^must be a URL such as /],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', 'must be one of http/json'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'my-secret', /^must be pairs such as name=value/],
  ['OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'key=my-secret%', /^must be pairs such as name=value/],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', '0', 'must be 1 to 600000 milliseconds'],
  ['OTEL_EXPORTER_OTLP_COMPRESSION', 'zstd', 'must be one of none, gzip'],
  ['OTEL_TRACES_SAMPLER', 'jaeger_remote', /^must be one of always_on, /],
  ['OTEL_TRACES_SAMPLER_ARG', '1.5', 'must be a number from 0 to 1'],
  ['OTEL_BSP_SCHEDULE_DELAY', '0', 'must be 1 to 600000 milliseconds'],
  ['OTEL_BSP_MAX_QUEUE_SIZE', '1000000', 'must be 1 to 100000 spans'],
  [
    'OTEL_BSP_MAX_EXPORT_BATCH_SIZE',
    '4096',
    'must be at most OTEL_BSP_MAX_QUEUE_SIZE, which is 2048',
  ],
])('%s=%s stops the start, with one line', (name, value, text) => {
  const faults = faultsOf({ ...ENDPOINT, [name]: value })
  expect(faults).toHaveLength(1)
  expect(faults[0]!.startsWith(`${name} `)).toBe(true)
  expect(faults[0]!.slice(name.length + 1)).toMatch(text)
  expect(faults[0]).not.toContain('my-secret')
})
