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
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { until } from '../protocols/rest/rest.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
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
async function recordDirectly({ session, account, kobo }: FakePayment): Promise<RecordOutcome> {
  const { outcome } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: account,
    sessionId: session,
    amountMinor: BigInt(kobo),
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

test('a test payment with the same details hides no unmatched payment, nor blocks its return', async () => {
  const reported = await arrive('3555555555')
  const { id: businessId } = await service.business()
  const { account } = await service.client(AccountService).createAccount({
    ...CUSTOMER,
    ...{ businessId, reference: 'order-1', bank: Bank.BANK_9PSB, live: false },
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

test('a final report that arrives while an operator assigns the pending one finalizes the payment', async () => {
  const { durablePool } = service.database
  const payee9psb = await payee(service)
  const session = 'assigned-while-final'
  const report = (status: TransactionStatus) =>
    service.client(TransactionService).recordPayment({
      ...{ bank: Bank.BANK_9PSB, accountNumber: '3999999998', sessionId: session, status },
      amountMinor: 150_000n,
    })
  expect((await report(TransactionStatus.PENDING)).outcome).toBe(RecordOutcome.UNMATCHED)
  const [pending] = (await open()).filter(({ sessionId }) => sessionId === session)
  // The final report is held up between the look-up of its payment and its insertion.
  await durablePool.query(`
    create function hold_final() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(4242); return new; end $$;
    create trigger hold_final before insert on unmatched_payment for each row
      when (new.session_id = 'assigned-while-final') execute function hold_final()`)
  const holder = await durablePool.connect()
  const waiting = async () => {
    const { rows } = await durablePool.query<{ count: number }>(
      "select count(*)::int from pg_locks where locktype = 'advisory' and not granted",
    )
    return rows[0]!.count
  }
  try {
    await holder.query('select pg_advisory_lock(4242)')
    const final = report(TransactionStatus.SUCCESS)
    await until(waiting, (count) => count === 1, 10_000)
    let isAssigned = false
    const assigned = reconciliation()
      .assignUnmatchedPayment({
        ...{ unmatchedPaymentId: pending!.id, note: 'theirs' },
        ...{ businessId: payee9psb.businessId, reference: payee9psb.reference },
      })
      .finally(() => {
        isAssigned = true
      })
    await until(waiting, (count) => isAssigned || count === 2, 10_000)
    await holder.query('select pg_advisory_unlock(4242)')
    await Promise.all([final, assigned])
  } finally {
    await holder.query('select pg_advisory_unlock_all()')
    holder.release()
    await durablePool.query(
      'drop trigger hold_final on unmatched_payment; drop function hold_final',
    )
  }
  expect((await open()).filter(({ sessionId }) => sessionId === session)).toEqual([])
  const { businessId } = payee9psb
  const found = await service
    .client(TransactionService)
    .getTransaction({ businessId, sessionId: session })
  expect(found.transaction!.status).toBe(TransactionStatus.SUCCESS)
})
