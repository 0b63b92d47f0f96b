import { Code, ConnectError } from '@connectrpc/connect'
import { describe, expect, it, test } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import {
  PauseScope,
  type Payout,
  PayoutPurpose,
  PayoutStatus,
} from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { fresh, openAccount, pay, settleAll } from '../overview/scene.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

const service = useService()
const payouts = () => service.client(PayoutService)
const balances = () => service.client(SettlementService)

/** An account of Guaranty Trust Bank. */
const ADA = { bankCode: '058', accountNumber: nuban('058', 145_700_001), accountName: '' }

/** An account of the same bank that makes a transfer of the sandbox go wrong. */
const magic = (digits: string) => ({ ...ADA, accountNumber: nuban('058', Number(digits)) })

/** A business with money that is available, in kobo. */
async function funded(availableMinor = 1_000_000n): Promise<string> {
  const business = await service.business()
  const account = await openAccount(service, business.id)
  await pay(service, account, availableMinor)
  await settleAll(service, business.id, 1n)
  return business.id
}

async function balanceOf(businessId: string) {
  const { balance } = await balances().getBalance({ businessId })
  return {
    available: balance?.availableMinor,
    reserved: balance?.reservedMinor,
    fees: balance?.feesMinor,
  }
}

async function until(payoutId: string, ...statuses: PayoutStatus[]): Promise<Payout> {
  let found: Payout | undefined
  await waitUntil(async () => {
    found = (await payouts().getPayout({ payoutId })).payout
    return found !== undefined && statuses.includes(found.status)
  })
  return found!
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

const faultOf = (call: Promise<unknown>) =>
  call.then(
    () => 'accepted',
    (error) => ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason,
  )

/** The kinds of the events of a business from its first payout on. */
async function payoutEvents(businessId: string) {
  const { events } = await service.client(EventService).listEvents({ businessId, limit: 200 })
  return events.flatMap(({ kind, payload }) => (payload.case === 'payout' ? [kind] : []))
}

/** What `inflow ledger verify` finds. */
async function discrepancies() {
  const found: string[] = []
  for await (const part of balances().verifyLedger({})) {
    found.push(...part.discrepancies.map(({ subject, problem }) => `${subject} ${problem}`))
  }
  return found
}

const token = async (...scopes: string[]) =>
  (await service.client(AdminService).issueToken({ name: 'operator', scopes })).secret

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
  expect(await faultOf(other)).toBe('duplicate_reference')
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
    faultOf(
      payouts().createPayout({
        ...{ businessId, reference: `r${index}`, amountMinor: 300_000n, beneficiary: ADA },
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
    const { payout } = await request(businessId, { account: magic(MAGIC_ACCOUNTS.rejects) })
    const failed = await until(payout!.id, PayoutStatus.FAILED)
    expect(failed.failureReason).toBe('beneficiary_rejected')
    expect(await balanceOf(businessId)).toMatchObject({ available: 1_000_000n, reserved: 0n })
    await waitUntil(async () => (await payoutEvents(businessId)).length === 2)
    expect(await payoutEvents(businessId)).toEqual(['PAYOUT_REQUESTED', 'PAYOUT_FAILED'])
  })

  it('only asks about a payout whose result is unknown, until the bank states it', async () => {
    const businessId = await funded()
    const { payout } = await request(businessId, { account: magic(MAGIC_ACCOUNTS.timesOut) })
    await until(payout!.id, PayoutStatus.UNKNOWN)
    expect(await balanceOf(businessId)).toMatchObject({ available: 600_000n, reserved: 400_000n })
    await until(payout!.id, PayoutStatus.PAID)
    expect(await balanceOf(businessId)).toMatchObject({ available: 600_000n, reserved: 0n })
  })

  it('sends a payout that the bank never saw again only after its window, by an operator', async () => {
    const businessId = await funded()
    const account = magic(MAGIC_ACCOUNTS.getsLost)
    const asker = await token('payouts:write', 'payouts:approve')
    const { payout } = await request(businessId, { account }, asker)
    const payoutId = payout!.id
    await until(payoutId, PayoutStatus.UNKNOWN)
    const resend = { payoutId, decision: PayoutDecision.RESEND, note: 'not in their books' }
    expect(await faultOf(payouts().resolvePayout(resend))).toBe('resend_not_safe')
    await until(payoutId, PayoutStatus.MANUAL_REVIEW)
    const cancel = payouts().cancelPayout({ payoutId })
    expect(await faultOf(cancel)).toBe('payout_not_pending')
    const resent = await payouts().resolvePayout(resend)
    expect(resent.payout).toMatchObject({
      status: PayoutStatus.APPROVED,
      bankReference: payout!.bankReference,
    })
    await until(payoutId, PayoutStatus.UNKNOWN, PayoutStatus.MANUAL_REVIEW)
    const failed = { payoutId, decision: PayoutDecision.MARK_FAILED, note: 'confirmed by letter' }
    const own = service.client(PayoutService, asker).resolvePayout(failed)
    expect(await faultOf(own)).toBe('own_payout')
    await payouts().resolvePayout(failed)
    expect(await balanceOf(businessId)).toMatchObject({ available: 1_000_000n, reserved: 0n })
    expect(await discrepancies()).toEqual([])
  })
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
    expect(await faultOf(own)).toBe('own_payout')
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
    expect(await statusOf(300_000n, magic('145700002'))).toBe(PayoutStatus.APPROVED)
  })

  it('leaves what a bank has not stated to operators, not to a token of the business', async () => {
    const businessId = await funded()
    const { payout } = await request(businessId)
    const payoutId = (await until(payout!.id, PayoutStatus.PAID)).id
    const own = await service.client(AdminService).issueToken({
      ...{ name: 'portal', scopes: ['payouts:approve'], businessIds: [businessId] },
    })
    const returned = { payoutId, decision: PayoutDecision.MARK_RETURNED, note: 'we have it again' }
    const decide = service.client(PayoutService, own.secret).resolvePayout(returned)
    await expect(decide).rejects.toMatchObject({ code: Code.PermissionDenied })
    expect(await balanceOf(businessId)).toMatchObject({ available: 600_000n })
  })

  it('gives the money back if it is refused', async () => {
    const businessId = await funded()
    await payouts().updatePayoutPolicy({ policy: { businessId, approvalAboveMinor: 0n } })
    const { payout } = await request(businessId)
    await payouts().rejectPayout({ payoutId: payout!.id, note: 'who is that?' })
    expect(await balanceOf(businessId)).toMatchObject({ available: 1_000_000n, reserved: 0n })
    const approve = payouts().approvePayout({ payoutId: payout!.id })
    expect(await faultOf(approve)).toBe('own_payout')
    const { payout: other } = await request(businessId)
    const approver = service.client(PayoutService, await token('payouts:approve'))
    await approver.rejectPayout({ payoutId: other!.id })
    const repeat = approver.approvePayout({ payoutId: other!.id })
    expect(await faultOf(repeat)).toBe('payout_not_pending')
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
  expect(await faultOf(request(businessId, { amountMinor: 1n }))).toBe('payouts_paused')
  await payouts().resumePayouts(target)
})

