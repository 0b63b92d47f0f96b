import { describe, expect, it, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { PauseScope, PayoutPurpose, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { fresh } from '../overview/scene.ts'
import { lockWaits } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { ADA, accountAt, createPayoutScene, LOST, reasonOf } from './scene.ts'

const service = useService()
const { payouts, funded, paid, until, discrepancies } = createPayoutScene(service)
const balances = () => service.client(SettlementService)

async function balanceOf(businessId: string) {
  const { balance } = await balances().getBalance({ businessId })
  return {
    available: balance?.availableMinor,
    reserved: balance?.reservedMinor,
    fees: balance?.feesMinor,
  }
}

/** Requests a payout to an account whose name is resolved first. */
async function request(
  businessId: string,
  { amountMinor = 400_000n, reference = fresh('payout'), account = ADA } = {},
  token?: string,
) {
  const client = service.client(PayoutService, token)
  const { resolution } = await client.resolveAccountName({ businessId, ...account })
  const details = { businessId, reference, amountMinor, beneficiary: account, resolution }
  return { details, ...(await client.createPayout(details)) }
}

/** The kinds of the events of a business from its first payout on. */
async function payoutEvents(businessId: string) {
  const { events } = await service.client(EventService).listEvents({ businessId, limit: 200 })
  return events.flatMap(({ kind, payload }) => (payload.case === 'payout' ? [kind] : []))
}

const token = async (...scopes: string[]) => (await issueToken(service, scopes)).secret

test('pays a beneficiary whose name was resolved, and moves the money once', async () => {
  const businessId = await funded()
  const { details, payout } = await request(businessId)
  expect(payout).toMatchObject({ status: PayoutStatus.APPROVED, purpose: PayoutPurpose.PAYOUT })
  const paid = await until(payout!.id, PayoutStatus.PAID)
  expect(paid.sessionId).toMatch(/^\d{30}$/)
  expect(paid.beneficiary?.bankName).toBe('Guaranty Trust Bank')
  expect(await balanceOf(businessId)).toEqual({ available: 600_000n, reserved: 0n, fees: 0n })
  const replay = await payouts().createPayout(details)
  expect(replay).toMatchObject({ replayed: true, payout: { id: payout!.id } })
  const other = payouts().createPayout({ ...details, amountMinor: 1n })
  expect(await reasonOf(other)).toBe('duplicate_reference')
  await waitUntil(async () => (await payoutEvents(businessId)).length === 2)
  expect(await payoutEvents(businessId)).toEqual(['PAYOUT_REQUESTED', 'PAYOUT_PAID'])
  const { steps } = await payouts().getPayout({ payoutId: payout!.id })
  expect(steps.map(({ text }) => text.replace(/:.*/, ''))).toEqual([
    'requested',
    'sent through 9PSB',
    'the bank paid it',
  ])
  expect(await discrepancies()).toEqual([])
})

test('a check whether a paid payout was returned is no second payment', async () => {
  const businessId = await funded()
  const { payout } = await request(businessId)
  await until(payout!.id, PayoutStatus.PAID)
  const pool = service.database.durablePool
  await pool.query('update payout set next_at = now() where id = $1', [payout!.id])
  await waitUntil(async () => {
    const { rowCount } = await pool.query(
      `select from payout where id = $1 and next_at > now() + interval '5 minutes' and claims = 2`,
      [payout!.id],
    )
    return rowCount === 1
  })
  await waitUntil(async () => (await payoutEvents(businessId)).length === 2)
  expect(await discrepancies()).toEqual([])
})

test('requests at once never take more than is available', async () => {
  const businessId = await funded(1_000_000n)
  const { resolution } = await payouts().resolveAccountName({ businessId, ...ADA })
  const requests = Array.from({ length: 20 }, (_, index) =>
    reasonOf(
      payouts().createPayout({
        businessId,
        reference: `r${index}`,
        amountMinor: 300_000n,
        beneficiary: ADA,
        resolution,
      }),
    ),
  )
  const results = await Promise.all(requests)
  expect(results.filter((result) => result === 'accepted')).toHaveLength(3)
  expect(new Set(results)).toEqual(new Set(['accepted', 'insufficient_balance']))
  await waitUntil(async () => (await balanceOf(businessId)).reserved === 0n)
  expect(await balanceOf(businessId)).toMatchObject({ available: 100_000n })
})

describe('what the bank does', () => {
  it('gives the money back once if the bank refuses', async () => {
    const businessId = await funded()
    const { payout } = await request(businessId, { account: accountAt(MAGIC_ACCOUNTS.rejects) })
    const failed = await until(payout!.id, PayoutStatus.FAILED)
    expect(failed.failureReason).toBe('beneficiary_rejected')
    expect(await balanceOf(businessId)).toMatchObject({ available: 1_000_000n, reserved: 0n })
    await waitUntil(async () => (await payoutEvents(businessId)).length === 2)
    expect(await payoutEvents(businessId)).toEqual(['PAYOUT_REQUESTED', 'PAYOUT_FAILED'])
  })

  it('only asks about a payout whose result is unknown, until the bank states it', async () => {
    const businessId = await funded()
    const { payout } = await request(businessId, { account: accountAt(MAGIC_ACCOUNTS.timesOut) })
    await until(payout!.id, PayoutStatus.PAID)
    const { steps } = await payouts().getPayout({ payoutId: payout!.id })
    expect(new Set(steps.map(({ status }) => status))).toContain(PayoutStatus.UNKNOWN)
    expect(await balanceOf(businessId)).toMatchObject({ available: 600_000n, reserved: 0n })
  })

  it('sends a payout that the bank never saw again only after its window, by an operator', async () => {
    const businessId = await funded(undefined, { approvalAboveMinor: 0n })
    const asker = await token('payouts:write', 'payouts:approve')
    const { payout } = await request(businessId, { account: LOST }, asker)
    const payoutId = payout!.id
    await payouts().approvePayout({ payoutId })
    await until(payoutId, PayoutStatus.UNKNOWN)
    const resend = { payoutId, decision: PayoutDecision.RESEND, note: 'not in their books' }
    expect(await reasonOf(payouts().resolvePayout(resend))).toBe('resend_not_safe')
    await until(payoutId, PayoutStatus.MANUAL_REVIEW)
    const cancel = payouts().cancelPayout({ payoutId })
    expect(await reasonOf(cancel)).toBe('payout_not_pending')
    const byAsker = service.client(PayoutService, asker)
    expect(await reasonOf(byAsker.resolvePayout(resend))).toBe('own_payout')
    const resent = await payouts().resolvePayout(resend)
    expect(resent.payout).toMatchObject({
      status: PayoutStatus.APPROVED,
      bankReference: payout!.bankReference,
    })
    await until(payoutId, PayoutStatus.UNKNOWN, PayoutStatus.MANUAL_REVIEW)
    const failed = { payoutId, decision: PayoutDecision.MARK_FAILED, note: 'confirmed by letter' }
    expect(await reasonOf(byAsker.resolvePayout(failed))).toBe('own_payout')
    await payouts().resolvePayout(failed)
    expect(await balanceOf(businessId)).toMatchObject({ available: 1_000_000n, reserved: 0n })
    expect(await discrepancies()).toEqual([])
  })
})

test('responses have a payout as it is stored, though the database has a clock of its own', async () => {
  const businessId = await funded(1_000_000n, { approvalAboveMinor: 1n })
  const stored = async (payoutId: string) => (await payouts().getPayout({ payoutId })).payout
  for (let i = 0; i < 5; i++) {
    const { payout: requested } = await request(businessId, { amountMinor: 100n })
    const payoutId = requested!.id
    expect(await stored(payoutId)).toEqual(requested)
    const end = i % 2 === 0 ? payouts().cancelPayout : payouts().rejectPayout
    const { payout: ended } = await end({ payoutId })
    expect(await stored(payoutId)).toEqual(ended)
  }
})

describe('approvals', () => {
  it('needs another person than the one who asked', async () => {
    const businessId = await funded()
    const policy = { businessId, approvalAboveMinor: 300_000n }
    await payouts().updatePayoutPolicy({ policy })
    const asker = await token('payouts:write', 'payouts:approve', 'read')
    const { payout } = await request(businessId, {}, asker)
    expect(payout).toMatchObject({
      status: PayoutStatus.PENDING_APPROVAL,
      approvalReason: 'more than 3000.00 naira',
    })
    const payoutId = payout!.id
    const own = service.client(PayoutService, asker).approvePayout({ payoutId })
    expect(await reasonOf(own)).toBe('own_payout')
    const approver = service.client(PayoutService, await token('payouts:approve'))
    await approver.approvePayout({ payoutId, note: 'checked' })
    await until(payoutId, PayoutStatus.PAID)
    const { entries } = await service.client(AdminService).listAuditEntries({ businessId })
    const { details } = entries.find(({ action }) => action === 'payout.approve')!
    expect(JSON.parse(details)).toMatchObject({
      before: 'PENDING_APPROVAL',
      after: 'APPROVED',
      note: 'checked',
    })
  })

  it('needs one for what a new beneficiary gets in several payouts', async () => {
    const businessId = await funded()
    const policy = { businessId, coolDownHours: 24, newBeneficiaryMaxMinor: 500_000n }
    await payouts().updatePayoutPolicy({ policy })
    const statusOf = async (amountMinor: bigint, account = ADA) =>
      (await request(businessId, { amountMinor, account })).payout?.status
    expect(await statusOf(300_000n)).toBe(PayoutStatus.APPROVED)
    expect(await statusOf(200_001n)).toBe(PayoutStatus.PENDING_APPROVAL)
    expect(await statusOf(300_000n, accountAt('145700002'))).toBe(PayoutStatus.APPROVED)
  })
})

test('a pause stops payouts at once, and a resume sends what waited', async () => {
  const businessId = await funded()
  await payouts().pausePayouts({ scope: PauseScope.GLOBAL, reason: 'drill' })
  const { payout } = await request(businessId)
  await waitUntil(async () => {
    const { payout: waiting } = await payouts().getPayout({ payoutId: payout!.id })
    return waiting?.detail === 'waits: all payouts are paused'
  })
  await payouts().resumePayouts({ scope: PauseScope.GLOBAL })
  await until(payout!.id, PayoutStatus.PAID)
  const target = { scope: PauseScope.BUSINESS, businessId }
  await payouts().pausePayouts({ ...target, reason: 'frozen' })
  expect(await reasonOf(request(businessId, { amountMinor: 1n }))).toBe('payouts_paused')
  await payouts().resumePayouts(target)
})

test('a resume also sends what a claim was postponing meanwhile', async () => {
  const pool = service.database.durablePool
  const target = { scope: PauseScope.GLOBAL }
  await payouts().pausePayouts({ ...target, reason: 'drill' })
  const { payout } = await request(await funded())
  const isPostponed = async () => {
    const { rowCount } = await pool.query(
      "select from payout where id = $1 and status = 'APPROVED' and next_at > now()",
      [payout!.id],
    )
    return rowCount === 1
  }
  await waitUntil(isPostponed)
  // The claim has read the pause, and waits to postpone the payout.
  const client = await pool.connect()
  onTestFinished(() => client.release(true))
  await client.query('begin; lock table payout_step in share mode')
  await pool.query('update payout set next_at = now() where id = $1', [payout!.id])
  const waiting = async (count: number) => (await lockWaits(pool)) >= count
  await waitUntil(() => waiting(1))
  const resuming = payouts().resumePayouts(target)
  await Promise.race([resuming, waitUntil(() => waiting(2))])
  await client.query('rollback')
  await resuming
  // Waits for the claim.
  await pool.query('select from payout where id = $1 for update', [payout!.id])
  expect(await isPostponed()).toBe(false)
  await until(payout!.id, PayoutStatus.PAID)
})

test('once a pause returns, no instance claims anything that it stops, also if it was claiming meanwhile', async () => {
  const other = await startInstance(service.url)
  onTestFinished(() => other.close())
  const pool = service.database.durablePool
  // The banks are not asked about those of other tests meanwhile.
  await pool.query(
    `update payout set next_at = now() + interval '1 day' where status in ('UNKNOWN', 'MANUAL_REVIEW')`,
  )
  const businessId = await funded()
  const target = { scope: PauseScope.GLOBAL }
  const pause = (at: Pick<typeof other, 'client'>) =>
    at.client(PayoutService).pausePayouts({ ...target, reason: 'drill' })
  onTestFinished(async () => void (await payouts().resumePayouts(target)))
  await pause(service)
  const untilWaiting = ({ payout }: Awaited<ReturnType<typeof request>>) =>
    waitUntil(async () => {
      const { detail } = (await payouts().getPayout({ payoutId: payout!.id })).payout!
      return detail === 'waits: all payouts are paused'
    })
  const first = await request(businessId, { amountMinor: 100n })
  await untilWaiting(first)
  // Claims read the pauses, and then wait to write their step.
  const client = await pool.connect()
  onTestFinished(() => client.release(true))
  await client.query('begin; lock table payout_step in share mode')
  await payouts().resumePayouts(target)
  await waitUntil(async () => (await lockWaits(pool, 'payout_step')) > 0)
  const pausing = pause(other)
  await waitUntil(async () => (await pool.query('select from payout_pause')).rowCount === 1)
  await client.query('rollback')
  await pausing
  const claimed = async () => {
    const { rows } = await pool.query<{ ids: string[] }>(
      "select array(select payout_id from payout_step where status = 'SUBMITTING' order by 1) as ids",
    )
    return rows[0]!.ids
  }
  const atReturn = await claimed()
  expect(atReturn).toContain(first.payout!.id)
  const later = await Promise.all(
    [1n, 2n, 3n].map((amountMinor) => request(businessId, { amountMinor })),
  )
  for (const each of later) await untilWaiting(each)
  expect(await claimed()).toEqual(atReturn)
})

test('refunds of a settled payment together never exceed it', async () => {
  const { transactionId, businessId } = await paid()
  const first = await payouts().refundTransaction({ transactionId, amountMinor: 200_000n })
  expect(first.refundableMinor).toBe(300_000n)
  await until(first.payout!.id, PayoutStatus.PAID)
  const tooMuch = payouts().refundTransaction({ transactionId, amountMinor: 300_001n })
  expect(await reasonOf(tooMuch)).toBe('refund_exceeds_payment')
  const rest = await payouts().refundTransaction({ transactionId })
  expect(rest.payout).toMatchObject({ amountMinor: 300_000n, purpose: PayoutPurpose.REFUND })
  const reverse = service
    .client(TransactionService)
    .reverseTransaction({ transactionId, reason: 'sent twice' })
  expect(await reasonOf(reverse)).toBe('not_reversible')
  await until(rest.payout!.id, PayoutStatus.PAID)
  expect(await balanceOf(businessId)).toMatchObject({ available: 0n, reserved: 0n })
  expect(await discrepancies()).toEqual([])
})
