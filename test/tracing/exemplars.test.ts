import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { payee } from '../notifications/scene.ts'
import { hasPromtool } from '../ops/rules.ts'
import { type Collector, startCollector } from '../support/collector.ts'
import { makeFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const TRACE = 'e'.repeat(32)
/** Of a caller that records nothing of it. */
const UNSAMPLED = 'f'.repeat(32)

let collector: Collector
let receiver: Receiver

beforeAll(async () => {
  collector = await startCollector()
  receiver = await startReceiver()
})

afterAll(async () => void (await Promise.all([collector.close(), receiver.close()])))

const service = useService({
  get OTEL_EXPORTER_OTLP_ENDPOINT() {
    return collector.url
  },
})

/** A Prometheus that scrapes the service every tenth of a second. @returns its URL */
async function startPrometheus(): Promise<string> {
  const folder = await makeFolder('prometheus')
  const port = await freePort()
  const config = {
    global: { scrape_interval: '100ms', scrape_timeout: '100ms' },
    storage: { exemplars: { max_exemplars: 1_000 } },
    scrape_configs: [
      { job_name: 'inflow', static_configs: [{ targets: [new URL(service.httpUrl).host] }] },
    ],
  }
  const file = join(folder, 'prometheus.yaml')
  await writeFile(file, JSON.stringify(config))
  const child = spawn(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--enable-feature=exemplar-storage',
    ],
    { stdio: 'ignore' },
  )
  onTestFinished(async () => {
    if (child.exitCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
    await rm(folder, { recursive: true, force: true })
  })
  return `http://127.0.0.1:${port}`
}

interface Series {
  readonly exemplars: readonly { readonly labels: unknown }[]
}

/** Asks the API of a Prometheus. */
async function api<Data>(prometheus: string, path: string): Promise<Data> {
  const response = await fetch(`${prometheus}/api/v1/${path}`)
  return ((await response.json()) as { readonly data: Data }).data
}

async function pay(traceId: string, flags = '01'): Promise<void> {
  const to = await payee(service)
  await service
    .client(WebhookService)
    .createEndpoint({ businessId: to.businessId, url: receiver.url })
  const payment = {
    bank: Bank.BANK_9PSB,
    amountMinor: 150_050n,
    accountNumber: to.accountNumber,
    sessionId: `traced-${traceId}`,
  }
  const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}` }
  await service.client(TransactionService).recordPayment(payment, { headers })
  await receiver.waitFor((requests) =>
    requests.some(({ rawBody }) => rawBody.includes(payment.sessionId)),
  )
}

test('a duration shows the trace of a call that took as long, in the format OpenMetrics', async () => {
  await pay(UNSAMPLED, '00')
  await pay(TRACE)
  await waitFor(async () => {
    const response = await fetch(`${service.httpUrl}/metrics`)
    expect(response.headers.get('content-type')).toBe(
      'application/openmetrics-text; version=1.0.0; charset=utf-8',
    )
    const lines = (await response.text()).split('\n')
    expect(lines.slice(-2)).toEqual(['# EOF', ''])
    expect(lines).toContain('# TYPE inflow_payments counter')
    const exemplars = lines.filter((line) => line.includes(`# {trace_id="${TRACE}"}`))
    expect(exemplars.map((line) => line.split('{')[0])).toEqual(
      expect.arrayContaining([
        'inflow_rpc_duration_seconds_bucket',
        'inflow_webhook_attempt_duration_seconds_bucket',
        'inflow_webhook_delivery_lag_seconds_bucket',
      ]),
    )
    expect(lines.filter((line) => line.includes(UNSAMPLED))).toEqual([])
  })
})

test.skipIf(!hasPromtool)('Prometheus stores the exemplars', async () => {
  const traceId = 'd'.repeat(32)
  await pay(traceId)
  const prometheus = await startPrometheus()
  await waitFor(async () => {
    const targets = await api<{ activeTargets: unknown[] }>(prometheus, 'targets')
    expect(targets.activeTargets).toMatchObject([{ health: 'up', lastError: '' }])
    for (const name of ['rpc_duration', 'webhook_attempt_duration', 'webhook_delivery_lag']) {
      const query = new URLSearchParams({
        query: `inflow_${name}_seconds_bucket`,
        start: String(Date.now() / 1_000 - 3_600),
        end: String(Date.now() / 1_000 + 3_600),
      })
      const found = await api<Series[]>(prometheus, `query_exemplars?${query}`)
      const labels = found.flatMap(({ exemplars }) => exemplars.map((exemplar) => exemplar.labels))
      expect(labels).toContainEqual({ trace_id: traceId })
    }
  })
})
