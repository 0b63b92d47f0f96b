import { Code } from '@connectrpc/connect'
import { afterEach, describe, expect, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { PauseScope, PayoutPurpose, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS, simulatedName } from '../../src/banks/sandbox.ts'
import { createReversePayment } from '../../src/notifications/process-notification.ts'
import { bankReferenceOf } from '../../src/payouts/payout.ts'
import { fresh, nameOf, openShop, type Shop } from '../overview/scene.ts'
import { tamper } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { issueToken, useService } from '../support/service.ts'
import { createPayoutScene, payerAt, reasonOf } from './scene.ts'

const service = useService()
const { payouts, until, approver, discrepancies, restored } = createPayoutScene(service)
const reconciliation = () => service.client(ReconciliationService)
const database = () => service.database.durablePool

/** The payer's account, at Guaranty Trust Bank. */
const PAYER = nuban('058', 145_700_001)

/** Another account there. */
const OTHER = { bankCode: '058', accountNumber: nuban('058', 145_700_002), accountName: '' }

/** An account whose payouts the sandbox pays, refuses or sends back. */
const magic = (digits: string) => nuban('058', Number(digits))

interface Report {
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly payerAccount: string
  /** The holder of the account unless given. */
  readonly payerName: string
  readonly status: TransactionStatus
}

async function report(details: Partial<Report> = {}) {
  const { payerAccount = PAYER, payerName, ...rest } = details
  const reported = {
    sessionId: fresh('session'),
    accountNumber: '3999999999',
    amountMinor: 60_000n,
    status: TransactionStatus.SUCCESS,
    ...rest,
  }
  const payer = { ...payerAt(payerAccount), name: payerName ?? simulatedName(payerAccount) }
  const { outcome } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    payer,
    ...reported,
  })
  return { ...reported, outcome }
}

/** A payment arrives for an account number that is not open. @returns its id and session */
async function arrive(details: Partial<Report> = {}) {
  const { sessionId, outcome, status, amountMinor } = await report(details)
  expect(outcome).toBe(RecordOutcome.UNMATCHED)
  const { rows } = await database().query<{ id: string }>(
    'select id from unmatched_payment where session_id = $1 and status = $2 and amount_minor = $3',
    [sessionId, nameOf(TransactionStatus, status), amountMinor],
  )
  return { id: rows[0]!.id, sessionId }
}

async function stateOf(id: string) {
  const { rows } = await database().query(
    'select resolution, payout_id as "payoutId", note from unmatched_payment where id = $1',
    [id],
  )
  return rows[0]
}

const isListed = async (id: string) =>
  (await reconciliation().listUnmatchedPayments({ pageSize: 200 })).payments.some(
    (payment) => payment.id === id,
  )

const refund = (unmatchedPaymentId: string, beneficiary?: typeof OTHER) =>
  payouts().refundUnmatchedPayment({
    unmatchedPaymentId,
    reason: 'the payer mistyped',
    ...(beneficiary && { beneficiary }),
  })

/** Changes rows as no statement of the service can. */
const unguarded = (text: string) => tamper(database(), text)

/** An account gets a number that payments arrived for. */
const renumber = (reference: string, accountNumber: string) =>
  database().query('update account set account_number = $1 where reference = $2', [
    accountNumber,
    reference,
  ])

const assign = (unmatchedPaymentId: string, { businessId, reference }: Shop) =>
  reconciliation().assignUnmatchedPayment({ unmatchedPaymentId, businessId, reference })

const pause = () => payouts().pausePayouts({ scope: PauseScope.GLOBAL, reason: 'drill' })
const resume = () => payouts().resumePayouts({ scope: PauseScope.GLOBAL })

afterEach(async () => {
  await resume()
  expect(await discrepancies()).toEqual([])
})

