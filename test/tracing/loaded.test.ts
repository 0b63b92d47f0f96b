import { expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { startProcess } from '../support/process.ts'
import { waitFor } from '../support/wait-for.ts'

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

test('without tracing, the SDK of OpenTelemetry is not loaded', async () => {
  const service = await startProcess(
    {
      DATABASE_URL: db.url,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(REPORT)}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      OTEL_SDK_DISABLED: 'true',
    },
    true,
  )
  onTestFinished(service.kill)
  await waitFor(async () => expect((await fetch(`${service.httpUrl}/readyz`)).status).toBe(200))
  expect(await service.stop()).toBe(0)
  expect(service.output()).not.toContain('@opentelemetry')
})
