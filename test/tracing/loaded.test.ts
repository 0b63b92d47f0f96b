import { expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { startCollector } from '../support/collector.ts'
import { useDatabase } from '../support/database.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { startProcess } from '../support/process.ts'
import { answeredBy } from '../support/workers.ts'

const db = useDatabase()

/**
 * Preloaded into the service: writes the address of each module of OpenTelemetry as it is loaded, except those of its
 * API, which the metrics load.
 */
const REPORT = `
  import { registerHooks } from 'node:module'
  registerHooks({
    load(url, context, next) {
      if (/@opentelemetry\\/(?!api\\/)/.test(url)) process.stderr.write('loaded ' + url + '\\n')
      return next(url, context)
    },
  })`

async function start(environment: NodeJS.ProcessEnv) {
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(REPORT)}`
  const service = await startProcess({ DATABASE_URL: db.url, NODE_OPTIONS, ...environment }, true)
  onTestFinished(service.kill)
  return service
}

test.each([{}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_SDK_DISABLED: 'true' }])(
  'without tracing, the SDK of OpenTelemetry is not loaded: %j',
  async (environment) => {
    const service = await start(environment)
    expect((await fetch(`${service.httpUrl}/readyz`)).status).toBe(200)
    expect(await service.stop()).toBe(0)
    expect(service.output()).not.toContain('@opentelemetry')
  },
)

test('each worker process traces, and exports what is left when it stops', async () => {
  const collector = await startCollector()
  onTestFinished(() => collector.close())
  const service = await start({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '600000',
    WORKERS: '2',
    LOG_LEVEL: 'debug',
  })
  expect(service.output()).toMatch(/^loaded \S+\/@opentelemetry\/sdk-trace\//m)
  // Which worker gets a connection is up to the system.
  let calls = 0
  for (; answeredBy(service, '/ListBusinesses').size < 2; calls++) {
    expect(calls).toBeLessThan(200)
    await grpcClient(BusinessService, service.grpcUrl).listBusinesses({})
  }
  expect(await service.stop()).toBe(0)
  const traced = collector.spans.filter(({ name }) => name.endsWith('/ListBusinesses'))
  expect(traced).toHaveLength(calls)
})

test('a certificate that cannot be read stops the start, with the name of the setting', async () => {
  const starting = start({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://127.0.0.1:9',
    OTEL_EXPORTER_OTLP_CERTIFICATE: '/nonexistent/missing.pem',
  })
  await expect(starting).rejects.toThrow(/OTEL_EXPORTER_OTLP_CERTIFICATE cannot be read: ENOENT/)
})