describe('the return of an unmatched payment', () => {
  test('pays all of it to its payer, and states the payment returned in the same commit', async () => {
    const { id, sessionId } = await arrive()
    await pause()
    const { payout, replayed } = await refund(id)
    expect(replayed).toBe(false)
    expect(payout).toMatchObject({
      businessId: '',
      live: true,
      purpose: PayoutPurpose.REFUND,
      amountMinor: 60_000n,
      feeMinor: 0n,
      dutyMinor: 0n,
      unmatchedPaymentId: id,
      refundedSessionId: sessionId,
      transactionId: '',
      beneficiary: { accountNumber: PAYER, bankCode: '000013' },
    })
    const state = { payoutId: payout!.id, note: 'the payer mistyped' }
    expect(await stateOf(id)).toEqual({ ...state, resolution: 'RETURNING' })
    expect(await isListed(id)).toBe(false)
    await database().query(`
      create table seen_paid (resolution text);
      create function see_paid() returns trigger language plpgsql as $$ begin
        insert into seen_paid select resolution from unmatched_payment where payout_id = new.id; return null; end $$;
      create constraint trigger see_paid after update on payout deferrable initially deferred for each row
        when (new.status = 'PAID') execute function see_paid()`)
    await resume()
    await until(payout!.id, PayoutStatus.PAID)
    const { rows } = await database().query('select resolution from seen_paid')
    await database().query('drop function see_paid cascade; drop table seen_paid')
    expect(rows).toEqual([{ resolution: 'RETURNED' }])
    expect(await stateOf(id)).toEqual({ ...state, resolution: 'RETURNED' })
    const { rows: postings } = await database().query(
      'select kind, debit_account, credit_account from payout_posting where payout_id = $1 order by kind',
      [payout!.id],
    )
    expect(postings).toEqual([
      { kind: 'payment', debit_account: 'reserved', credit_account: 'paid_out' },
      { kind: 'reservation', debit_account: 'unmatched', credit_account: 'reserved' },
    ])
  })

  test('is no event, and in no balance, statement or list of a business', async () => {
    const shop = await openShop(service)
    const { id } = await arrive()
    const { payout } = await refund(id)
    await until(payout!.id, PayoutStatus.PAID)
    const { rows } = await database().query(
      'select count(*)::int as events from outbox where subject_id = $1',
      [payout!.id],
    )
    expect(rows).toEqual([{ events: 0 }])
    const { events } = await service.client(EventService).listEvents({ limit: 200 })
    expect(events.filter(({ payload }) => payload.case === 'payout')).toEqual([])
    const { businessId } = shop
    expect((await payouts().listPayouts({ businessId })).payouts).toEqual([])
    const all = await payouts().listPayouts({ purpose: PayoutPurpose.REFUND, pageSize: 200 })
    expect(all.payouts.map((each) => each.id)).toContain(payout!.id)
  })

  test('is unknown to tokens that are restricted to businesses, which cannot request one', async () => {
    const { businessId } = await openShop(service)
    const { id, sessionId } = await arrive()
    const { payout } = await refund(id, OTHER)
    const payoutId = payout!.id
    const scopes = ['read', 'payouts:write', 'payouts:approve']
    const { secret: portal } = await issueToken(service, scopes, [businessId])
    const writer = service.client(PayoutService, portal)
    await expect(writer.getPayout({ payoutId })).rejects.toMatchObject({ code: Code.NotFound })
    expect((await writer.listPayouts({})).payouts).toEqual([])
    const requested = writer.refundUnmatchedPayment({ unmatchedPaymentId: id })
    await expect(requested).rejects.toMatchObject({ code: Code.PermissionDenied })
    expect(await reasonOf(writer.approvePayout({ payoutId }))).toBe('not_found')
    expect(await reasonOf(writer.cancelPayout({ payoutId }))).toBe('not_found')
    const overview = service.client(OverviewService, portal)
    for (const query of [payoutId, sessionId, payout!.reference, payout!.bankReference]) {
      expect((await overview.search({ query })).results, query).toEqual([])
    }
    expect((await overview.listReviewItems({})).items).toEqual([])
    await payouts().cancelPayout({ payoutId })
  })

  test('is requested once, however many ask at the same time', async () => {
    const { id } = await arrive()
    await pause()
    const results = await Promise.all(Array.from({ length: 12 }, () => refund(id)))
    expect(new Set(results.map(({ payout }) => payout!.id)).size).toBe(1)
    expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1)
    expect(await reasonOf(refund(id, OTHER))).toBe('payment_resolved')
  })

  test('excludes an assignment at the same time, and is excluded by it', async () => {
    const shop = await openShop(service)
    await pause()
    const won: string[] = []
    for (let round = 0; round < 15; round++) {
      const { id } = await arrive()
      const [assigned, returned] = await Promise.all([
        reasonOf(assign(id, shop)),
        reasonOf(refund(id)),
      ])
      expect([assigned, returned].toSorted()).toEqual(['accepted', 'payment_resolved'])
      won.push((await stateOf(id)).resolution)
    }
    expect(won.every((resolution) => ['ASSIGNED', 'RETURNING'].includes(resolution))).toBe(true)
  })

  test('excludes that it is recorded for an account that opens meanwhile, until it is cancelled', async () => {
    const { reference } = await openShop(service)
    await pause()
    const { id, sessionId } = await arrive({ accountNumber: '3777777777' })
    const { payout } = await refund(id)
    await renumber(reference, '3777777777')
    const again = () => report({ sessionId, accountNumber: '3777777777' })
    expect((await again()).outcome).toBe(RecordOutcome.UNMATCHED)
    expect((await stateOf(id)).resolution).toBe('RETURNING')
    await payouts().cancelPayout({ payoutId: payout!.id })
    expect((await again()).outcome).toBe(RecordOutcome.RECORDED)
    expect(await reasonOf(refund(id))).toBe('payment_resolved')
  })

  test('excludes that it is recorded at the same time, and is excluded by it', async () => {
    const { reference } = await openShop(service)
    await pause()
    for (let round = 0; round < 15; round++) {
      const accountNumber = `37000000${10 + round}`
      const { id, sessionId } = await arrive({ accountNumber })
      await renumber(reference, accountNumber)
      const [returned, recorded] = await Promise.all([
        reasonOf(refund(id)),
        report({ sessionId, accountNumber }),
      ])
      const isRecorded = recorded.outcome === RecordOutcome.RECORDED
      expect(returned).toBe(isRecorded ? 'payment_resolved' : 'accepted')
      const { rows } = await database().query('select from payment_session where session_id = $1', [
        sessionId,
      ])
      expect(rows).toHaveLength(isRecorded ? 1 : 0)
    }
  })

  test('is named if the bank reverses the payment, too, whose money may then leave twice', async () => {
    const { id, sessionId } = await arrive()
    const reverseByBank = createReversePayment(createTestRuntime(service.database), {
      isSimulated: () => true,
      findPaidReturn: async () => undefined,
      actor: SYSTEM,
    })
    await pause()
    const { payout } = await refund(id)
    const refused = { refused: `${id}: the payout ${payout!.id} returns it` }
    expect(await reverseByBank('9PSB', sessionId, '')).toEqual(refused)
    await resume()
    await until(payout!.id, PayoutStatus.PAID)
    expect(await reverseByBank('9PSB', sessionId, '')).toEqual(refused)
  })

  test('is not a note of a return outside Inflow, and neither follows the other', async () => {
    await pause()
    const returned = await arrive()
    await refund(returned.id)
    const note = { unmatchedPaymentId: returned.id, note: 'by the bank' }
    expect(await reasonOf(reconciliation().returnUnmatchedPayment(note))).toBe('payment_resolved')
    const noted = await arrive()
    await reconciliation().returnUnmatchedPayment({ unmatchedPaymentId: noted.id, note: 'x' })
    expect(await reasonOf(refund(noted.id))).toBe('payment_resolved')
    expect(await stateOf(noted.id)).toMatchObject({ resolution: 'RETURNED', payoutId: null })
  })

  test('is of what arrived, not of what else was reported of its session', async () => {
    const shop = await openShop(service)
    await pause()
    const pending = await arrive({ status: TransactionStatus.PENDING })
    expect(await reasonOf(refund(pending.id))).toBe('not_refundable')
    const { sessionId } = pending
    const arrived = await arrive({ sessionId })
    const more = await arrive({ sessionId, amountMinor: 90_000n })
    // The pending report names the same payment.
    const { payout } = await refund(pending.id)
    expect(payout).toMatchObject({ amountMinor: 60_000n, unmatchedPaymentId: arrived.id })
    expect((await stateOf(pending.id)).resolution).toBe('RETURNING')
    expect(await reasonOf(refund(more.id))).toBe('payment_resolved')
    expect(await reasonOf(assign(more.id, shop))).toBe('payment_resolved')
  })

  test('goes to another account if the bank hid the payer, once another person approves', async () => {
    const { id } = await arrive({ payerAccount: '' })
    expect(await reasonOf(refund(id))).toBe('validation_failed')
    const { secret: asker } = await issueToken(service, ['payouts:write', 'payouts:approve'])
    const { payout } = await service
      .client(PayoutService, asker)
      .refundUnmatchedPayment({ unmatchedPaymentId: id, beneficiary: OTHER })
    expect(payout).toMatchObject({
      status: PayoutStatus.PENDING_APPROVAL,
      approvalReason: 'a return to another account than the payer’s',
    })
    const payoutId = payout!.id
    const own = service.client(PayoutService, asker).approvePayout({ payoutId })
    expect(await reasonOf(own)).toBe('own_payout')
    await (await approver()).approvePayout({ payoutId })
    await until(payoutId, PayoutStatus.PAID)
    expect((await stateOf(id)).resolution).toBe('RETURNED')
  })

  test('needs an approval if the bank states another name of the account than that of the payer', async () => {
    const { id } = await arrive({ payerName: 'BOLA ADE' })
    const { payout } = await refund(id)
    expect(payout).toMatchObject({
      status: PayoutStatus.PENDING_APPROVAL,
      approvalReason: 'the bank states another name than the payer’s',
    })
    await (await approver()).approvePayout({ payoutId: payout!.id })
    await until(payout!.id, PayoutStatus.PAID)
  })

  test('keeps to the rules of the installation', async () => {
    const large = await arrive({ amountMinor: 10_000_001n, payerAccount: nuban('058', 7) })
    const { payout } = await refund(large.id)
    expect(payout!.approvalReason).toContain('to a beneficiary that is new')
    await payouts().cancelPayout({ payoutId: payout!.id })
    await payouts().updatePayoutPolicy({ policy: { payoutMaxMinor: 59_999n } })
    const { id } = await arrive()
    expect(await reasonOf(refund(id))).toBe('validation_failed')
    expect(await stateOf(id)).toMatchObject({ resolution: null, payoutId: null })
    await payouts().updatePayoutPolicy({ policy: { approvalAboveMinor: 0n } })
    const again = await refund(id)
    expect(again.payout!.approvalReason).toBe('more than 0.00 naira')
    await payouts().cancelPayout({ payoutId: again.payout!.id })
    await payouts().updatePayoutPolicy({ policy: {} })
  })

  test('keeps to the default cool-down if the first rules of the installation change only a limit', async () => {
    await service.database.durablePool.query("delete from payout_policy where business_id = ''")
    const { policy } = await payouts().getPayoutPolicy({})
    await payouts().updatePayoutPolicy({ policy: { ...policy!, payoutMaxMinor: 50_000_000n } })
    const large = await arrive({ amountMinor: 10_000_001n, payerAccount: nuban('058', 8) })
    const { payout } = await refund(large.id)
    expect(payout!.approvalReason).toContain('to a beneficiary that is new')
    await payouts().cancelPayout({ payoutId: payout!.id })
    await payouts().updatePayoutPolicy({ policy: {} })
  })
})

