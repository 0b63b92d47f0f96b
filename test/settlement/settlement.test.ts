import { timestampMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Schedule, SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { until } from '../protocols/rest/rest.ts'
import { useService } from '../support/service.ts'
import { openAccount, paymentInto } from '../transactions/fixture.ts'
import { differencesOf } from './fixture.ts'

const service = useService()
const settlements = () => service.client(SettlementService)
const transactions = () => service.client(TransactionService)

async function payMany(accountNumber: string, count: number, amountMinor = 100_000n) {
  const payments = Array.from({ length: count }, (_, at) =>
    paymentInto(accountNumber, { sessionId: `${accountNumber}-${at}`, amountMinor }),
  )
  const { results } = await transactions().recordPayments({ payments })
  return results.map((result) => result.transaction!.id)
}

async function balanceOf(businessId: string) {
  const { balance } = await settlements().getBalance({ businessId })
  const { pendingMinor, availableMinor, feesMinor } = balance!
  return { pendingMinor, availableMinor, feesMinor }
}

/** Terms that leave everything to the test: nothing is due by itself for a month. */
const LATER = { schedule: Schedule.WORKING_DAYS, workingDays: 30, cutOff: '00:00' }

describe('a payment counts in the balance when it is acknowledged', () => {
  test('as pending, at every door', async () => {
    const { businessId, number, key } = await openAccount(service)
    await payMany(number, 3)
    expect(await balanceOf(businessId)).toEqual({
      pendingMinor: 300_000n,
      availableMinor: 0n,
      feesMinor: 0n,
    })
    const answer = await service.post('getBalance/', key, {})
    expect(answer.body).toEqual({
      status: true,
      message: 'Balance retrieved',
      data: { pending: 3000, available: 0, fees: 0, currency: 'NGN' },
    })
  })
})

describe('settling', () => {
  test('moves what was received to the balance, less fees, and tells of it once', async () => {
    const { businessId, number, key } = await openAccount(service)
    await settlements().updateSettlementTerms({
      businessId,
      terms: { ...LATER, feeFlatMinor: 1_000n, feeBasisPoints: 150, feeCapMinor: 2_000n },
    })
    await payMany(number, 2, 33_333n)
    await transactions().recordPayment(
      paymentInto(number, { sessionId: 'large', amountMinor: 900_000n }),
    )
    // 1.5 % of 333.33 is 4.99995: 5.00 with half a kobo up; of 9,000.00 it is 135, over the cap.
    const preview = await settlements().previewSettlement({ businessId, force: true })
    expect(preview).toMatchObject({ transactionCount: 3n, grossMinor: 966_666n, feesMinor: 5_000n })
    const request = { businessId, requestId: 'run-1', force: true }
    const settled = await settlements().settle(request)
    expect(settled).toMatchObject({ requestId: 'run-1', completed: true })
    expect(settled.settlements).toMatchObject([
      {
        businessId,
        requestId: 'run-1',
        status: SettlementStatus.COMPLETED,
        transactionCount: 3n,
        grossMinor: 966_666n,
        feesMinor: 5_000n,
        netMinor: 961_666n,
        percentDone: 100,
      },
    ])
    const after = { pendingMinor: 0n, availableMinor: 961_666n, feesMinor: 5_000n }
    expect(await balanceOf(businessId)).toEqual(after)

    await transactions().recordPayment(
      paymentInto(number, { sessionId: 'after', amountMinor: 500n }),
    )
    expect(await settlements().settle(request)).toEqual(settled)
    expect(await balanceOf(businessId)).toEqual({ ...after, pendingMinor: 500n })

    const found = await service.post('getTransaction/', key, { session_id: 'large' })
    expect(found.body.data.is_settled).toBe(true)
    const { events } = await until(
      () => service.client(EventService).listEvents({ businessId, limit: 100 }),
      (log) => log.events.length >= 6,
    )
    const told = events.filter(({ kind }) => kind === 'SETTLEMENT_COMPLETED')
    expect(told.map(({ payload }) => payload.value)).toEqual(settled.settlements)
    const bodies = await service.post('listEvents/', key, { after: 0 })
    const body = bodies.body.data.events.find(
      ({ event }: { event: string }) => event === 'SETTLEMENT_COMPLETED',
    )
    expect(body.data).toMatchObject({
      type: 'SETTLEMENT',
      amount: '9616.66',
      status: 'COMPLETED',
      settlement: {
        settlement_id: settled.settlements[0]!.id,
        transaction_count: 3,
        gross_amount: '9666.66',
        fees: '50.00',
        net_amount: '9616.66',
        currency: 'NGN',
      },
    })
  })

  test('one request a hundred times at once makes one settlement', async () => {
    const { businessId, number } = await openAccount(service)
    await settlements().updateSettlementTerms({ businessId, terms: LATER })
    await payMany(number, 50)
    const request = { businessId, requestId: `many-${businessId}`, force: true }
    const client = settlements()
    await Promise.all(Array.from({ length: 100 }, () => client.settle(request)))
    const { settlements: made } = await settlements().listSettlements({ businessId })
    expect(made).toMatchObject([{ transactionCount: 50n, status: SettlementStatus.COMPLETED }])
    expect(await balanceOf(businessId)).toMatchObject({
      pendingMinor: 0n,
      availableMinor: 5_000_000n,
    })
  })

  test('by the schedule settles nothing before it is due, and what is due by itself', async () => {
    const { businessId, number } = await openAccount(service)
    await settlements().updateSettlementTerms({ businessId, terms: LATER })
    await payMany(number, 1)
    expect(await settlements().settle({ businessId })).toMatchObject({
      settlements: [],
      completed: true,
    })
    expect(await balanceOf(businessId)).toMatchObject({ pendingMinor: 100_000n })
    await settlements().updateSettlementTerms({
      businessId,
      terms: { schedule: Schedule.INSTANT },
    })
    await until(
      () => balanceOf(businessId),
      (balance) => balance.availableMinor === 100_000n,
      20_000,
    )
  })

  test('settles_at follows the schedule and the holidays as they are', async () => {
    const { businessId, number } = await openAccount(service)
    await payMany(number, 1)
    const sessionId = `${number}-0`
    const settlesAt = async () => {
      const { transaction } = await transactions().getTransaction({ businessId, sessionId })
      return timestampMs(transaction!.settlesAt!)
    }
    const before = await settlesAt()
    // Midnight in Lagos, so that the holiday is the day that begins then.
    const day = new Date(before + 3_600_000).toISOString().slice(0, 10)
    await settlements().addHoliday({ day, name: 'A day off' })
    await until(settlesAt, (at) => at > before)
    const listed = await transactions().listTransactions({ businessId })
    expect(timestampMs(listed.transactions[0]!.settlesAt!)).toBe(await settlesAt())
    await settlements().removeHoliday({ day })
    await until(settlesAt, (at) => at === before)
  })
})

describe('the fee of a payment', () => {
  test('is what exact arithmetic says, rounded half a kobo up, and never more than the payment', () =>
    fc.assert(
      fc.asyncProperty(
        fc.bigInt({ min: 1n, max: 1_000_000_000_000_000n }),
        fc.bigInt({ min: 0n, max: 1_000_000n }),
        fc.nat({ max: 10_000 }),
        fc.bigInt({ min: 0n, max: 1_000_000n }),
        async (amount, flat, points, cap) => {
          const { rows } = await service.database.pool.query(
            'select settlement_fee($1, $2, $3, $4) as fee',
            [amount, flat, points, cap],
          )
          // Twice the part in tenths of a thousandth, so that no half is lost.
          const part = (amount * BigInt(points) * 2n + 10_000n) / 20_000n
          const bounds = [flat + part, amount, ...(cap > 0n ? [cap] : [])]
          expect(BigInt(rows[0].fee)).toBe(bounds.reduce((a, b) => (a < b ? a : b)))
        },
      ),
      { numRuns: 200 },
    ))
})

describe('a reversal', () => {
  test('undoes a settlement with its fee, and the business may owe', async () => {
    const { businessId, number, key } = await openAccount(service)
    await settlements().updateSettlementTerms({
      businessId,
      terms: { ...LATER, feeBasisPoints: 1_000 },
    })
    const [first = '', second = ''] = await payMany(number, 2)
    await transactions().reverseTransaction({ transactionId: first, reason: 'before' })
    expect(await balanceOf(businessId)).toMatchObject({ pendingMinor: 100_000n })
    await settlements().settle({ businessId, force: true })
    expect(await balanceOf(businessId)).toEqual({
      pendingMinor: 0n,
      availableMinor: 90_000n,
      feesMinor: 10_000n,
    })
    const { transaction } = await transactions().reverseTransaction({
      transactionId: second,
      reason: 'recalled',
    })
    expect(transaction).toMatchObject({
      status: TransactionStatus.REVERSED,
      settled: true,
      reversal: { reason: 'recalled' },
    })
    expect(await balanceOf(businessId)).toEqual({
      pendingMinor: 0n,
      availableMinor: 0n,
      feesMinor: 0n,
    })
    const found = await service.post('getTransaction/', key, { session_id: `${number}-1` })
    expect(found.body.data).toMatchObject({ status: 'REVERSED', is_settled: true })
    const { body } = await until(
      () => service.post('listEvents/', key, { after: 0 }),
      (answer) => answer.body.data.events.length >= 6,
    )
    const reversed = body.data.events.filter(
      ({ event }: { event: string }) => event === 'PAYMENT_REVERSED',
    )
    const paid = body.data.events.filter(
      ({ event }: { event: string }) => event === 'PAYMENT_NOTIFICATION',
    )
    for (const [at, { data }] of reversed.entries()) {
      const { event_id: _id, sequence: _sequence, ...rest } = paid[at].data
      expect(data).toMatchObject({ ...rest, status: 'REVERSED' })
    }
    expect(reversed).toHaveLength(2)
  })

  test('of 500 transactions, each twice at once, succeeds exactly 500 times', async () => {
    const { businessId, number } = await openAccount(service)
    await settlements().updateSettlementTerms({ businessId, terms: LATER })
    const ids = await payMany(number, 500)
    const settling = settlements().settle({ businessId, force: true })
    const client = transactions()
    const outcomes = await Promise.all(
      [...ids, ...ids].map((transactionId) =>
        client.reverseTransaction({ transactionId, reason: 'twice' }).then(
          () => 'reversed',
          (error) => {
            const { code } = ConnectError.from(error)
            const [info] = ConnectError.from(error).findDetails(ErrorInfoSchema)
            return `${Code[code]} ${info?.reason}`
          },
        ),
      ),
    )
    await settling
    const count = (outcome: string) => outcomes.filter((each) => each === outcome).length
    expect([...new Set(outcomes)].map((each) => [each, count(each)]).sort()).toEqual([
      ['FailedPrecondition already_reversed', 500],
      ['reversed', 500],
    ])
    const balance = await balanceOf(businessId)
    expect(balance).toEqual({ pendingMinor: 0n, availableMinor: 0n, feesMinor: 0n })
    const { rows } = await service.database.pool.query(
      `select count(*)::int as events from outbox where business_id = $1 and kind = 'PAYMENT_REVERSED'`,
      [businessId],
    )
    expect(rows).toEqual([{ events: 500 }])
  })
})

test('the modes of a business have balances, settlements and books of their own', async () => {
  const { id: businessId } = await service.business('Both')
  const accounts = service.client(AccountService)
  for (const test of [false, true]) {
    const request = { businessId, test, reference: 'order-1', bank: Bank.BANK_9PSB, ...CUSTOMER }
    const { account } = await accounts.createAccount(request)
    const amountMinor = test ? 700n : 500n
    const { accountNumber } = account!
    await service.client(SandboxService).simulateTransfer({ accountNumber, amountMinor })
  }
  const balances = async () =>
    Promise.all(
      [false, true].map(async (test) => {
        const { balance } = await settlements().getBalance({ businessId, test })
        return [balance!.pendingMinor, balance!.availableMinor]
      }),
    )
  expect(await balances()).toEqual([
    [500n, 0n],
    [700n, 0n],
  ])
  await until(
    () => settlements().settle({ businessId, test: true, force: true }),
    ({ settlements: made }) => made.length === 1 && made[0]!.live === false,
  )
  expect(await balances()).toEqual([
    [500n, 0n],
    [0n, 700n],
  ])
  const { settlements: live } = await settlements().listSettlements({ businessId, live: true })
  expect(live).toEqual([])
  const books = await Promise.all(
    [false, true].map((test) => settlements().listEntries({ businessId, test })),
  )
  expect(books[0]!.entries.map((entry) => entry.kind)).toEqual(['PAYMENT_NOTIFICATION'])
  expect(books[1]!.closingBalance).toMatchObject({ pendingMinor: 0n })
})

test('after all of it, the ledger agrees with everything', async () => {
  expect(await differencesOf(service.database.pool)).toEqual([])
})
