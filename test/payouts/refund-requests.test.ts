import { describe, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { PauseScope, type Payout, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { recipientReason } from '../../src/payouts/refund-transaction.ts'
import { fresh } from '../overview/scene.ts'
import { lockWaits, tamper, withOpenTransaction } from '../support/database.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { ADA, createPayoutScene, payerAt, reasonOf } from './scene.ts'

const service = useService()
const { payouts, funded, request, until, approver, discrepancies, paid, restored } =
  createPayoutScene(service)
const database = () => service.database.durablePool

const stepsOf = async (payoutId: string) => {
  const { steps } = await payouts().getPayout({ payoutId })
  return steps.map(({ text }) => text)
}

describe('a refund without a reference', () => {
  test('refunds again at each request', async () => {
    const { transactionId, sessionId } = await paid()
    const refund = async () =>
      (await payouts().refundTransaction({ transactionId, amountMinor: 100n })).payout!
    // One with a reference of the caller's does not count.
    await payouts().refundTransaction({ transactionId, amountMinor: 100n, reference: fresh('own') })
    const [first, second] = [await refund(), await refund()]
    expect([first.reference, second.reference]).toEqual([
      `refund:9PSB:${sessionId}:1`,
      `refund:9PSB:${sessionId}:2`,
    ])
    const again = { transactionId, amountMinor: 100n, reference: first.reference }
    const { payout, replayed } = await payouts().refundTransaction(again)
    expect([payout!.id, replayed]).toEqual([first.id, true])
    for (const { id } of [first, second]) await until(id, PayoutStatus.PAID)
    expect(await discrepancies()).toEqual([])
  })

  test('gets another one if the business has used it for something else', async () => {
    const { transactionId, businessId, sessionId } = await paid()
    const reference = `refund:9PSB:${sessionId}:1`
    const beneficiary = { ...ADA, accountName: payerAt(ADA.accountNumber).name }
    await payouts().createPayout({ businessId, reference, amountMinor: 100n, beneficiary })
    const { payout } = await payouts().refundTransaction({ transactionId, amountMinor: 100n })
    expect(payout!.reference).toMatch(/^refund_/)
  })

  const refundOf = async (transactionId: string) =>
    (await payouts().refundTransaction({ transactionId, amountMinor: 200_000n })).payout!

  /** Makes the database one that was restored from a backup without a refund. */
  async function lose({ id, transactionId }: Payout) {
    await tamper(
      database(),
      `delete from payout_posting where payout_id = '${id}'; delete from payout_step where payout_id = '${id}';
      delete from payout where id = '${id}'; delete from payout_refund where transaction_id = '${transactionId}'`,
    )
    await restored()
  }

  test.each([
    ['it', false],
    ['its payment too', true],
  ])(
    'that is repeated after a restore lost %s leads to the transfer that the bank knows',
    async (_what, losesPayment) => {
      const { transactionId, record } = await paid()
      const lost = await until((await refundOf(transactionId)).id, PayoutStatus.PAID)
      await lose(lost)
      if (losesPayment) {
        await tamper(
          database(),
          `delete from payment_session where transaction_id = '${transactionId}';
          delete from ledger_posting where transaction_id = '${transactionId}';
          delete from transaction where id = '${transactionId}'`,
        )
      }
      const again = losesPayment ? await record() : transactionId
      expect(again === transactionId).toBe(!losesPayment)
      const repeated = await until((await refundOf(again)).id, PayoutStatus.PAID)
      const { bankReference, sessionId } = lost
      expect(repeated).toMatchObject({ bankReference, sessionId })
      expect(await stepsOf(repeated.id)).toContain(
        '9PSB knows it: it was sent before the database was restored or failed over',
      )
    },
  )

  test('that is repeated after a restore lost it and an attempt before it awaits an approval', async () => {
    const { transactionId } = await paid()
    const target = { scope: PauseScope.GLOBAL, reason: 'drill' }
    await payouts().pausePayouts(target)
    const unsent = await refundOf(transactionId)
    await payouts().cancelPayout({ payoutId: unsent.id })
    await payouts().resumePayouts(target)
    const lost = await until((await refundOf(transactionId)).id, PayoutStatus.PAID)
    await lose(unsent)
    await lose(lost)
    const repeated = await refundOf(transactionId)
    // The bank does not know it by this number.
    expect(repeated).toMatchObject({
      bankReference: unsent.bankReference,
      status: PayoutStatus.PENDING_APPROVAL,
      approvalReason: expect.stringMatching(/^the database was restored/),
    })
    // A caller with a reference of its own repeats that.
    const own = { transactionId, amountMinor: 100n, reference: fresh('own') }
    expect((await payouts().refundTransaction(own)).payout?.approvalReason).toBe('')
  })
})

describe('a refund to its payer', () => {
  test('awaits an approval if the bank states another name of the account', async () => {
    const { transactionId } = await paid({ ...payerAt(ADA.accountNumber), name: 'BOLA ADE' })
    const { payout } = await payouts().refundTransaction({ transactionId })
    expect(payout).toMatchObject({
      status: PayoutStatus.PENDING_APPROVAL,
      approvalReason: 'the bank states another name than the payer’s',
    })
    await (await approver()).approvePayout({ payoutId: payout!.id })
    await until(payout!.id, PayoutStatus.PAID)
  })

  const account = { bankCode: '058', accountNumber: '0123456785', accountName: '', field: '' }
  test.each([
    ['ADA OBI', '000013', undefined, ''],
    ['Obi, Ada K.', '000013', undefined, ''],
    ['ADA', '000013', undefined, 'the bank states another name than the payer’s'],
    ['BOLA ADE', '000013', undefined, 'the bank states another name than the payer’s'],
    ['', '000013', undefined, 'the bank did not state the name of the payer'],
    // A simulated payment.
    ['SANDBOX PAYER', '000000', undefined, ''],
    ['', '000000', undefined, ''],
    ['ADA OBI', '000013', account, 'a refund to another account than the payer’s'],
  ])('who is "%s" at %s, to the account %o: "%s"', (name, bankCode, other, reason) => {
    const payer = { name, bankCode, accountNumber: '0123456785', bankName: '' }
    const destination = { ...payer, accountName: 'ADA OBI' }
    const resolved = { destination, bank: undefined, enquiryReference: '' }
    expect(recipientReason('refund', { payer, account: other }, resolved)).toBe(reason)
  })
})

describe('what the caller states', () => {
  test('as the reason of a refund begins its history', async () => {
    const reason = 'one item is out of stock'
    const { transactionId } = await paid()
    const refund = { transactionId, amountMinor: 100n, reason }
    const { payout } = await payouts().refundTransaction(refund)
    expect((await stepsOf(payout!.id))[0]).toBe(`requested: ${reason}`)
    const other = await payouts().refundTransaction({
      ...refund,
      beneficiary: { ...ADA, accountName: payerAt(ADA.accountNumber).name },
    })
    expect((await stepsOf(other.payout!.id))[0]).toBe(
      `requested: ${reason}; needs an approval: a refund to another account than the payer’s`,
    )
  })

  test('about a cancellation is in the audit log, also after another person approved with a note', async () => {
    const businessId = await funded(1_000_000n, { approvalAboveMinor: 0n })
    const target = { scope: PauseScope.BUSINESS, businessId, reason: 'drill' }
    const { id: payoutId } = await request(businessId)
    await payouts().pausePayouts(target)
    await (await approver()).approvePayout({ payoutId, note: 'as ordered' })
    await payouts().cancelPayout({ payoutId, note: 'the invoice was wrong' })
    await payouts().resumePayouts(target)
    const { entries } = await service.client(AdminService).listAuditEntries({ pageSize: 50 })
    const ofPayout = entries.filter(({ targetId }) => targetId === payoutId)
    expect(ofPayout.map(({ action, details }) => [action, JSON.parse(details).note])).toEqual([
      ['payout.cancel', 'the invoice was wrong'],
      ['payout.approve', 'as ordered'],
    ])
  })
})

describe('a token that is restricted to the business', () => {
  test('sees neither which operators acted, nor what they noted', async () => {
    const businessId = await funded(1_000_000n, { approvalAboveMinor: 0n })
    const { id: payoutId } = await request(businessId)
    await (await approver()).approvePayout({ payoutId, note: 'as Bola said' })
    const scopes = ['read', 'payouts:write']
    const { id, secret } = await issueToken(service, scopes, [businessId])
    const restricted = service.client(PayoutService, secret)
    const decided = { requestedBy: 'operator', decidedBy: 'operator', decisionNote: '' }
    const { payout, steps } = await restricted.getPayout({ payoutId })
    expect(payout).toMatchObject(decided)
    expect(steps.slice(0, 2)).toMatchObject([
      { actor: 'operator', text: expect.stringMatching(/^requested; needs an approval: /) },
      { actor: 'operator', text: 'approved' },
    ])
    expect((await restricted.listPayouts({ businessId })).payouts).toMatchObject([decided])
    const { payout: own } = await restricted.createPayout({
      businessId,
      reference: fresh('own'),
      amountMinor: 100n,
      beneficiary: { ...ADA, accountName: payerAt(ADA.accountNumber).name },
    })
    expect(own?.requestedBy).toBe(`token:${id}`)
    const all = await payouts().getPayout({ payoutId })
    expect(all.payout).toMatchObject({ requestedBy: 'bootstrap', decisionNote: 'as Bola said' })
    expect(all.steps[1]).toMatchObject({ text: 'approved: as Bola said' })
  })

  test('sees why its business is paused, and not why everything or a bank is', async () => {
    const { id: businessId } = await service.business()
    const targets = [
      { scope: PauseScope.GLOBAL },
      { scope: PauseScope.BANK, bank: Bank.BANK_9PSB },
      { scope: PauseScope.BUSINESS, businessId },
    ]
    for (const target of targets) {
      await payouts().pausePayouts({ ...target, reason: 'a key was stolen' })
      onTestFinished(async () => void (await payouts().resumePayouts(target)))
    }
    const { secret } = await issueToken(service, ['read'], [businessId])
    const { pauses } = await service.client(PayoutService, secret).listPauses({})
    const shown = pauses.map(({ scope, reason, pausedBy }) => [scope, reason, pausedBy])
    expect(shown.sort()).toEqual([
      [PauseScope.GLOBAL, '', ''],
      [PauseScope.BANK, '', ''],
      [PauseScope.BUSINESS, 'a key was stolen', 'operator'],
    ])
  })
})

describe('while others hold the balance of a business', () => {
  test('its refunds take few connections, and a repeat is answered', async () => {
    const { transactionId, businessId } = await paid()
    const refund = { transactionId, amountMinor: 100n, reference: fresh('refund') }
    await payouts().refundTransaction(refund)
    const one = { transactionId, amountMinor: 1n }
    let waiting: ReturnType<typeof reasonOf>[] = []
    await withOpenTransaction(database(), async (holder) => {
      await holder.query('select lock_settled($1, true, false)', [businessId])
      waiting = Array.from({ length: 40 }, () => reasonOf(payouts().refundTransaction(one)))
      await waitUntil(async () => (await lockWaits(database())) >= 4)
      expect((await payouts().refundTransaction(refund)).replayed).toBe(true)
      // Payments and settlements of others go on.
      await funded()
    })
    // On a slow machine, those that waited for long were given up.
    for (const reason of await Promise.all(waiting))
      expect(['accepted', 'unavailable']).toContain(reason)
    expect((await payouts().refundTransaction(one)).payout?.amountMinor).toBe(1n)
  })
})

test('a request does not add up the open payouts of its business', async () => {
  const businessId = await funded()
  const { rows } = await database().query<{ text: string }>(
    "select pg_get_functiondef('reserved_minor'::regproc) as text",
  )
  onTestFinished(async () => {
    await database().query(rows[0]!.text)
  })
  await database().query(`create or replace function reserved_minor(of_business text, in_live boolean)
    returns numeric language plpgsql as $$ begin raise exception 'added up'; end $$`)
  await expect(service.client(SettlementService).getBalance({ businessId })).rejects.toThrow()
  await request(businessId)
})