describe('a return that was not paid', () => {
  const ends = [
    ['refused by the bank', PayoutStatus.FAILED],
    ['rejected', PayoutStatus.REJECTED],
    ['cancelled', PayoutStatus.CANCELLED],
    ['not approved in time', PayoutStatus.EXPIRED],
    ['sent back after it was paid', PayoutStatus.RETURNED],
  ] as const

  async function end(payoutId: string, status: PayoutStatus) {
    switch (status) {
      case PayoutStatus.REJECTED:
        return (await approver()).rejectPayout({ payoutId })
      case PayoutStatus.CANCELLED:
        return payouts().cancelPayout({ payoutId })
      case PayoutStatus.EXPIRED:
        return database().query('update payout set next_at = now() where id = $1', [payoutId])
      case PayoutStatus.RETURNED:
        await (await approver()).approvePayout({ payoutId })
        await until(payoutId, PayoutStatus.PAID)
        return (await approver()).resolvePayout({
          payoutId,
          decision: PayoutDecision.MARK_RETURNED,
          note: 'seen at the bank',
        })
      default:
        return (await approver()).approvePayout({ payoutId })
    }
  }

  test.each(ends)('because it was %s opens the payment again', async (_title, status) => {
    const shop = await openShop(service)
    const { id, sessionId } = await arrive()
    const digits = status === PayoutStatus.FAILED ? magic(MAGIC_ACCOUNTS.rejects) : PAYER
    const { payout } = await refund(id, { ...OTHER, accountNumber: digits })
    expect(payout!.bankReference).toBe(
      bankReferenceOf({ businessId: '', live: true, reference: `return:9PSB:${sessionId}:1` }),
    )
    await end(payout!.id, status)
    await until(payout!.id, status)
    expect(await stateOf(id)).toEqual({ resolution: null, payoutId: null, note: '' })
    expect(await isListed(id)).toBe(true)
    // It is returned by another payout, or assigned.
    if (status === PayoutStatus.FAILED) {
      const again = await refund(id)
      expect(again.payout!.reference).toBe(`return:9PSB:${sessionId}:2`)
      await until(again.payout!.id, PayoutStatus.PAID)
      expect((await stateOf(id)).resolution).toBe('RETURNED')
    } else {
      await assign(id, shop)
      expect(await reasonOf(refund(id))).toBe('payment_resolved')
    }
  })

  test('keeps the payment while the bank has not stated the result', async () => {
    const { id } = await arrive({ payerAccount: magic(MAGIC_ACCOUNTS.getsLost) })
    const { payout } = await refund(id)
    await until(payout!.id, PayoutStatus.UNKNOWN, PayoutStatus.MANUAL_REVIEW)
    expect((await stateOf(id)).resolution).toBe('RETURNING')
    const decided = await (await approver()).resolvePayout({
      payoutId: payout!.id,
      decision: PayoutDecision.MARK_FAILED,
      note: 'not in its books',
    })
    expect(decided.payout!.status).toBe(PayoutStatus.FAILED)
    expect(await isListed(id)).toBe(true)
  })
})

