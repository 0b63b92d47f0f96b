import { timestampMs } from '@bufbuild/protobuf/wkt'
import { Code } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  Resolution,
  type UnmatchedPayment,
} from '../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { checkBankWork } from '../../src/doctor/check-banks.ts'
import { notify, type Payee, payee, payment, recordedIn } from '../notifications/scene.ts'
import { until } from '../protocols/rest/rest.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { useService } from '../support/service.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live,PROVIDUS=live' }, bank.connectors)

const reconciliation = () => service.client(ReconciliationService)

/** A payment arrives for an account number that is not open. */
async function arrive(account = '3999999999'): Promise<FakePayment> {
  const reported = payment(account)
  bank.payments.set(reported.key, reported)
  expect((await notify(service, reported)).text).toBe('UNMATCHED')
  return reported
}

async function open(): Promise<UnmatchedPayment[]> {
  return (await reconciliation().listUnmatchedPayments({ pageSize: 200 })).payments
}

const find = async ({ session }: FakePayment) =>
  (await open()).find((each) => each.sessionId === session)

const assign = async (
  reported: FakePayment,
  { businessId, reference }: Payee,
  note = 'asked the bank',
) =>
  reconciliation().assignUnmatchedPayment({
    unmatchedPaymentId: (await idOf(reported)) as string,
    businessId,
    reference,
    note,
  })

async function idOf({ session }: FakePayment): Promise<string> {
  const { rows } = await service.database.durablePool.query(
    'select id from unmatched_payment where session_id = $1',
    [session],
  )
  return rows[0].id
}

const giveBack = async (reported: FakePayment) =>
  reconciliation().returnUnmatchedPayment({
    unmatchedPaymentId: await idOf(reported),
    note: 'sent back',
  })

/** An internal service records the payment, without a bank's notification. */
async function recordDirectly(
  { session, account, kobo }: FakePayment,
  status: TransactionStatus = TransactionStatus.SUCCESS,
): Promise<RecordOutcome> {
  const { outcome } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: account,
    sessionId: session,
    amountMinor: BigInt(kobo),
    status,
  })
  return outcome
}

test('lists an unmatched payment, and has one event of it, which belongs to no business', async () => {
  const reported = await arrive()
  expect(await find(reported)).toMatchObject({
    bank: Bank.BANK_9PSB,
    accountNumber: '3999999999',
    amountMinor: 150_050n,
    currency: 'NGN',
    payer: { name: 'BOLA ADE' },
    resolution: Resolution.UNSPECIFIED,
  })
  expect((await notify(service, { ...reported, session: '' })).text).toBe('UNMATCHED')
  const { rows } = await service.database.durablePool.query(
    "select business_id from outbox where kind = 'PAYMENT_UNMATCHED' and strpos(payload::text, $1) > 0",
    [Buffer.from(reported.session).toString('hex')],
  )
  expect(rows).toEqual([{ business_id: '' }])
})

describe('an assigned payment', () => {
  test('is recorded once, with its session id and its event', async () => {
    const reported = await arrive()
    const to = await payee(service)
    const responses = await Promise.all(Array.from({ length: 8 }, () => assign(reported, to)))
    const ids = new Set(responses.map(({ transaction }) => transaction!.id))
    expect(ids.size).toBe(1)
    expect(responses[0]!.transaction).toMatchObject({
      sessionId: reported.session,
      amountMinor: 150_050n,
      accountReference: to.reference,
    })
    expect(await recordedIn(service, to)).toHaveLength(1)
    expect(await find(reported)).toBeUndefined()
    const { events } = await until(
      () => service.client(EventService).listEvents({ businessId: to.businessId }),
      (found) => found.events.length === 2,
    )
    expect(events.map((event) => event.kind)).toEqual(['ACCOUNT_CREATED', 'PAYMENT_NOTIFICATION'])
    const { rows } = await service.database.durablePool.query(
      `select p.amount_minor, t.recorded_by from transaction t
        join ledger_posting p on p.transaction_id = t.id where t.id = $1`,
      [responses[0]!.transaction!.id],
    )
    expect(rows).toEqual([{ amount_minor: '150050', recorded_by: 'assignment:bootstrap' }])
  })

  test('may go to a closed account but not to one at another bank', async () => {
    const to = await payee(service)
    await service.client(AccountService).closeAccount(to)
    const reported = await arrive(to.accountNumber)
    const other = await payee(service, Bank.BANK_PROVIDUS)
    await expect(assign(reported, other)).rejects.toMatchObject({ code: Code.InvalidArgument })
    await assign(reported, to)
    expect(await recordedIn(service, to)).toHaveLength(1)
    expect((await notify(service, { ...reported, session: '' })).text).toBe('DUPLICATE')
  })
})

