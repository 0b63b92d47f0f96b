import { Code } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  Resolution,
  type UnmatchedPayment,
} from '../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { until } from '../protocols/rest/rest.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { useService } from '../support/service.ts'
import { notify, type Payee, payee, payment, recordedIn } from './scene.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live,PROVIDUS=live' }, bank.connectors)

const reconciliation = () => service.client(ReconciliationService)

/** A payment that arrives, and is nobody's. */
async function arrive(account = '3999999999'): Promise<FakePayment> {
  const told = payment(account)
  bank.payments.set(told.key, told)
  expect((await notify(service, told)).text).toBe('unmatched')
  return told
}

async function open(): Promise<UnmatchedPayment[]> {
  return (await reconciliation().listUnmatchedPayments({ pageSize: 200 })).payments
}

const find = async ({ session }: FakePayment) =>
  (await open()).find((each) => each.sessionId === session)

const assign = async (
  told: FakePayment,
  { businessId, reference }: Payee,
  note = 'asked the bank',
) =>
  reconciliation().assignUnmatchedPayment({
    unmatchedPaymentId: (await idOf(told)) as string,
    businessId,
    reference,
    note,
  })

async function idOf({ session }: FakePayment): Promise<string> {
  const { rows } = await service.database.pool.query(
    'select id from unmatched_payment where session_id = $1',
    [session],
  )
  return rows[0].id
}

const giveBack = async (told: FakePayment) =>
  reconciliation().returnUnmatchedPayment({
    unmatchedPaymentId: await idOf(told),
    note: 'sent back',
  })

/** An internal service records the payment, without a bank's notification. */
async function tellDirectly({ session, account, kobo }: FakePayment): Promise<RecordOutcome> {
  const { outcome } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: account,
    sessionId: session,
    amountMinor: BigInt(kobo),
  })
  return outcome
}

test('a payment that is nobody’s is listed, and told of to internal services alone', async () => {
  const told = await arrive()
  expect(await find(told)).toMatchObject({
    bank: Bank.BANK_9PSB,
    accountNumber: '3999999999',
    amountMinor: 150_050n,
    currency: 'NGN',
    payer: { name: 'BOLA ADE' },
    resolution: Resolution.UNSPECIFIED,
  })
  expect((await notify(service, { ...told, session: '' })).text).toBe('unmatched')
  const end = new AbortController()
  const heard: unknown[] = []
  const stream = service
    .client(EventService)
    .subscribe(
      { start: { case: 'beginning', value: true }, kinds: ['PAYMENT_UNMATCHED'] },
      { signal: end.signal },
    )
  for await (const { item } of stream) {
    if (item.case !== 'event') continue
    heard.push(item.value)
    break
  }
  end.abort()
  expect(heard).toMatchObject([
    { businessId: '', businessSequence: 1n, payload: { value: { sessionId: told.session } } },
  ])
})

test('the list comes in pages, and of one bank', async () => {
  const told = [await arrive(), await arrive(), await arrive()]
  const first = await reconciliation().listUnmatchedPayments({ pageSize: 2 })
  expect(first.payments.map((each) => each.sessionId)).toEqual([told[2]!.session, told[1]!.session])
  const next = await reconciliation().listUnmatchedPayments({
    pageSize: 2,
    pageToken: first.nextPageToken,
  })
  expect(next.payments[0]!.sessionId).toBe(told[0]!.session)
  const others = await reconciliation().listUnmatchedPayments({ bank: Bank.BANK_PROVIDUS })
  expect(others.payments).toEqual([])
})

describe('a payment that is assigned', () => {
  test('is recorded once, under its session, with its event', async () => {
    const told = await arrive()
    const to = await payee(service)
    const answers = await Promise.all(Array.from({ length: 8 }, () => assign(told, to)))
    const ids = new Set(answers.map(({ transaction }) => transaction!.id))
    expect(ids.size).toBe(1)
    expect(answers[0]!.transaction).toMatchObject({
      sessionId: told.session,
      amountMinor: 150_050n,
      accountReference: to.reference,
    })
    expect(await recordedIn(service, to)).toHaveLength(1)
    expect(await find(told)).toBeUndefined()
    const { events } = await until(
      () => service.client(EventService).listEvents({ businessId: to.businessId }),
      (found) => found.events.length === 2,
    )
    expect(events.map((event) => event.kind)).toEqual(['ACCOUNT_CREATED', 'PAYMENT_NOTIFICATION'])
    const { rows } = await service.database.pool.query(
      'select amount_minor from ledger_posting where transaction_id = $1',
      [answers[0]!.transaction!.id],
    )
    expect(rows).toEqual([{ amount_minor: '150050' }])
  })

  test('is a duplicate when the bank tells of it again', async () => {
    const told = await arrive()
    const to = await payee(service)
    await assign(told, to)
    expect((await notify(service, { ...told, session: '' })).text).toBe('duplicate')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('is nobody else’s any more, and cannot be returned', async () => {
    const told = await arrive()
    await assign(told, await payee(service))
    await expect(assign(told, await payee(service))).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    })
    await expect(giveBack(told)).rejects.toMatchObject({ code: Code.FailedPrecondition })
  })

  test('may be that of a closed account, and not of one at another bank', async () => {
    const to = await payee(service)
    await service.client(AccountService).closeAccount(to)
    const told = await arrive(to.accountNumber)
    const other = await payee(service, Bank.BANK_PROVIDUS)
    await expect(assign(told, other)).rejects.toMatchObject({ code: Code.InvalidArgument })
    await assign(told, to)
    expect(await recordedIn(service, to)).toHaveLength(1)
    expect((await notify(service, { ...told, session: '' })).text).toBe('duplicate')
  })
})

