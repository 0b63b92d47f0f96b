import { beforeAll, describe, expect, test } from 'vitest'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { ResultKind } from '../../gen/inflow/overview/v1/search_pb.ts'
import {
  OutgoingState,
  PayoutDiscrepancyKind,
} from '../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { deleteEndedNotes } from '../../src/overview/update-review-item.ts'
import { readSample } from '../../src/payouts/metrics.ts'
import { fresh, reader, restricted } from '../overview/scene.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { issueToken, useService } from '../support/service.ts'
import { ADA, createPayoutScene, LOST } from './scene.ts'

const service = useService()
const { payouts, funded, request, until, paid } = createPayoutScene(service)
const overview = () => service.client(OverviewService)

/** Moves the time at which a payout was sent back. */
const age = (payoutId: string, interval: string) =>
  service.database.durablePool.query(
    `update payout set submitted_at = submitted_at - $2::interval, next_at = now() + interval '1 hour' where id = $1`,
    [payoutId, interval],
  )

// The bank is asked when a test says so, however long its steps take.
beforeAll(async () => {
  await service.database.durablePool.query(`
    create function ask_later() returns trigger language plpgsql as $$ begin
      new.next_at := now() + interval '1 hour';
      return new;
    end $$;
    create trigger ask_later before update on payout for each row
      when (old.status = 'SUBMITTING' and new.status = 'UNKNOWN') execute function ask_later()`)
})

async function itemsOf(businessId: string, client = overview()): Promise<ReviewItem[]> {
  const { items, counts } = await client.listReviewItems({ businessId })
  const counted = counts.reduce((sum, { count }) => sum + count, 0)
  expect(counted).toBe(items.length)
  return items
}

describe('the review', () => {
  test('has a payout that awaits approval until it is decided, for its business too', async () => {
    const payout = await request(await funded(undefined, { approvalAboveMinor: 0n }))
    const { businessId, id } = payout
    const [item, ...others] = await itemsOf(businessId, await restricted(service, businessId))
    expect(others).toEqual([])
    expect(item).toMatchObject({
      kind: ReviewKind.PAYOUT_APPROVAL,
      id,
      amountMinor: 400_000n,
      businessId,
      live: true,
      accountNumber: ADA.accountNumber,
      text: expect.stringMatching(
        /^NGN 4000\.00 to .+ at Guaranty Trust Bank, requested by bootstrap/,
      ),
      actions: [
        'inflow.payout.v1.PayoutService/ApprovePayout',
        'inflow.payout.v1.PayoutService/RejectPayout',
      ],
    })
    const other = await service.business()
    expect(await itemsOf('', await restricted(service, other.id))).toEqual([])
    await payouts().rejectPayout({ payoutId: id })
    expect(await itemsOf(businessId)).toEqual([])
  })

  test('has a payout without a result after a quarter of an hour, and one in manual review at once', async () => {
    const { id, businessId } = await request(await funded(), undefined, LOST)
    await until(id, PayoutStatus.UNKNOWN)
    expect(await itemsOf(businessId)).toEqual([])
    await age(id, '16 minutes')
    const unclear = await itemsOf(businessId, await restricted(service, businessId))
    expect(unclear).toMatchObject([
      {
        kind: ReviewKind.PAYOUT,
        id,
        amountMinor: 400_000n,
        text: expect.stringContaining('has not stated whether it paid the payout'),
        actions: ['inflow.payout.v1.PayoutService/ResolvePayout'],
      },
    ])
    await service.database.durablePool.query('update payout set next_at = now() where id = $1', [
      id,
    ])
    await until(id, PayoutStatus.MANUAL_REVIEW)
    const [item] = await itemsOf(businessId)
    expect(item?.text).toContain('states that it never saw the payout')
  })

  test('has differences of the bank for operators, and takes notes about all kinds', async () => {
    const approval = await request(await funded(undefined, { approvalAboveMinor: 0n }))
    const lost = await request(await funded(), undefined, LOST)
    await until(lost.id, PayoutStatus.UNKNOWN)
    await age(lost.id, '16 minutes')
    const line = { amountMinor: 5n, state: OutgoingState.PAID, accountNumber: '0123456789' }
    const { discrepancies } = await payouts().reconcilePayouts({
      bank: Bank.BANK_9PSB,
      lines: [{ ...line, reference: fresh('BY-HAND') }],
    })
    const [found] = discrepancies
    expect(found?.kind).toBe(PayoutDiscrepancyKind.MISSING_HERE)
    const kinds = [
      [ReviewKind.PAYOUT_APPROVAL, approval.id],
      [ReviewKind.PAYOUT, lost.id],
      [ReviewKind.PAYOUT_DISCREPANCY, found!.id],
    ] as const
    const { secret } = await issueToken(service, ['payouts:approve', 'read'])
    const approver = service.client(OverviewService, secret)
    for (const [kind, itemId] of kinds) {
      await approver.updateReviewItem({ kind, itemId, assignee: 'Ada', note: 'asks the bank' })
      const { items } = await overview().listReviewItems({ kinds: [kind] })
      const item = items.find(({ id }) => id === itemId)
      expect(item).toMatchObject({ assignee: 'Ada', note: 'asks the bank' })
    }
    const business = await restricted(service, approval.businessId)
    const hidden = { kinds: [ReviewKind.PAYOUT_DISCREPANCY] }
    expect((await business.listReviewItems(hidden)).items).toEqual([])
    await payouts().resolvePayoutDiscrepancy({ discrepancyId: found!.id, note: 'the rent' })
    const runtime = createTestRuntime(service.database)
    await deleteEndedNotes(runtime)
    const { rows } = await service.database.durablePool.query('select kind from review_note')
    expect(rows.map(({ kind }) => kind).sort()).toEqual(['PAYOUT', 'PAYOUT_APPROVAL'])
  })
})