test('a request that is repeated after a restore lost its payout leads to the transfer that the bank knows', async () => {
  const { id } = await arrive()
  const lost = (await refund(id)).payout!
  await until(lost.id, PayoutStatus.PAID)
  const before = (await payouts().getPayout({ payoutId: lost.id })).payout!
  await unguarded(`
    delete from payout_posting where payout_id = '${lost.id}'; delete from payout_step where payout_id = '${lost.id}';
    delete from payout where id = '${lost.id}';
    update unmatched_payment set resolution = null, resolved_at = null, payout_id = null where id = '${id}'`)
  await restored()
  const { payout, replayed } = await refund(id)
  expect(replayed).toBe(false)
  await until(payout!.id, PayoutStatus.PAID)
  const { payout: after, steps } = await payouts().getPayout({ payoutId: payout!.id })
  expect(after).toMatchObject({ bankReference: lost.bankReference, sessionId: before.sessionId })
  expect(steps.map(({ text }) => text)).toContain(
    '9PSB knows it: it was sent before the database was restored or failed over',
  )
  expect((await stateOf(id)).resolution).toBe('RETURNED')
})

test('a request that is repeated after a restore lost it and an attempt before it awaits an approval', async () => {
  const { id } = await arrive()
  await restored()
  const { payout } = await refund(id)
  expect(payout).toMatchObject({
    status: PayoutStatus.PENDING_APPROVAL,
    approvalReason: expect.stringMatching(/^the database was restored/),
  })
})

