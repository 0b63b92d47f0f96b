import { describe, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { ResultKind } from '../../gen/inflow/overview/v1/search_pb.ts'
import {
  OutgoingState,
  PayoutDiscrepancyKind,
} from '../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import { type Payout, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { deleteEndedNotes } from '../../src/overview/update-review-item.ts'
import { fresh, openAccount, pay, reader, restricted, settleAll } from '../overview/scene.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

const service = useService()
const payouts = () => service.client(PayoutService)
const overview = () => service.client(OverviewService)

const ADA = { bankCode: '058', accountNumber: nuban('058', 145_700_001) }
/** The sandbox does not answer for it, and never finds it. */
const LOST = { ...ADA, accountNumber: nuban('058', Number(MAGIC_ACCOUNTS.getsLost)) }

async function request(account = ADA, policy: { approvalAboveMinor?: bigint } = {}) {
  const { id: businessId } = await service.business()
  await pay(service, await openAccount(service, businessId), 1_000_000n)
  await settleAll(service, businessId, 1n)
  await payouts().updatePayoutPolicy({ policy: { businessId, ...policy } })
  const { resolution } = await payouts().resolveAccountName({ businessId, ...account })
  const { payout } = await payouts().createPayout({
    ...{ businessId, reference: fresh('payout'), amountMinor: 400_000n, beneficiary: account },
    resolution,
  })
  return payout!
}

async function until(payoutId: string, ...statuses: PayoutStatus[]): Promise<Payout> {
  let found: Payout | undefined
  await waitUntil(async () => {
    found = (await payouts().getPayout({ payoutId })).payout
    return found !== undefined && statuses.includes(found.status)
  })
  return found!
}

/** Moves the time at which a payout was sent back. */
const age = (payoutId: string, interval: string) =>
  service.database.durablePool.query(
    `update payout set submitted_at = submitted_at - $2::interval, next_at = now() + interval '1 hour' where id = $1`,
    [payoutId, interval],
  )

async function itemsOf(businessId: string, client = overview()): Promise<ReviewItem[]> {
  const { items, counts } = await client.listReviewItems({ businessId })
  const counted = counts.reduce((sum, { count }) => sum + count, 0)
  expect(counted).toBe(items.length)
  return items
}

describe('the review', () => {
  test('has a payout that awaits approval until it is decided, for its business too', async () => {
    const payout = await request(ADA, { approvalAboveMinor: 0n })
    const { businessId, id } = payout
    const [item, ...others] = await itemsOf(businessId, await restricted(service, businessId))
    expect(others).toEqual([])
    expect(item).toMatchObject({
      ...{ kind: ReviewKind.PAYOUT_APPROVAL, id, amountMinor: 400_000n, businessId, live: true },
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
    const { id, businessId } = await request(LOST)
    await until(id, PayoutStatus.UNKNOWN)
    expect(await itemsOf(businessId)).toEqual([])
    await age(id, '16 minutes')
    const unclear = await itemsOf(businessId, await restricted(service, businessId))
    expect(unclear).toMatchObject([
      {
        ...{ kind: ReviewKind.PAYOUT, id, amountMinor: 400_000n },
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
    const approval = await request(ADA, { approvalAboveMinor: 0n })
    const lost = await request(LOST)
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
    const { secret } = await service
      .client(AdminService)
      .issueToken({ name: 'approver', scopes: ['payouts:approve', 'read'] })
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
  const { id, businessId } = await request()
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
  const { id: businessId } = await service.business()
  const { accountNumber } = await openAccount(service, businessId)
  const { transaction } = await service.client(TransactionService).recordPayment({
    ...{ bank: Bank.BANK_9PSB, accountNumber, amountMinor: 500_000n, sessionId: fresh('session') },
    payer: { name: 'BOLA ADE', accountNumber: ADA.accountNumber, bankCode: '000013' },
  })
  const transactionId = transaction!.id
  await settleAll(service, businessId, 1n)
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
