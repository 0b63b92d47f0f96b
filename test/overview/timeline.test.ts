import { timestampMs } from '@bufbuild/protobuf/wkt'
import { beforeEach, expect, test } from 'vitest'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import type { Timeline } from '../../gen/inflow/overview/v1/timeline_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  RecorderKind,
  TransactionStatus,
  Variance,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { DeliveryStatus } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { openShop, pay, restricted, settleAll } from './scene.ts'

const service = useSharedService()

let receiver: Receiver
beforeEach(async () => {
  receiver = await startReceiver()
  return receiver.close
})

const overview = () => service.client(OverviewService)

async function timelineOf(transactionId: string, client = overview()): Promise<Timeline> {
  return (await client.getTimeline({ transactionId })).timeline!
}

/** Waits until the timeline has what a check expects. */
const timelineWith = (transactionId: string, check: (timeline: Timeline) => void) =>
  waitFor(async () => {
    const timeline = await timelineOf(transactionId)
    check(timeline)
    return timeline
  })

const casesOf = ({ steps }: Timeline) => steps.map(({ step }) => step.case)

const stepOf = (timeline: Timeline, name: Timeline['steps'][number]['step']['case']) =>
  timeline.steps.find(({ step }) => step.case === name)?.step.value

const addEndpoint = async (businessId: string, url = receiver.url) =>
  (await service.client(WebhookService).createEndpoint({ businessId, url })).endpoint!.id

test('shows a payment from its recording to its reversal, in the order of time', async () => {
  const shop = await openShop(service)
  const endpointId = await addEndpoint(shop.businessId, `${receiver.url}/hook`)
  receiver.answer({ status: 200, body: 'thanks' })
  const paid = await pay(service, shop)
  await timelineWith(paid.id, (timeline) =>
    expect(casesOf(timeline)).toEqual(['paymentRecorded', 'eventNumbered', 'deliveryAttempted']),
  )
  const settlementId = await settleAll(service, shop.businessId, 1n)
  const client = service.client(TransactionService)
  await client.reverseTransaction({ transactionId: paid.id, reason: 'recalled' })
  const timeline = await timelineWith(paid.id, (found) => {
    expect(found.deliveries).toHaveLength(2)
    expect(found.deliveries.every(({ delivery }) => delivery!.status === 2)).toBe(true)
  })

  expect(timeline.transaction).toMatchObject({
    id: paid.id,
    status: TransactionStatus.REVERSED,
    settled: true,
    reversal: { reason: 'recalled' },
    recorder: { kind: RecorderKind.TOKEN, id: 'bootstrap' },
  })
  expect(timeline.accountId).toMatch(/^acc_/)
  expect(casesOf(timeline).filter((step) => step !== 'deliveryAttempted')).toEqual([
    'paymentRecorded',
    'eventNumbered',
    'paymentSettled',
    'paymentReversed',
    'eventNumbered',
  ])
  const times = timeline.steps.map(({ at }) => timestampMs(at!))
  expect(times).toEqual([...times].sort((a, b) => a - b))
  expect(stepOf(timeline, 'paymentRecorded')).toMatchObject({ connector: 'sandbox', held: false })
  expect(stepOf(timeline, 'eventNumbered')).toMatchObject({
    kind: 'PAYMENT_NOTIFICATION',
    eventId: expect.stringMatching(/^evt_/),
    businessSequence: 2n,
  })
  expect(stepOf(timeline, 'paymentSettled')).toMatchObject({ settlementId, amountMinor: 150_050n })
  expect(stepOf(timeline, 'paymentReversed')).toMatchObject({
    reason: 'recalled',
    actorKind: 'bootstrap',
    auditNumber: expect.any(BigInt),
  })
  expect(stepOf(timeline, 'deliveryAttempted')).toMatchObject({
    endpointId,
    attempt: { number: 1, statusCode: 200, responseBody: 'thanks', error: '' },
  })
  expect(timeline.deliveries[0]).toMatchObject({
    endpointUrl: `${receiver.url}/hook`,
    delivery: { status: DeliveryStatus.DELIVERED, eventKind: 'PAYMENT_NOTIFICATION' },
    attemptsTruncated: false,
  })
  const sums = new Map<string, bigint>()
  for (const { debitAccount, creditAccount, amountMinor } of timeline.postings) {
    sums.set(debitAccount, (sums.get(debitAccount) ?? 0n) - amountMinor)
    sums.set(creditAccount, (sums.get(creditAccount) ?? 0n) + amountMinor)
  }
  // It was reversed: nothing is left in any account.
  expect([...sums.values()].every((sum) => sum === 0n)).toBe(true)
  expect(timeline.postings.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['payment', 'settlement', 'payment_reversal']),
  )
  expect(timeline).toMatchObject({ expectedSteps: [], truncated: false })
})

