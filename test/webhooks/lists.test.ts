import { timestampMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Delivery,
  DeliveryStatus,
  HeaderOmission,
} from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import type { Endpoint } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import {
  type OpenedAccount,
  openAccount,
  paymentInto,
  transactionsOf,
} from '../transactions/fixture.ts'

const service = useSharedService()
const webhooks = (token?: string) => service.client(WebhookService, token)
let good: Receiver
let bad: Receiver
let one: OpenedAccount
let two: OpenedAccount
/** Of business one, in the order of creation: `first` acknowledges, `second` refuses. */
let first: Endpoint
let second: Endpoint
let third: Endpoint
let startedMs: number

const SESSIONS = ['lists-1', 'lists-2', 'lists-3']

beforeAll(async () => {
  good = await startReceiver()
  bad = await startReceiver()
  // Nothing is retried within the test.
  bad.answer({ status: 500, headers: { 'retry-after': '3600' }, body: 'no' })
  one = await openAccount(service)
  two = await openAccount(service)
  const create = async (request: Parameters<ReturnType<typeof webhooks>['createEndpoint']>[0]) =>
    (await webhooks().createEndpoint(request)).endpoint!
  startedMs = Date.now()
  first = await create({
    businessId: one.businessId,
    url: good.url,
    options: {
      headers: { headers: [{ name: 'X-Tenant', value: 'hidden-value' }] },
      authentication: { method: { case: 'basic', value: { username: 'ada', password: 'pw' } } },
    },
  })
  second = await create({ businessId: one.businessId, url: bad.url, description: 'Orders' })
  third = await create({ businessId: two.businessId, url: good.url, live: false })
  for (const sessionId of SESSIONS) {
    await transactionsOf(service).recordPayment(paymentInto(one.number, { sessionId }))
  }
  await good.waitFor((requests) => requests.length === SESSIONS.length)
  await bad.waitFor((requests) => requests.length === SESSIONS.length)
  const allAre = (endpointId: string, isDone: (delivery: Delivery) => boolean) =>
    waitUntil(async () => {
      const { deliveries } = await webhooks().listDeliveries({ endpointId })
      return deliveries.length === SESSIONS.length && deliveries.every(isDone)
    })
  await allAre(first.id, ({ status }) => status === DeliveryStatus.DELIVERED)
  await allAre(second.id, ({ attemptCount }) => attemptCount === 1)
})

afterAll(async () => {
  await good?.close()
  await bad?.close()
})

test('a delivery names its payment and its endpoint, wherever it is read', async () => {
  const { deliveries } = await webhooks().listDeliveries({ endpointId: second.id })
  const { transactions } = await transactionsOf(service).listTransactions({
    businessId: one.businessId,
  })
  const endpoint = { endpointUrl: bad.url, endpointDescription: 'Orders' }
  const named = transactions.map(({ id, amountMinor, customerName }) => ({
    ...endpoint,
    payment: { transactionId: id, amountMinor, customerName },
  }))
  expect(deliveries).toMatchObject(named)
  expect(named[0]!.payment.customerName).not.toBe('')
  const [{ id: deliveryId, eventId }] = deliveries as [Delivery]
  expect((await webhooks().getDelivery({ deliveryId })).delivery).toMatchObject(named[0]!)
  const ofEvent = await webhooks().listDeliveries({ eventId, endpointId: second.id })
  expect(ofEvent.deliveries).toMatchObject([named[0]])
  // An event about no payment.
  const { eventId: testId } = await webhooks().sendTestEvent({ endpointId: third.id })
  const [test] = await waitUntil(async () => {
    const { deliveries: found } = await webhooks().listDeliveries({ eventId: testId })
    return found.length === 1 && found
  })
  expect(test).toMatchObject({ endpointUrl: good.url, endpointDescription: '' })
  expect(test!.payment).toBeUndefined()
})

