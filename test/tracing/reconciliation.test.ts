import { afterAll, beforeAll, expect, test } from 'vitest'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { payee } from '../notifications/scene.ts'
import { fakeBanks, OLD_MS } from '../reconciliation/scene.ts'
import { type Collector, startCollector } from '../support/collector.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

let collector: Collector
let receiver: Receiver

beforeAll(async () => {
  collector = await startCollector()
  receiver = await startReceiver()
})

afterAll(async () => void (await Promise.all([collector.close(), receiver.close()])))

const { palmPay, environment } = await fakeBanks()
const service = useService({
  ...environment,
  BANKS: 'PALMPAY=live',
  OTEL_BSP_SCHEDULE_DELAY: '20',
  get OTEL_EXPORTER_OTLP_ENDPOINT() {
    return collector.url
  },
})

const [INTERNAL, CLIENT] = [1, 3]

test('a payment that reconciliation finds is one trace, from the bank to the receiver', async () => {
  const to = await payee(service, Bank.BANK_PALMPAY)
  await service
    .client(WebhookService)
    .createEndpoint({ businessId: to.businessId, url: receiver.url })
  palmPay.receive(to.accountNumber, '20', { atMs: Date.now() - OLD_MS })
  // The first run may have listed the payments before this one.
  await waitFor(async () => {
    const { rows } = await service.database.durablePool.query(
      `update reconciliation_run set next_at = '2000-01-01' where not in_progress returning bank`,
    )
    expect(rows).toHaveLength(1)
  })
  const [record] = await collector.waitFor(({ name }) => name === 'record missing payment')
  expect(record).toMatchObject({
    ...{ kind: INTERNAL, parentSpanId: '', status: 0, attributes: { 'inflow.bank': 'PALMPAY' } },
  })
  const steps = await collector.waitFor(({ parentSpanId }) => parentSpanId === record!.spanId, 3)
  expect(new Set(steps.map(({ name, traceId }) => `${traceId} ${name}`))).toEqual(
    new Set(
      ['requery PALMPAY', 'INSERT transaction', 'POST webhook'].map(
        (name) => `${record!.traceId} ${name}`,
      ),
    ),
  )
  const [list] = await collector.waitFor(({ name }) => name === 'list payments PALMPAY')
  expect(list).toMatchObject({
    ...{ kind: CLIENT, parentSpanId: '', status: 0, attributes: { 'inflow.bank': 'PALMPAY' } },
  })
})