test('verifying the ledger finds a return whose postings or unmatched payment do not match it', async () => {
  await pause()
  const { id } = await arrive()
  const { payout } = await refund(id)
  const ofPayment = (resolution: string, payoutId: string) =>
    unguarded(
      `update unmatched_payment set resolution = ${resolution}, resolved_at = case when ${resolution} is null
        then null else now() end, payout_id = ${payoutId} where id = '${id}'`,
    )
  await ofPayment('null', 'null')
  expect(await discrepancies()).toEqual([
    `${payout!.id} is APPROVED; its unmatched payment is open by none`,
  ])
  await ofPayment("'RETURNED'", "'pay_none'")
  expect(await discrepancies()).toContain(`${id} is RETURNED by pay_none, which does not return it`)
  await ofPayment("'RETURNING'", `'${payout!.id}'`)
  const take = (account: string) =>
    unguarded(
      `update payout_posting set debit_account = '${account}' where payout_id = '${payout!.id}'`,
    )
  await take('held')
  expect(await discrepancies()).toEqual([
    `${payout!.id} is APPROVED; 60000 of it are reserved, and 0 are taken`,
  ])
  await take('unmatched')
})

test('the database refuses a payout and an unmatched payment that do not match', async () => {
  await pause()
  const { id } = await arrive()
  const { payout } = await refund(id)
  const change = (set: string) =>
    database()
      .query(`update unmatched_payment set ${set} where id = $1`, [id])
      .then(
        () => 'accepted',
        ({ code }: { code: string }) => code,
      )
  const open = 'resolution = null, resolved_at = null, payout_id = null'
  expect(await change(open)).toBe('23000')
  expect(await change("resolution = 'RETURNED'")).toBe('23000')
  expect(await change("resolution = 'ASSIGNED', payout_id = null")).toBe('23000')
  const cancelled = database().query(
    `with released as (
        insert into payout_posting select $1, 'release', 'reserved', 'unmatched', 60000, now()
      ) update payout set status = 'CANCELLED', completed_at = now() where id = $1`,
    [payout!.id],
  )
  await expect(cancelled).rejects.toMatchObject({ code: '23000' })
  const other = await arrive({ amountMinor: 70_000n })
  const copied = database().query(
    `insert into payout select (jsonb_populate_record(p, jsonb_build_object('id', 'pay_copy', 'reference', 'copy',
        'bank_reference', 'COPY', 'unmatched_payment_id', $2::text))).* from payout p where id = $1`,
    [payout!.id, other.id],
  )
  await expect(copied).rejects.toMatchObject({ constraint: 'payout_unmatched_unique' })
})