test('refunds of a settled payment together never exceed it', async () => {
  const business = await service.business()
  const account = await openAccount(service, business.id)
  const { transaction } = await service.client(TransactionService).recordPayment({
    ...{ bank: Bank.BANK_9PSB, accountNumber: account.accountNumber, amountMinor: 500_000n },
    sessionId: fresh('session'),
    payer: { name: 'BOLA ADE', accountNumber: ADA.accountNumber, bankCode: '000013' },
  })
  const transactionId = transaction!.id
  await settleAll(service, business.id, 1n)
  const first = await payouts().refundTransaction({ transactionId, amountMinor: 200_000n })
  expect(first.refundableMinor).toBe(300_000n)
  await until(first.payout!.id, PayoutStatus.PAID)
  const tooMuch = payouts().refundTransaction({ transactionId, amountMinor: 300_001n })
  expect(await faultOf(tooMuch)).toBe('refund_exceeds_payment')
  const rest = await payouts().refundTransaction({ transactionId })
  expect(rest.payout).toMatchObject({ amountMinor: 300_000n, purpose: PayoutPurpose.REFUND })
  const reverse = service
    .client(TransactionService)
    .reverseTransaction({ transactionId, reason: 'sent twice' })
  expect(await faultOf(reverse)).toBe('not_reversible')
  await until(rest.payout!.id, PayoutStatus.PAID)
  expect(await balanceOf(business.id)).toMatchObject({ available: 0n, reserved: 0n })
  expect(await discrepancies()).toEqual([])
})