describe('a payment that is returned', () => {
  test('is listed no more, and returning it again changes nothing', async () => {
    const told = await arrive()
    const { payment: returned } = await giveBack(told)
    expect(returned).toMatchObject({ resolution: Resolution.RETURNED, note: 'sent back' })
    expect((await giveBack(told)).payment).toEqual(returned)
    expect(await find(told)).toBeUndefined()
    await expect(assign(told, await payee(service))).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    })
  })

  test('is not credited when its account opens later and the bank tells of it again', async () => {
    bank.nextNumber = '3888888888'
    const told = await arrive('3888888888')
    await giveBack(told)
    const to = await payee(service)
    expect(to.accountNumber).toBe('3888888888')
    expect((await notify(service, { ...told, session: '' })).text).toBe('duplicate')
    expect(await recordedIn(service, to)).toEqual([])
    expect(await tellDirectly(told)).toBe(RecordOutcome.UNMATCHED)
    expect(await recordedIn(service, to)).toEqual([])
  })

  test('is either returned or recorded when both are asked for at once', async () => {
    const many = await Promise.all(
      Array.from({ length: 40 }, (_, index) => arrive(`38880000${String(index).padStart(2, '0')}`)),
    )
    const accounts: Payee[] = []
    for (const told of many) {
      bank.nextNumber = told.account
      accounts.push(await payee(service))
    }
    const ends = await Promise.all(
      many.map(async (told) => {
        const [returned, outcome] = await Promise.all([
          giveBack(told).then(
            () => true,
            () => false,
          ),
          tellDirectly(told),
        ])
        return { returned, recorded: outcome === RecordOutcome.RECORDED }
      }),
    )
    for (const [index, { returned, recorded }] of ends.entries()) {
      expect(returned, many[index]!.session).toBe(!recorded)
      expect(await recordedIn(service, accounts[index]!)).toHaveLength(recorded ? 1 : 0)
    }
  })
})

describe('a payment that was announced, and told of again when it was final', () => {
  /** An internal service that tells of a payment which is nobody's. */
  async function announce() {
    const { session } = payment('3666666666')
    const told = { bank: Bank.BANK_9PSB, accountNumber: '3666666666', sessionId: session }
    for (const status of [TransactionStatus.PENDING, TransactionStatus.SUCCESS]) {
      const request = { ...told, amountMinor: 500n, status }
      const { outcome } = await service.client(TransactionService).recordPayment(request)
      expect(outcome).toBe(RecordOutcome.UNMATCHED)
    }
    const tellings = (await open()).filter(({ sessionId }) => sessionId === session)
    expect(tellings.map(({ status }) => status)).toEqual([
      TransactionStatus.SUCCESS,
      TransactionStatus.PENDING,
    ])
    return tellings as [UnmatchedPayment, UnmatchedPayment]
  }

  test('is assigned as it was told of last, whichever is named', async () => {
    for (const at of [0, 1]) {
      const tellings = await announce()
      const to = await payee(service)
      const assignIt = async (which: number) => {
        const unmatchedPaymentId = tellings[which]!.id
        const { transaction } = await reconciliation().assignUnmatchedPayment({
          ...{ unmatchedPaymentId, note: 'asked' },
          ...{ businessId: to.businessId, reference: to.reference },
        })
        return transaction!
      }
      const transaction = await assignIt(at)
      expect(transaction.status).toBe(TransactionStatus.SUCCESS)
      const { rows } = await service.database.pool.query(
        'select amount_minor from ledger_posting where transaction_id = $1',
        [transaction.id],
      )
      expect(rows).toEqual([{ amount_minor: '500' }])
      const { sessionId } = transaction
      expect((await open()).filter((each) => each.sessionId === sessionId)).toEqual([])
      expect((await assignIt(1 - at)).id).toBe(transaction.id)
      const unmatchedPaymentId = tellings[1 - at]!.id
      await expect(
        reconciliation().returnUnmatchedPayment({ unmatchedPaymentId, note: 'x' }),
      ).rejects.toMatchObject({ code: Code.FailedPrecondition })
    }
  })

  test('is returned as a whole', async () => {
    const [last, first] = await announce()
    const give = { unmatchedPaymentId: first.id, note: 'sent back' }
    await reconciliation().returnUnmatchedPayment(give)
    expect((await open()).filter(({ sessionId }) => sessionId === last.sessionId)).toEqual([])
    const to = await payee(service)
    const request = { ...to, unmatchedPaymentId: last.id, note: 'x' }
    await expect(reconciliation().assignUnmatchedPayment(request)).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    })
  })
})

test('a payment that is recorded after all is listed no more, and not assigned or returned', async () => {
  const told = await arrive('3777777777')
  bank.nextNumber = '3777777777'
  const to = await payee(service)
  expect((await notify(service, { ...told, session: '' })).text).toBe('recorded')
  expect(await find(told)).toBeUndefined()
  await expect(giveBack(told)).rejects.toMatchObject({ code: Code.FailedPrecondition })
  const other = await payee(service)
  await expect(assign(told, other)).rejects.toMatchObject({ code: Code.FailedPrecondition })
  expect(await recordedIn(service, to)).toHaveLength(1)
})

test('a payment into a closed account is kept as unmatched', async () => {
  const to = await payee(service)
  const first = payment(to.accountNumber)
  bank.payments.set(first.key, first)
  expect((await notify(service, first)).text).toBe('recorded')
  await service.client(AccountService).closeAccount(to)
  const told = await arrive(to.accountNumber)
  expect(await find(told)).toMatchObject({ accountNumber: to.accountNumber })
  expect(await recordedIn(service, to)).toHaveLength(1)
})
