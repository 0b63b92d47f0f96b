import { expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { openAccount, openShop, pay, transfer } from '../overview/scene.ts'
import { useDatabase } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { startProxy } from '../support/proxy.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { scrape } from '../support/scrape.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const service = useService()
const other = useDatabase(1)

const LIVE = 'bank="9PSB",mode="live"'
const UNKNOWN = 'bank="9PSB",mode="unknown"'

/** Waits for the values of some series: metrics are rendered once a second, and samples last longer. */
async function expectSeries(url: string, series: Readonly<Record<string, unknown>>) {
  await waitFor(async () => {
    const { value } = await scrape(url)
    const found = Object.fromEntries(Object.keys(series).map((name) => [name, value(name)]))
    expect(found).toEqual(series)
  })
}

test('payments are counted by outcome, bank and mode, amounts by bank, and what waits for review', async () => {
  const start = await scrape(service.httpUrl)
  // An alert sees no increase from absent to 1.
  for (const outcome of ['RECORDED', 'DUPLICATE', 'CONFLICT'])
    expect(start.value(`inflow_payments_total{outcome="${outcome}",${LIVE}}`)).toBe(0)
  for (const outcome of ['UNMATCHED', 'UNAVAILABLE', 'REFUSED'])
    expect(start.value(`inflow_payments_total{outcome="${outcome}",${UNKNOWN}}`)).toBe(0)
  const shop = await openShop(service)
  const { sessionId } = await pay(service, shop, 150_050n)
  await pay(service, shop, 50n)
  const report = (accountNumber: string, session: string, amountMinor: bigint) =>
    service.client(TransactionService).recordPayment({
      bank: Bank.BANK_9PSB,
      accountNumber,
      sessionId: session,
      amountMinor,
    })
  await report(shop.accountNumber, sessionId, 150_050n)
  await report(shop.accountNumber, sessionId, 999n)
  await report('0000000000', 'unmatched-1', 77n)
  await expectSeries(service.httpUrl, {
    [`inflow_payments_total{outcome="RECORDED",${LIVE}}`]: 2,
    [`inflow_payments_total{outcome="DUPLICATE",${LIVE}}`]: 1,
    [`inflow_payments_total{outcome="CONFLICT",${LIVE}}`]: 1,
    [`inflow_payments_total{outcome="UNMATCHED",${UNKNOWN}}`]: 1,
    [`inflow_payment_amount_kobo_total{${LIVE}}`]: 150_100,
    'inflow_payments_total{outcome="RECORDED",bank="PALMPAY",mode="live"}': 0,
    'inflow_review_items{kind="UNMATCHED_PAYMENT"}': 1,
    'inflow_review_items{kind="PAYMENT_CONFLICT"}': 1,
    'inflow_review_items{kind="HELD_NOTIFICATION"}': 0,
    'inflow_review_oldest_seconds{kind="UNMATCHED_PAYMENT"}': expect.closeTo(20, -2),
    'inflow_batch_items_count{batcher="payments"}': 5,
    'inflow_batch_items_sum{batcher="payments"}': 5,
    'inflow_batch_duration_seconds_count{batcher="payments"}': 5,
    'inflow_batch_duration_seconds_count{batcher="conflicts"}': 1,
    'inflow_batch_failures_total{batcher="payments"}': 0,
  })
})

test('test mode has series of its own', async () => {
  const shop = await openShop(service)
  const terms = { live: false }
  const { accountNumber } = await openAccount(service, shop.businessId, { terms })
  const before = (await scrape(service.httpUrl)).value(`inflow_payment_amount_kobo_total{${LIVE}}`)
  await transfer(service, accountNumber, 4_200n)
  await expectSeries(service.httpUrl, {
    'inflow_payments_total{outcome="RECORDED",bank="9PSB",mode="test"}': 1,
    'inflow_payment_amount_kobo_total{bank="9PSB",mode="test"}': 4_200,
    [`inflow_payment_amount_kobo_total{${LIVE}}`]: before,
  })
})

// Samples last ten seconds: two tests wait for them at the same time.
test.concurrent('webhook attempts, delays and the backlog follow the receivers', async ({
  onTestFinished,
}) => {
  const [receiver, failing] = [await startReceiver(), await startReceiver()]
  for (const each of [receiver, failing]) onTestFinished(() => each.close())
  failing.answer({ status: 500 })
  const webhooks = service.client(WebhookService)
  const payInto = async ({ url }: Receiver) => {
    const shop = await openShop(service)
    const { endpoint } = await webhooks.createEndpoint({ businessId: shop.businessId, url })
    await pay(service, shop)
    return endpoint!.id
  }
  await payInto(receiver)
  await payInto(failing)
  const disabled = await payInto(failing)
  // As if it had failed for five days.
  await waitFor(() => expect(failing.requests.length).toBeGreaterThanOrEqual(2))
  await service.database.durablePool.query(
    "update webhook_endpoint set disabled_at = now(), disabled_reason = 'FAILING' where id = $1",
    [disabled],
  )
  const atLeastTwo = expect.toSatisfy((count: number) => count >= 2)
  await expectSeries(service.httpUrl, {
    'inflow_webhook_attempts_total{outcome="acknowledged",mode="live"}': 1,
    'inflow_webhook_attempts_total{outcome="rejected",mode="live"}': atLeastTwo,
    'inflow_webhook_attempts_total{outcome="rejected",mode="test"}': 0,
    'inflow_webhook_attempt_duration_seconds_count{mode="live"}': atLeastTwo,
    'inflow_webhook_delivery_lag_seconds_count{mode="live"}': 1,
    'inflow_webhook_delivery_lag_seconds_bucket{le="30",mode="live"}': 1,
    'inflow_webhook_deliveries_failed_total{mode="live"}': 0,
    'inflow_webhook_deliveries_pending{state="enabled",mode="live"}': 0,
    'inflow_webhook_deliveries_pending{state="failing",mode="live"}': 1,
    'inflow_webhook_deliveries_pending{state="disabled",mode="live"}': 1,
    'inflow_webhook_deliveries_pending{state="failing",mode="test"}': 0,
    'inflow_webhook_oldest_pending_seconds{state="failing",mode="live"}': expect.closeTo(20, -2),
    'inflow_webhook_oldest_due_seconds{state="failing",mode="live"}': 0,
    'inflow_webhook_unhealthy_endpoints{state="failing",mode="live"}': 1,
    'inflow_webhook_unhealthy_endpoints{state="disabled",mode="live"}': 1,
  })
})

test.concurrent('while the database is unavailable, a scrape responds, and shows no old value of it', async ({
  onTestFinished,
}) => {
  const wire = await startProxy(other.url, onTestFinished)
  const cut = await startInstance(wire.through)
  onTestFinished(cut.close)
  const url = cut.httpUrl
  const ofDatabase = [
    'inflow_sequencer_lag_seconds',
    'inflow_db_in_recovery',
    'inflow_webhook_deliveries_pending{state="enabled",mode="live"}',
    'inflow_review_items{kind="PAYMENT_CONFLICT"}',
    'inflow_settlement_lag_seconds',
  ]
  const shown = async () => {
    const { value } = await scrape(url)
    return ofDatabase.filter((series) => value(series) !== undefined)
  }
  await waitFor(async () => expect(await shown()).toEqual(ofDatabase))
  await wire.block()
  await waitFor(async () => expect(await shown()).toEqual([]))
  const { value } = await scrape(url)
  expect(value('inflow_ready')).toBe(0)
  expect(value('process_start_time_seconds')).toBeGreaterThan(0)
  await wire.unblock()
  await waitFor(async () => expect(await shown()).toEqual(ofDatabase))
})

test('a pool without a free connection shows who waits, and for how long', async () => {
  const { relaxedPool } = service.database
  const { max } = relaxedPool.options
  const held = await Promise.all(Array.from({ length: max }, () => relaxedPool.connect()))
  let isOver = false
  const wait = async () => {
    // One that waits for long is refused.
    do await relaxedPool.query('select 1').catch(() => undefined)
    while (!isOver)
  }
  const waiting = wait()
  await waitFor(async () => {
    const { value } = await scrape(service.httpUrl)
    expect(value('inflow_db_pool_connections{pool="relaxed",state="used"}')).toBe(max)
    expect(value('inflow_db_pool_connections{pool="relaxed",state="idle"}')).toBe(0)
    expect(value('inflow_db_pool_connections_max{pool="relaxed"}')).toBe(max)
    expect(value('inflow_db_pool_waiting{pool="relaxed"}')).toBeGreaterThanOrEqual(1)
  })
  const series = 'inflow_db_pool_wait_seconds_sum{pool="relaxed"}'
  const before = (await scrape(service.httpUrl)).value(series)!
  isOver = true
  for (const client of held) client.release()
  await waiting
  // It waited for at least the second between two scrapes.
  await waitFor(async () => {
    const { value } = await scrape(service.httpUrl)
    expect(value(series)! - before).toBeGreaterThan(0.001)
    expect(value('inflow_db_pool_waiting{pool="relaxed"}')).toBe(0)
  })
  expect(
    (await scrape(service.httpUrl)).value('inflow_db_pool_wait_seconds_count{pool="main"}'),
  ).toBeGreaterThan(0)
})