test('shows when a failed delivery is attempted again, and when the payment is settled', async () => {
  const shop = await openShop(service)
  await addEndpoint(shop.businessId)
  receiver.answer({ status: 500, body: 'out of order' })
  const paid = await pay(service, shop)
  const timeline = await timelineWith(paid.id, (found) =>
    expect(casesOf(found)).toContain('deliveryAttempted'),
  )
  expect(stepOf(timeline, 'deliveryAttempted')).toMatchObject({
    attempt: {
      statusCode: 500,
      responseBody: 'out of order',
      error: expect.stringContaining('500'),
    },
  })
  const { delivery } = timeline.deliveries[0]!
  expect(delivery).toMatchObject({
    status: DeliveryStatus.PENDING,
    attemptCount: expect.any(Number),
  })
  expect(timeline.expectedSteps.map(({ step }) => step)).toEqual([
    { case: 'nextAttemptDeliveryId', value: delivery!.id },
    { case: 'settlement', value: true },
  ])
  expect(timeline.expectedSteps[0]!.dueAt).toEqual(delivery!.dueAt)
  expect(timeline.expectedSteps[1]!.dueAt).toEqual(timeline.transaction!.settlesAt)
})

test('shows at most the latest twenty attempts of a delivery, and says so', async () => {
  const shop = await openShop(service)
  const endpointId = await addEndpoint(shop.businessId)
  const paid = await pay(service, shop)
  const { deliveries } = await timelineWith(paid.id, (found) =>
    expect(found.deliveries[0]?.delivery?.status).toBe(DeliveryStatus.DELIVERED),
  )
  const { id } = deliveries[0]!.delivery!
  await service.database.durablePool.query(
    `insert into webhook_attempt (delivery_id, number, position, started_at, latency_ms, status, response_body, error)
      select d.id, -n, d.position, d.started_at - n * interval '1 s', 1, 500, repeat('x', 4096), 'x'
      from webhook_delivery d, generate_series(1, 30) n where d.id = $1`,
    [id],
  )
  await service.database.durablePool.query(
    'update webhook_delivery set attempts = 31 where id = $1',
    [id],
  )
  const timeline = await timelineOf(paid.id)
  const attempts = timeline.steps.filter(({ step }) => step.case === 'deliveryAttempted')
  expect(attempts).toHaveLength(20)
  expect(
    attempts.every(({ step }) => (step.value as { endpointId: string }).endpointId === endpointId),
  ).toBe(true)
  expect(timeline.deliveries[0]).toMatchObject({ attemptsTruncated: true })
  expect(timeline.deliveries[0]!.delivery!.latestAttempt).toMatchObject({ responseBody: '' })
})

