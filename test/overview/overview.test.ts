import { timestampMs } from '@bufbuild/protobuf/wkt'
import { beforeAll, expect, test } from 'vitest'
import type { HourFigures } from '../../gen/inflow/overview/v1/figures_pb.ts'
import {
  type GetOverviewResponse,
  OverviewService,
} from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { DEAF_URL } from '../protocols/matrix/scene.ts'
import { startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { openShop, pay, reader, restricted, type Shop } from './scene.ts'

const service = useService()
const operator = () => service.client(OverviewService)

let shop: Shop
let other: Shop

beforeAll(async () => {
  shop = await openShop(service)
  other = await openShop(service)
})

/** Waits until the overview has what a check expects. */
const overviewWith = (
  check: (overview: GetOverviewResponse) => void,
  request: object = {},
  client = operator(),
) =>
  waitFor(async () => {
    const overview = await client.getOverview(request)
    check(overview)
    return overview
  })

const sum = (
  hours: readonly HourFigures[],
  field: 'payments' | 'amountMinor' | 'attempts' | 'delivered',
) => hours.reduce((total, hour) => total + hour[field], 0n)

test('counts payments, reversals and webhooks by the hour', async () => {
  const receiver = await startReceiver()
  const webhooks = service.client(WebhookService)
  const create = (url: string) => webhooks.createEndpoint({ businessId: shop.businessId, url })
  await create(receiver.url)
  const deaf = await create(DEAF_URL)
  const paid = [await pay(service, shop, 100n), await pay(service, shop, 250n)]
  await pay(service, other, 7n)
  const reversal = { transactionId: paid[0]!.id, reason: 'recalled' }
  await service.client(TransactionService).reverseTransaction(reversal)
  const { hours, total, weekBefore, weekBeforeTotal } = await overviewWith(
    (overview) => {
      expect(overview).toMatchObject({
        total: {
          payments: 2n,
          amountMinor: 350n,
          reversals: 1n,
          reversedMinor: 100n,
          delivered: 3n,
          failed: 0n,
        },
        business: {
          pendingMinor: 250n,
          availableMinor: 0n,
          endpoints: 2,
          failingEndpoints: 1,
          disabledEndpoints: 0,
        },
      })
      // Retries count too.
      expect(overview.total!.attempts).toBeGreaterThanOrEqual(6n)
    },
    { businessId: shop.businessId },
  )
  // The balances of several businesses are no figure of any.
  expect((await operator().getOverview({})).business).toBeUndefined()
  expect(hours).toHaveLength(24)
  const starts = hours.map(({ startsAt }) => timestampMs(startsAt!))
  expect(new Set(starts.map((startMs, hour) => startMs - hour * 3_600_000)).size).toBe(1)
  expect(starts[0]! % 3_600_000).toBe(0)
  expect(weekBefore.map(({ startsAt }) => timestampMs(startsAt!) + 7 * 86_400_000)).toEqual(starts)
  expect(total!.startsAt).toEqual(hours[0]!.startsAt)
  for (const field of ['payments', 'amountMinor', 'attempts', 'delivered'] as const) {
    expect(sum(hours, field)).toBe(total![field])
    expect(weekBeforeTotal![field]).toBe(0n)
  }
  expect(total!.delayP95Ms).toBeGreaterThan(0n)
  expect(total!.delayP95Ms).toBeLessThan(600_000n)
  await webhooks.deleteEndpoint({ endpointId: deaf.endpoint!.id })
  await receiver.close()
})

test('compares with the same hours of a week ago', async () => {
  const { durablePool } = service.database
  const weekAgo = "date_trunc('hour', now(), 'UTC') - interval '7 days'"
  await durablePool.query(
    `insert into payment_hour (business_id, live, bank, hour, payments, amount_minor, reversals, reversed_minor)
      values ($1, true, '9PSB', ${weekAgo}, 5, 500, 0, 0), ($1, true, 'PALMPAY', ${weekAgo}, 1, 1, 0, 0),
        ($1, true, '9PSB', ${weekAgo} - interval '1 day', 99, 99, 0, 0),
        ($1, false, '9PSB', ${weekAgo}, 99, 99, 0, 0)`,
    [other.businessId],
  )
  const { weekBefore, weekBeforeTotal } = await operator().getOverview({
    businessId: other.businessId,
  })
  // The hour may have ended meanwhile.
  expect(weekBefore.slice(-2)).toContainEqual(
    expect.objectContaining({ payments: 6n, amountMinor: 501n }),
  )
  expect(weekBeforeTotal).toMatchObject({ payments: 6n, amountMinor: 501n })
})

test('the total of all businesses is theirs together, and a restricted token gets the sum of its own', async () => {
  const { total } = await overviewWith(({ total: all }) =>
    expect(all!.payments).toBeGreaterThanOrEqual(3n),
  )
  const of = async (client: ReturnType<typeof operator>, request = {}) =>
    (await client.getOverview(request)).total!
  const [first, second] = [
    await of(operator(), { businessId: shop.businessId }),
    await of(operator(), { businessId: other.businessId }),
  ]
  expect(total!.amountMinor).toBe(first.amountMinor + second.amountMinor)
  const both = await restricted(service, shop.businessId, other.businessId)
  expect(await of(both)).toMatchObject({
    amountMinor: total!.amountMinor,
    payments: total!.payments,
  })
  const one = await restricted(service, other.businessId)
  expect(await of(one)).toMatchObject({ payments: 1n, amountMinor: 7n, attempts: 0n })
})

test('states what waits', async () => {
  const waiting = await openShop(service, { terms: { amountMinor: 500n } })
  await pay(service, waiting, 400n)
  const { review } = await operator().getOverview({ businessId: waiting.businessId })
  expect(review).toMatchObject([{ kind: ReviewKind.HELD_PAYMENT, count: 1, more: false }])

  const due = await openShop(service)
  const receiver = await startReceiver()
  receiver.answer('hang')
  const webhooks = service.client(WebhookService)
  const endpoint = { businessId: due.businessId, url: receiver.url, concurrency: 1 }
  await webhooks.createEndpoint({ ...endpoint, kinds: ['PAYMENT_NOTIFICATION'] })
  const paid = await pay(service, due)
  await receiver.next()
  const { waiting: nothing } = await operator().getOverview({ businessId: due.businessId })
  expect(nothing).toMatchObject({ dueDeliveries: 0 })
  expect(nothing!.oldestDeliveryDueAt).toBeUndefined()
  await pay(service, due)
  const { at, waiting: some } = await overviewWith(
    ({ waiting: found }) => {
      expect(found).toMatchObject({ dueDeliveries: 1 })
      expect(found!.oldestUnsettledAt).toBeDefined()
    },
    { businessId: due.businessId },
  )
  expect(timestampMs(some!.oldestDeliveryDueAt!)).toBeLessThanOrEqual(timestampMs(at!))
  expect(timestampMs(some!.oldestUnsettledAt!)).toBeGreaterThanOrEqual(timestampMs(paid.paidAt!))
  expect(timestampMs(some!.nextSettlementAt!)).toBeGreaterThan(timestampMs(at!))
  expect(some!.settlementLagSeconds).toBe(0n)
  await receiver.close()
})

test('states for how long the oldest payment has been due', async () => {
  const late = await openShop(service)
  await pay(service, late)
  await overviewWith(({ waiting }) => expect(waiting!.nextSettlementAt).toBeDefined(), {
    businessId: late.businessId,
  })
  await service.database.durablePool.query(
    `update settlement_due set due_at = now() - interval '91 seconds', next_at = now() + interval '1 hour'
      where business_id = $1`,
    [late.businessId],
  )
  const { waiting } = await operator().getOverview({ businessId: late.businessId })
  expect(waiting!.settlementLagSeconds).toBeGreaterThanOrEqual(90n)
  expect(waiting!.settlementLagSeconds).toBeLessThan(150n)
})

test('states the banks and the health to operators only', async () => {
  const { banks, health } = await overviewWith(
    (overview) =>
      expect(overview.health).toMatchObject({
        uncountedEvents: 0n,
        undispatchedEvents: 0n,
        notReady: [],
      }),
    {},
    await reader(service),
  )
  expect(banks.map(({ bank }) => bank)).toEqual([
    Bank.BANK_9PSB,
    Bank.BANK_SAFEHAVEN,
    Bank.BANK_PROVIDUS,
    Bank.BANK_PALMPAY,
  ])
  expect(banks[0]).toMatchObject({ connector: 'sandbox', breaker: 'closed', pendingOpenings: 0 })
  expect(timestampMs(banks[0]!.lastPaymentAt!)).toBeGreaterThan(Date.now() - 600_000)
  expect(banks[3]!.lastPaymentAt).toBeUndefined()
  expect(health).toMatchObject({
    postgresVersion: expect.stringMatching(/^1\d\.\d/),
    standbys: [],
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
  })
  expect(health!.databaseLatencyMs).toBeGreaterThan(0)
  const own = await restricted(service, shop.businessId)
  const seen = await own.getOverview({})
  expect([seen.banks, seen.health]).toEqual([[], undefined])
})
