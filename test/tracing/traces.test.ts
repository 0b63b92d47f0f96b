import { afterAll, beforeAll, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { formatTraceparent, parseTraceparent } from '../../src/core/tracing.ts'
import { notify, type Payee, payee, payment } from '../notifications/scene.ts'
import { type Collector, type ExportedSpan, startCollector } from '../support/collector.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { data, openByKey, scopedBusiness, settleTest } from '../thirdparty/scene.ts'

let collector: Collector
let receiver: Receiver

beforeAll(async () => {
  collector = await startCollector()
  receiver = await startReceiver()
})

afterAll(async () => void (await Promise.all([collector.close(), receiver.close()])))

const bank = useFakeBank()
const service = useService(
  {
    BANKS: '9PSB=live',
    OTEL_SERVICE_NAME: 'inflow-test',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=collector%20secret',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_BSP_SCHEDULE_DELAY: '20',
    get OTEL_EXPORTER_OTLP_ENDPOINT() {
      return collector.url
    },
  },
  bank.connectors,
)

const [INTERNAL, SERVER, CLIENT] = [1, 2, 3]
const RECORD = 'inflow.transaction.v1.TransactionService/RecordPayment'

let traces = 0
const newTraceparent = (flags = '01') => {
  traces += 1
  return `00-${String(traces).padStart(32, 'b')}-00f067aa0ba902b7-${flags}`
}

const report = ({ accountNumber }: Payee, sessionId: string) => ({
  bank: Bank.BANK_9PSB,
  amountMinor: 150_050n,
  accountNumber,
  sessionId,
  payer: { name: 'Ngozi Eze', accountNumber: '0123498765' },
  narration: 'school fees',
})

async function payeeWithEndpoint(): Promise<Payee> {
  const to = await payee(service)
  await service
    .client(WebhookService)
    .createEndpoint({ businessId: to.businessId, url: `${receiver.url}/?secret=in-the-url` })
  return to
}

async function received(sessionId: string) {
  const all = await receiver.waitFor((requests) =>
    requests.some(({ rawBody }) => rawBody.includes(sessionId)),
  )
  const { headers, rawBody } = all.find((request) => request.rawBody.includes(sessionId))!
  return { header: headers['traceparent'] as string, body: JSON.parse(rawBody).data.traceparent }
}

/** The spans of a trace, once there are so many, by their names. */
async function spansOf(traceId: string, count: number) {
  const spans = await collector.waitFor((span) => span.traceId === traceId, count)
  expect(spans.map(({ name }) => name)).toHaveLength(count)
  return (name: string): ExportedSpan => {
    const found = spans.filter((span) => span.name === name)
    expect(found, name).toHaveLength(1)
    return found[0]!
  }
}

const contextOf = ({ traceId, spanId }: ExportedSpan) =>
  formatTraceparent({ traceId, spanId, flags: 1 })

test('a payment that a bank reports is one trace, from the notification to the receiver', async () => {
  const to = await payeeWithEndpoint()
  const paid = payment(to.accountNumber)
  bank.payments.set(paid.key, paid)
  await notify(service, paid)
  const { header, body } = await received(paid.session)
  const trace = parseTraceparent(header)!
  const named = await spansOf(trace.traceId, 5)

  const receipt = named('POST /banks/:bank/notifications')
  expect(receipt).toMatchObject({
    kind: SERVER,
    parentSpanId: '',
    status: 0,
    attributes: {
      'http.route': '/banks/:bank/notifications',
      'http.response.status_code': 200,
      'inflow.bank': '9PSB',
      'inflow.notification.outcome': 'RECORDED',
    },
    resource: { 'service.name': 'inflow-test', 'deployment.environment.name': 'test' },
  })
  for (const [name, kind] of [
    ['store notification', INTERNAL],
    ['requery 9PSB', CLIENT],
    ['INSERT transaction', CLIENT],
    ['POST webhook', CLIENT],
  ] as const) {
    expect(named(name)).toMatchObject({ kind, parentSpanId: receipt.spanId, status: 0 })
  }
  const insert = named('INSERT transaction')
  expect(insert.links).toMatchObject([{ traceId: trace.traceId, spanId: receipt.spanId }])
  expect(insert.attributes).toEqual({
    'db.system.name': 'postgresql',
    'db.operation.name': 'INSERT',
    'db.collection.name': 'transaction',
    'db.operation.batch.size': 1,
  })
  const webhook = named('POST webhook')
  expect(header).toBe(contextOf(webhook))
  expect(body).toBe(contextOf(receipt))
  expect(webhook.attributes).toMatchObject({
    'http.request.method': 'POST',
    'http.response.status_code': 200,
    'http.request.resend_count': 0,
    'server.address': '127.0.0.1',
    'inflow.event.kind': 'PAYMENT_NOTIFICATION',
  })
  expect(collector.headers.at(-1)).toMatchObject({
    'x-collector-key': 'collector secret',
    'content-encoding': 'gzip',
  })
})

test.each(['client', 'connectClient'] as const)(
  'a call over %s with a sampled traceparent continues the trace of its caller',
  async (protocol) => {
    const to = await payeeWithEndpoint()
    const traceparent = newTraceparent()
    const { traceId, spanId } = parseTraceparent(traceparent)!
    const sessionId = `continued-${protocol}`
    await service[protocol](TransactionService).recordPayment(report(to, sessionId), {
      headers: { traceparent },
    })
    const { header, body } = await received(sessionId)
    const named = await spansOf(traceId, 3)
    const call = named(RECORD)
    expect(call).toMatchObject({
      kind: SERVER,
      parentSpanId: spanId,
      attributes: {
        'rpc.system.name': protocol === 'client' ? 'grpc' : 'connectrpc',
        'rpc.method': RECORD,
        'rpc.response.status_code': 'OK',
      },
    })
    expect(named('INSERT transaction').parentSpanId).toBe(call.spanId)
    // The payment keeps what it came with, so what follows it is beside the call.
    expect(body).toBe(traceparent)
    expect(named('POST webhook').parentSpanId).toBe(spanId)
    expect(header).toBe(contextOf(named('POST webhook')))
  },
)

test('a traceparent that is not sampled is passed on, and nothing of its trace is recorded', async () => {
  const to = await payeeWithEndpoint()
  const traceparent = newTraceparent('00')
  const { traceId, spanId } = parseTraceparent(traceparent)!
  const client = service.client(TransactionService)
  await client.recordPayment(report(to, 'unsampled'), { headers: { traceparent } })
  const { header, body } = await received('unsampled')
  expect(body).toBe(traceparent)
  expect(parseTraceparent(header)).toMatchObject({ traceId, flags: 0 })
  expect(parseTraceparent(header)!.spanId).not.toBe(spanId)
  // What ends later is exported later.
  const later = newTraceparent()
  await client.recordPayment(report(to, 'sampled-later'), { headers: { traceparent: later } })
  await received('sampled-later')
  await spansOf(parseTraceparent(later)!.traceId, 3)
  expect(collector.spans.filter((span) => span.traceId === traceId)).toEqual([])
})

test('a batch links every payment in it, and is a step of one of them', async () => {
  const to = await payee(service)
  const client = service.client(TransactionService)
  const started = collector.spans.length
  const payments = Array.from({ length: 30 }, (_, at) => report(to, `batch-${at}`))
  await Promise.all(payments.map((each) => client.recordPayment(each)))
  const calls = await collector.waitFor(
    (span) => span.name === RECORD && collector.spans.indexOf(span) >= started,
    30,
  )
  const batches = await collector.waitFor(
    (span) => span.name === 'INSERT transaction' && collector.spans.indexOf(span) >= started,
  )
  const linked = batches.flatMap(({ links }) => links.map(({ spanId }) => spanId))
  expect(linked.toSorted()).toEqual(calls.map(({ spanId }) => spanId).toSorted())
  for (const { links, parentSpanId, traceId, attributes } of batches) {
    expect(links[0]).toMatchObject({ spanId: parentSpanId, traceId })
    expect(attributes['db.operation.batch.size']).toBe(links.length)
  }
})

test('an error of the caller is no error of the service, and a webhook that is refused is one', async () => {
  const to = await payeeWithEndpoint()
  const traceparent = newTraceparent()
  const headers = { traceparent }
  const client = service.client(TransactionService)
  const missing = client.getTransaction({ businessId: 'biz_none', sessionId: 'x' }, { headers })
  await expect(missing).rejects.toThrow()
  const [call] = await collector.waitFor(
    ({ traceId }) => traceId === parseTraceparent(traceparent)!.traceId,
  )
  expect(call).toMatchObject({
    status: 0,
    attributes: { 'rpc.response.status_code': 'NOT_FOUND', 'error.type': 'not_found' },
  })
  const refused = newTraceparent()
  // It is not sent again meanwhile, which would be the exemplar of a later test.
  receiver.answer({ status: 500, headers: { 'retry-after': '3600' }, body: 'Ngozi Eze' })
  await client.recordPayment(report(to, 'refused'), { headers: { traceparent: refused } })
  const { traceId: refusedId } = parseTraceparent(refused)!
  const [webhook] = await collector.waitFor(
    ({ traceId, name }) => traceId === refusedId && name === 'POST webhook',
  )
  receiver.answer({ status: 200 })
  expect(webhook).toMatchObject({
    status: 2,
    attributes: { 'error.type': '500', 'http.response.status_code': 500 },
  })
})

test('a duration shows the trace of a call that took as long, in the format OpenMetrics', async () => {
  const [sampled, unsampled] = [newTraceparent(), newTraceparent('00')]
  for (const traceparent of [unsampled, sampled]) {
    const to = await payeeWithEndpoint()
    const payment = report(to, `exemplar-${traceparent.slice(-2)}`)
    const headers = { traceparent }
    await service.client(TransactionService).recordPayment(payment, { headers })
    await received(payment.sessionId)
  }
  const [shown, hidden] = [sampled, unsampled].map((text) => parseTraceparent(text)!.traceId)
  await waitFor(async () => {
    const response = await fetch(`${service.httpUrl}/metrics`)
    expect(response.headers.get('content-type')).toBe(
      'application/openmetrics-text; version=1.0.0; charset=utf-8',
    )
    const lines = (await response.text()).split('\n')
    expect(lines.slice(-2)).toEqual(['# EOF', ''])
    expect(lines).toContain('# TYPE inflow_payments counter')
    const exemplars = lines.filter((line) => line.includes(`# {trace_id="${shown}"}`))
    expect(exemplars.map((line) => line.split('{')[0])).toEqual(
      expect.arrayContaining([
        'inflow_rpc_duration_seconds_bucket',
        'inflow_webhook_attempt_duration_seconds_bucket',
        'inflow_webhook_delivery_lag_seconds_bucket',
      ]),
    )
    expect(lines.filter((line) => line.includes(hidden!))).toEqual([])
  })
})

test('a settlement is traced', async () => {
  const business = await scopedBusiness(service)
  const { reference } = await openByKey(service, business.test)
  await data(service, business.test, 'simulatePayment', { reference, amount: 100 })
  const settlementId = await settleTest(service, business.id, 1n)
  const [span] = await collector.waitFor(({ name }) => name === 'settle')
  expect(span!.attributes).toEqual({ 'inflow.settlement.id': settlementId })
  // A call over REST.
  const [call] = await collector.waitFor(({ name }) => name.endsWith('/SimulatePayment'))
  expect(call!.attributes).toMatchObject({ 'rpc.system.name': 'http' })
})

test('nothing that was exported has a name, an amount, an account number, an identity number or a secret', () => {
  const exported = collector.text()
  expect(exported.length).toBeGreaterThan(10_000)
  // Times and ids may have the digits of an amount.
  const text = exported.replace(/"(\w*UnixNano|traceId|spanId|parentSpanId)":"\w*"/g, '')
  for (const own of [
    'Ngozi',
    'school fees',
    '0123498765',
    '12345678901',
    '150050',
    '1500.5',
    'in-the-url',
    ADMIN_TOKEN,
    'collector secret',
    'whsec_',
    'sk_live_',
    'Acme',
    CUSTOMER.firstName,
    CUSTOMER.email,
    ...[...bank.accounts.values()].flat(),
  ]) {
    expect(text.includes(own), own).toBe(false)
  }
})