test('a delivery shows the request as it is sent, without secrets', async () => {
  const { deliveries } = await webhooks().listDeliveries({ endpointId: first.id, pageSize: 1 })
  const [{ id: deliveryId, eventId }] = deliveries as [(typeof deliveries)[number]]
  const { request } = await webhooks().getDelivery({ deliveryId })
  const sent = good.requests.find(({ headers }) => headers['webhook-id'] === eventId)!
  expect(request).toMatchObject({ method: 'POST', url: good.url, body: sent.rawBody })
  const shown = new Map(request!.headers.map((header) => [header.name, header]))
  expect(shown.get('webhook-id')).toMatchObject({ value: eventId, omission: 0 })
  for (const name of ['webhook-timestamp', 'webhook-signature']) {
    expect(shown.get(name)).toMatchObject({ value: '', omission: HeaderOmission.BY_ATTEMPT })
  }
  for (const name of ['x-tenant', 'authorization']) {
    expect(shown.get(name)).toMatchObject({ value: '', omission: HeaderOmission.SECRET })
  }
  expect(JSON.stringify(request)).not.toContain('hidden-value')
  // All but those of the connection.
  const own = Object.keys(sent.headers).filter(
    (name) => !['host', 'connection', 'content-length'].includes(name),
  )
  expect([...shown.keys()].toSorted()).toEqual(own.toSorted())
})

test('the request of a deleted endpoint is not shown, but whose it was', async () => {
  const { businessId } = one
  const { endpoint } = await webhooks().createEndpoint({ businessId, url: good.url })
  const { eventId } = await webhooks().sendTestEvent({ endpointId: endpoint!.id })
  const { id: deliveryId } = await waitUntil(
    async () => (await webhooks().listDeliveries({ eventId })).deliveries[0],
  )
  await webhooks().deleteEndpoint({ endpointId: endpoint!.id })
  const { delivery, request, ...owner } = await webhooks().getDelivery({ deliveryId })
  expect(delivery?.id).toBe(deliveryId)
  expect(request).toBeUndefined()
  expect(owner).toMatchObject({ businessId, live: true })
})

test('statistics count the deliveries of the last 24 hours by the hour', async () => {
  const request = { endpointIds: [second.id, first.id, 'ep_none'] }
  const { statistics } = await webhooks().getEndpointStatistics(request)
  expect(statistics).toMatchObject([
    { endpointId: second.id, deliveryCount: 3, attemptCount: 3n, deliveredCount: 0 },
    { endpointId: first.id, deliveryCount: 3, attemptCount: 3n, deliveredCount: 3, failedCount: 0 },
  ])
  const [refusing, acknowledging] = statistics
  expect(refusing).toMatchObject({ pendingCount: 3 })
  expect(timestampMs(refusing!.oldestPendingAt!)).toBeGreaterThanOrEqual(startedMs)
  expect(acknowledging!.oldestPendingAt).toBeUndefined()
  expect(acknowledging!.hours).toHaveLength(24)
  const delivered = acknowledging!.hours.map(({ deliveredCount }) => deliveredCount)
  expect(delivered.reduce((sum, count) => sum + count)).toBe(3)
  expect(acknowledging!.latencyP95Ms).toBeGreaterThanOrEqual(acknowledging!.latencyP50Ms)
  const attempts = refusing!.hours.map(({ attemptCount }) => Number(attemptCount))
  expect(attempts.reduce((sum, count) => sum + count)).toBe(3)

  // What fails in the same way is one entry, which names a delivery.
  expect(refusing!.failures).toEqual([])
  const alone = await webhooks().getEndpointStatistics({ endpointIds: [second.id] })
  const [failure, ...others] = alone.statistics[0]!.failures
  expect(others).toEqual([])
  expect(failure).toMatchObject({ statusCode: 500, deliveryCount: 3 })
  expect(failure!.deliveryId).toMatch(/^dlv_/)

  // What was created two days ago does not count, and an hour ago has an hour of its own.
  await service.database.durablePool.query(
    `update webhook_delivery d set created_at = date_trunc('hour', now()) - age
      from (select id, position, interval '1 hour' * (array[0.5, 48, 0])[row_number() over ()] as age
        from webhook_delivery where endpoint_id = $1) o where d.id = o.id and d.position = o.position`,
    [first.id],
  )
  const { businessId } = one
  const later = await webhooks().getEndpointStatistics({ businessId })
  const counted = later.statistics.find(({ endpointId }) => endpointId === first.id)!
  expect(counted).toMatchObject({ deliveryCount: 2, deliveredCount: 2 })
  expect(counted.hours.slice(-3).map(({ deliveredCount }) => deliveredCount)).toEqual([0, 1, 1])
})