test('shows at most a hundred deliveries and a mebibyte of bodies, and says that there is more', async () => {
  const shop = await openShop(service)
  await addEndpoint(shop.businessId)
  const paid = await pay(service, shop)
  await timelineWith(paid.id, (found) =>
    expect(found.deliveries[0]?.delivery?.status).toBe(DeliveryStatus.DELIVERED),
  )
  const { durablePool } = service.database
  await durablePool.query(
    `with copies as (
        insert into webhook_endpoint (id, business_id, url, kinds, description, concurrency, after_position,
          created_at, live, deleted_at)
        select 'ep_' || lpad(n::text, 26, '0'), e.business_id, e.url, e.kinds, '', 1, e.after_position, e.created_at,
          e.live, now()
        from webhook_endpoint e, generate_series(1, 110) n where e.business_id = $1 returning id
      ), delivery as (
        select d.* from webhook_delivery d join webhook_endpoint e on e.id = d.endpoint_id where e.business_id = $1
      )
      insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims, created_at,
        completed_at, started_at, latency_ms, status, response_body, error)
      select 'dlv_' || c.id, c.id, d.position, d.state, 4, d.due_at, 1, d.created_at, d.completed_at,
        d.started_at, 1, 200, repeat('y', 4096), ''
      from delivery d, copies c`,
    [shop.businessId],
  )
  await durablePool.query(
    `insert into webhook_attempt (delivery_id, number, position, started_at, latency_ms, status, response_body, error)
      select d.id, n, d.position, d.started_at - interval '1 min', 1, 500, repeat('x', 4096), 'x'
      from webhook_delivery d, generate_series(1, 3) n where d.id like 'dlv_ep_%'`,
  )
  const timeline = await timelineOf(paid.id)
  expect(timeline.deliveries).toHaveLength(100)
  expect(timeline.truncated).toBe(true)
  const bodies = timeline.steps.map(({ step }) =>
    step.case === 'deliveryAttempted' ? step.value.attempt!.responseBody : '',
  )
  const bytes = bodies.reduce((sum, body) => sum + body.length, 0)
  expect(bytes).toBeLessThanOrEqual(1024 ** 2)
  expect(bytes).toBeGreaterThan(1024 ** 2 - 4_097)
  // The newest keep theirs.
  expect(bodies.filter((body) => body.startsWith('y'))).toHaveLength(100)
})

test('shows what became of a payment that was held', async () => {
  const shop = await openShop(service, { terms: { amountMinor: 500n } })
  const accepted = await pay(service, shop, 400n)
  const held = service.client(HeldPaymentService)
  expect(await timelineOf(accepted.id)).toMatchObject({ expectedSteps: [] })
  await held.acceptPayment({ transactionId: accepted.id })
  const timeline = await timelineWith(accepted.id, (found) =>
    expect(casesOf(found).filter((step) => step === 'eventNumbered')).toHaveLength(2),
  )
  expect(stepOf(timeline, 'paymentRecorded')).toMatchObject({
    held: true,
    variance: Variance.UNDERPAID,
  })
  expect(stepOf(timeline, 'holdDecided')).toMatchObject({ holdState: HoldState.ACCEPTED })
  expect(timeline.postings.map(({ kind }) => kind).sort()).toEqual(['acceptance', 'payment'])
  expect(timeline.expectedSteps).toMatchObject([{ step: { case: 'settlement' } }])

  const returned = await pay(service, shop, 300n)
  await held.returnPayment({ transactionId: returned.id, reason: 'too little' })
  await held.completeReturn({ transactionId: returned.id, note: 'by transfer' })
  const end = await timelineOf(returned.id)
  expect(stepOf(end, 'paymentReversed')).toMatchObject({
    reason: 'by transfer',
    actorKind: 'bootstrap',
  })
})

test('shows the reports that contradict a payment to operators, and to no business', async () => {
  const shop = await openShop(service)
  const paid = await pay(service, shop)
  const { outcome } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: shop.accountNumber,
    amountMinor: 1n,
    sessionId: paid.sessionId,
  })
  expect(outcome).toBe(4)
  const reconciliation = service.client(ReconciliationService)
  const { conflicts } = await reconciliation.listPaymentConflicts({})
  const conflict = conflicts.find(({ transactionId }) => transactionId === paid.id)!
  await reconciliation.resolvePaymentConflict({ conflictId: conflict.id, note: 'a mistake' })
  const timeline = await timelineOf(paid.id)
  expect(stepOf(timeline, 'conflictReported')).toMatchObject({ id: conflict.id, amountMinor: 1n })
  expect(stepOf(timeline, 'conflictResolved')).toMatchObject({ note: 'a mistake' })

  const own = await restricted(service, shop.businessId)
  const seen = await timelineOf(paid.id, own)
  expect(casesOf(seen)).not.toContain('conflictReported')
  expect(casesOf(seen)).not.toContain('conflictResolved')
  expect(stepOf(seen, 'paymentRecorded')).toMatchObject({
    recorder: { kind: RecorderKind.TOKEN, id: '' },
  })
  expect(seen.transaction!.recorder).toMatchObject({ id: '' })
})