test('a returned payment is not recorded if its account opens later and the bank reports it again', async () => {
  bank.nextNumber = '3888888888'
  const reported = await arrive('3888888888')
  const { payment: returned } = await giveBack(reported)
  expect(returned).toMatchObject({ resolution: Resolution.RETURNED, note: 'sent back' })
  const { createdAt, resolvedAt } = returned!
  expect(timestampMs(resolvedAt!)).toBeGreaterThanOrEqual(timestampMs(createdAt!))
  const to = await payee(service)
  expect(to.accountNumber).toBe('3888888888')
  expect((await notify(service, { ...reported, session: '' })).text).toBe('DUPLICATE')
  expect(await recordDirectly(reported)).toBe(RecordOutcome.UNMATCHED)
  expect(await recordedIn(service, to)).toEqual([])
  await expect(assign(reported, to)).rejects.toMatchObject({ code: Code.FailedPrecondition })
})

describe('reports of one session with different facts', () => {
  /** A payment whose session an internal service reports again with other facts. @returns the ids of both reports */
  async function arriveTwice(facts: Partial<FakePayment>) {
    const reported = await arrive()
    const first = await idOf(reported)
    const again = { ...reported, ...facts }
    expect(await recordDirectly(again)).toBe(RecordOutcome.UNMATCHED)
    const { rows } = await service.database.durablePool.query(
      'select id from unmatched_payment where session_id = $1 and id <> $2',
      [reported.session, first],
    )
    return { first, second: rows[0].id as string, reported, again }
  }

  const assignTo = (unmatchedPaymentId: string, { businessId, reference }: Payee) =>
    reconciliation().assignUnmatchedPayment({ unmatchedPaymentId, businessId, reference })
  const returnOf = (unmatchedPaymentId: string) =>
    reconciliation().returnUnmatchedPayment({ unmatchedPaymentId, note: 'sent back' })
  const isOpen = async (id: string) => (await open()).some((each) => each.id === id)
  const refused = { code: Code.FailedPrecondition }

  test('are not credited once one of them was returned, and can be returned too', async () => {
    const to = await payee(service)
    const reported = await arrive()
    const first = await idOf(reported)
    await returnOf(first)
    expect(await recordDirectly({ ...reported, account: to.accountNumber })).toBe(
      RecordOutcome.UNMATCHED,
    )
    const { id: second } = (await find(reported))!
    await expect(assignTo(second, to)).rejects.toMatchObject(refused)
    const unchecked = service.database.durablePool.query(
      `update unmatched_payment set resolution = 'ASSIGNED', resolved_at = now() where id = $1`,
      [second],
    )
    await expect(unchecked).rejects.toMatchObject({ code: '23000' })
    expect(await recordedIn(service, to)).toEqual([])
    expect((await returnOf(second)).payment!.resolution).toBe(Resolution.RETURNED)
    expect(await isOpen(second)).toBe(false)
  })

  test('cannot be returned once one of them is credited; the same account resolves them', async () => {
    const [to, other] = [await payee(service), await payee(service)]
    const { first, second } = await arriveTwice({ account: '3999999998' })
    const { transaction } = await assignTo(first, to)
    await expect(returnOf(second)).rejects.toMatchObject(refused)
    await expect(assignTo(second, other)).rejects.toMatchObject(refused)
    expect(await isOpen(second)).toBe(true)
    for (let call = 0; call < 2; call++) {
      expect((await assignTo(second, to)).transaction!.id).toBe(transaction!.id)
    }
    expect(await isOpen(second)).toBe(false)
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('are conflicts if they contradict the credited one', async () => {
    const to = await payee(service)
    const { first, second, again } = await arriveTwice({ kobo: '7' })
    const { transaction } = await assignTo(first, to)
    await assignTo(second, to)
    expect(await isOpen(second)).toBe(false)
    const { conflicts } = await reconciliation().listPaymentConflicts({})
    expect(conflicts.filter((each) => each.sessionId === again.session)).toMatchObject([
      { transactionId: transaction!.id, amountMinor: 7n, recordedAmountMinor: 150_050n },
    ])
    await reconciliation().resolvePaymentConflict({ conflictId: conflicts[0]!.id, note: 'x' })
  })

  test('are conflicts, too, if they contradict its status, whichever is assigned', async () => {
    const to = await payee(service)
    const reported = await arrive()
    expect(await recordDirectly(reported, TransactionStatus.FAILED)).toBe(RecordOutcome.UNMATCHED)
    const { rows } = await service.database.durablePool.query(
      `select id from unmatched_payment where session_id = $1 order by status`,
      [reported.session],
    )
    const { transaction } = await assignTo(rows[0].id, to)
    expect(transaction!.status).toBe(TransactionStatus.FAILED)
    for (const { id } of rows) expect(await isOpen(id)).toBe(false)
    const { conflicts } = await reconciliation().listPaymentConflicts({})
    const [conflict] = conflicts.filter(({ sessionId }) => sessionId === reported.session)
    expect(conflict).toMatchObject({ status: TransactionStatus.SUCCESS, amountMinor: 150_050n })
    await reconciliation().resolvePaymentConflict({ conflictId: conflict!.id, note: 'x' })
  })

  test('stay open if one is credited and another returned, as before an upgrade', async () => {
    const to = await payee(service)
    const { first, second, reported } = await arriveTwice({ account: '3999999998' })
    await recordDirectly({ ...reported, account: '3999999997' })
    await assignTo(first, to)
    const { durablePool } = service.database
    await durablePool.query(
      `update unmatched_payment set resolution = 'RETURNED', resolved_at = now() where id = $1`,
      [second],
    )
    const { id: third } = (await find(reported))!
    const text = `is recorded for the account ${to.reference}, and another report of it`
    for (const call of [() => assignTo(third, to), () => returnOf(third)]) {
      await expect(call()).rejects.toMatchObject({
        ...refused,
        message: expect.stringContaining(text),
      })
    }
    await durablePool.query('delete from unmatched_payment where id = $1', [third])
  })

  test('finalize the payment that was recorded as PENDING in the meantime', async () => {
    const to = await payee(service)
    const reported = await arrive()
    const id = await idOf(reported)
    const pending = { ...reported, account: to.accountNumber }
    expect(await recordDirectly(pending, TransactionStatus.PENDING)).toBe(RecordOutcome.RECORDED)
    expect(await isOpen(id)).toBe(true)
    for (let call = 0; call < 2; call++) {
      const { transaction } = await assignTo(id, to)
      expect(transaction!.status).toBe(TransactionStatus.SUCCESS)
    }
    expect(await isOpen(id)).toBe(false)
    expect(await recordedIn(service, to)).toHaveLength(1)
    const { conflicts } = await reconciliation().listPaymentConflicts({})
    expect(conflicts.filter((each) => each.sessionId === reported.session)).toEqual([])
  })
})

test('a report that money arrived stays listed if its payment is recorded as PENDING or FAILED', async () => {
  const arrivals = []
  for (let index = 0; index < 3; index++) arrivals.push(await arrive('3222222222'))
  const [pending, failed, succeeded] = arrivals as [FakePayment, FakePayment, FakePayment]
  bank.nextNumber = '3222222222'
  const to = await payee(service)
  expect(await recordDirectly(pending, TransactionStatus.PENDING)).toBe(RecordOutcome.RECORDED)
  expect(await recordDirectly(failed, TransactionStatus.FAILED)).toBe(RecordOutcome.RECORDED)
  expect(await recordDirectly(succeeded)).toBe(RecordOutcome.RECORDED)
  const listed = async () =>
    (await open())
      .filter(({ accountNumber }) => accountNumber === '3222222222')
      .map(({ sessionId }) => sessionId)
  expect(await listed()).toEqual([failed.session, pending.session])
  await assign(failed, to)
  await assign(pending, to)
  expect(await listed()).toEqual([])
  const { conflicts } = await reconciliation().listPaymentConflicts({})
  const [conflict] = conflicts.filter(({ sessionId }) => sessionId === failed.session)
  expect(conflict).toMatchObject({ status: TransactionStatus.SUCCESS })
  await reconciliation().resolvePaymentConflict({ conflictId: conflict!.id, note: 'x' })
})

test('a test payment with the same details hides no unmatched payment, nor blocks its return', async () => {
  const reported = await arrive('3555555555')
  const { id: businessId } = await service.business()
  const { account } = await service.client(AccountService).createAccount({
    ...CUSTOMER,
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_9PSB,
    live: false,
  })
  await service.database.durablePool.query(
    'update account set account_number = $1 where reference = $2',
    [reported.account, account!.reference],
  )
  const { outcome } = await service.client(SandboxService).simulateTransfer({
    accountNumber: reported.account,
    sessionId: reported.session,
    amountMinor: BigInt(reported.kobo),
  })
  expect(outcome).toBe(RecordOutcome.RECORDED)
  expect(await find(reported)).toMatchObject({ accountNumber: reported.account })
  const { payment: returned } = await giveBack(reported)
  expect(returned!.resolution).toBe(Resolution.RETURNED)
})

test('the doctor counts the unmatched payments that are listed, and the contradicting reports', async () => {
  const counted = async () => {
    const findings = await checkBankWork(service.database.orm, {}, Date.now())
    const found = findings.map(
      (finding) => /^(\d+) payments match no open/.exec(finding.found)?.[1],
    )
    return Number(found.find((count) => count !== undefined) ?? 0)
  }
  const reported = await arrive('3444444444')
  const listed = (await open()).length
  expect(await counted()).toBe(listed)
  bank.nextNumber = '3444444444'
  await payee(service)
  expect((await notify(service, { ...reported, session: '' })).text).toBe('RECORDED')
  expect(await open()).toHaveLength(listed - 1)
  expect(await counted()).toBe(listed - 1)
  expect(await recordDirectly({ ...reported, kobo: '7' })).toBe(RecordOutcome.CONFLICT)
  const findings = await checkBankWork(service.database.orm, {}, Date.now())
  expect(findings.map(({ found }) => found)).toContain(
    '1 reported payments contradict recorded ones',
  )
})