test('search finds a payout by every identifier, for its business and for no other', async () => {
  const { id, businessId } = await request(await funded())
  const paid = await until(id, PayoutStatus.PAID)
  const own = await restricted(service, businessId)
  const other = await restricted(service, (await service.business()).id)
  const texts = [
    id,
    paid.reference,
    paid.bankReference,
    paid.bankReference.toLowerCase(),
    paid.sessionId,
  ]
  for (const query of texts) {
    const idsFor = async (client: typeof own) =>
      (await client.search({ query })).results
        .filter(({ kind }) => kind === ResultKind.PAYOUT)
        .map((result) => result.id)
    expect([query, await idsFor(own)]).toEqual([query, [id]])
    expect([query, await idsFor(await reader(service))]).toEqual([query, [id]])
    expect([query, await idsFor(other)]).toEqual([query, []])
  }
})

test('the timeline of a payment shows its refunds', async () => {
  const { transactionId } = await paid()
  const { payout } = await payouts().refundTransaction({ transactionId, amountMinor: 200_000n })
  await until(payout!.id, PayoutStatus.PAID)
  const { timeline } = await overview().getTimeline({ transactionId })
  const refunds = timeline!.steps.flatMap(({ step }) =>
    step.case === 'refundRequested' || step.case === 'refundCompleted'
      ? [[step.case, step.value.id, step.value.status]]
      : [],
  )
  expect(refunds).toEqual([
    ['refundRequested', payout!.id, PayoutStatus.PAID],
    ['refundCompleted', payout!.id, PayoutStatus.PAID],
  ])
})

test('the metrics have unclear payouts however many payouts await approval', async () => {
  const businessId = await funded(undefined, { approvalAboveMinor: 0n })
  for (let count = 0; count < 3; count++) await request(businessId, 100n)
  const { id } = await request(await funded(), undefined, LOST)
  await until(id, PayoutStatus.UNKNOWN)
  const { open } = await readSample(service.database.durablePool, Date.now(), 2)
  const waiting = open.find(({ status }) => status === 'PENDING_APPROVAL')
  const others = open.filter((each) => each !== waiting)
  expect(waiting?.count).toBe(2)
  expect(others.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(0)
})
