import { timestampMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { Schedule, SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { useService } from '../support/service.ts'
import { untilServed, waitFor } from '../support/wait-for.ts'
import { openAccount, paymentInto } from '../transactions/fixture.ts'
import { findDiscrepancies } from './fixture.ts'

const db = useDatabase()
const service = useService({}, undefined, db)
const settlements = () => service.client(SettlementService)
const transactions = () => service.client(TransactionService)

async function payMany(accountNumber: string, count: number, amountMinor = 100_000n) {
  const payments = Array.from({ length: count }, (_, at) =>
    paymentInto(accountNumber, { sessionId: `${accountNumber}-${at}`, amountMinor }),
  )
  const { results } = await transactions().recordPayments({ payments })
  return results.map((result) => result.transaction!.id)
}

/** A settlement covers the payments whose events are numbered, which happens after their commit. */
async function untilNumbered(businessId: string): Promise<void> {
  await waitFor(async () => {
    const { rows } = await db.database.durablePool.query<{ left: number }>(
      `select count(*)::int as left from outbox o left join event_log l on l.outbox_seq = o.seq
        where o.business_id = $1 and l.position is null`,
      [businessId],
    )
    expect(rows[0]?.left).toBe(0)
  })
}

async function settle(request: Parameters<ReturnType<typeof settlements>['settle']>[0]) {
  await untilNumbered(request.businessId ?? '')
  return settlements().settle(request)
}

async function balanceOf(businessId: string) {
  const { balance } = await settlements().getBalance({ businessId })
  const { pendingMinor, availableMinor, feesMinor } = balance!
  return { pendingMinor, availableMinor, feesMinor }
}

/** Terms under which nothing becomes due during a test. */
const LATER = { schedule: Schedule.WORKING_DAYS, workingDays: 30, cutOff: '00:00' }

describe('a settlement', () => {
  /** A business whose events have their numbers, so that nothing of it is waited for. */
  async function openNumbered(): Promise<string> {
    const { businessId } = await openAccount(service)
    await untilNumbered(businessId)
    return businessId
  }

  /**
   * Runs a call about a business while nothing gets a number, and lets it end after others that wait for nothing.
   *
   * @param call what to run, with the id of a business
   */
  async function whileUnnumbered<Result>(
    sessionId: string,
    call: (businessId: string) => Promise<Result>,
  ): Promise<Result> {
    for (let tries = 1; ; tries += 1) {
      const { result, tookMs } = await tryUnnumbered(`${sessionId}-${tries}`, call)
      // A call waits no longer than two seconds.
      if (tookMs < 2_000 || tries === 20) return result
    }
  }

  async function tryUnnumbered<Result>(
    sessionId: string,
    call: (businessId: string) => Promise<Result>,
  ): Promise<{ result: Result; tookMs: number }> {
    const other = await openNumbered()
    const { businessId, number } = await openAccount(service)
    await settlements().updateSettlementTerms({ businessId, terms: LATER })
    let isDone = false
    let tookMs = 0
    const { result } = await inTransaction(db.database.durablePool, async (client) => {
      // Nothing gets a number now.
      await client.query('select from sequencer for update')
      await transactions().recordPayment(paymentInto(number, { sessionId }))
      const beganMs = performance.now()
      const result = call(businessId).finally(() => {
        isDone = true
        tookMs = performance.now() - beganMs
      })
      // Without waiting, it would have ended before three others that began later. It waits for two seconds at most.
      const untilMs = performance.now() + 700
      for (let count = 0; count < 3 && !isDone && performance.now() < untilMs; count++)
        await call(other)
      return { result }
    })
    return { result: await result, tookMs }
  }

  test('that is forced settles every payment that was acknowledged before', async () => {
    const { settlements: settled } = await whileUnnumbered('just-before', (businessId) =>
      settlements().settle({ businessId, force: true }),
    )
    expect(settled).toMatchObject([{ transactionCount: 1n }])
  })

  test.each([
    ['to be forced', true, 1n],
    ['by its schedule', false, 0n],
  ])(
    'that is previewed %s knows every payment that was acknowledged before',
    async (_how, force, count) => {
      const { transactionCount, nextSettlementAt } = await whileUnnumbered(
        `preview-${force}`,
        (businessId) => settlements().previewSettlement({ businessId, force }),
      )
      expect([transactionCount, nextSettlementAt === undefined]).toEqual([count, false])
    },
  )

  test('moves pending payments to the available balance, less fees, and emits one event', async () => {
    const { businessId, number } = await openAccount(service)
    await settlements().updateSettlementTerms({
      businessId,
      terms: { ...LATER, feeFlatMinor: 1_000n, feeBasisPoints: 150, feeCapMinor: 2_000n },
    })
    await payMany(number, 2, 33_333n)
    await transactions().recordPayment(
      paymentInto(number, { sessionId: 'large', amountMinor: 900_000n }),
    )
    await untilNumbered(businessId)
    // 1.5 % of 333.33 is 4.99995: 5.00 with half a kobo up; of 9,000.00 it is 135, over the cap.
    const preview = await settlements().previewSettlement({ businessId, force: true })
    expect(preview).toMatchObject({ transactionCount: 3n, grossMinor: 966_666n, feesMinor: 5_000n })
    const request = { businessId, requestId: 'run-1', force: true }
    const result = await settle(request)
    expect(result).toMatchObject({ requestId: 'run-1', completed: true })
    expect(result.settlements).toMatchObject([
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
    expect(await settle(request)).toEqual(result)
    expect(await balanceOf(businessId)).toEqual({ ...after, pendingMinor: 500n })

    const { events } = await until(
      () => service.client(EventService).listEvents({ businessId, limit: 100 }),
      (log) => log.events.length >= 6,
    )
    const completed = events.filter(({ kind }) => kind === 'SETTLEMENT_COMPLETED')
    expect(completed.map(({ payload }) => payload.value)).toEqual(result.settlements)
  })

  test('a request id is one of its business and mode: another business may use it too', async () => {
    const [one, other] = [await openAccount(service), await openAccount(service)]
    for (const { businessId, number } of [one, other]) {
      await settlements().updateSettlementTerms({ businessId, terms: LATER })
      await payMany(number, 1)
      await untilNumbered(businessId)
    }
    const request = { requestId: 'month-end', force: true }
    for (const { businessId } of [one, other]) {
      const result = await settle({ ...request, businessId })
      expect(result).toMatchObject({
        requestId: 'month-end',
        settlements: [{ businessId, requestId: 'month-end', transactionCount: 1n }],
      })
      expect(await settle({ ...request, businessId })).toEqual(result)
      const test = await settle({ ...request, businessId, force: false, live: false })
      expect(test).toMatchObject({ requestId: 'month-end', settlements: [], completed: true })
      await expect(settlements().settle({ ...request, businessId, force: false })).rejects.toThrow(
        'already used with other parameters',
      )
    }
    const all = await settle({ ...request, businessId: '' })
    expect(all).toMatchObject({ requestId: 'month-end', completed: true })
    const settled = all.settlements.map(({ businessId }) => businessId)
    for (const { businessId } of [one, other]) expect(settled).not.toContain(businessId)
  })

  test('runs once when one request is sent twenty times concurrently', async () => {
    const { businessId, number } = await openAccount(service)
    await settlements().updateSettlementTerms({ businessId, terms: LATER })
    await payMany(number, 50)
    const request = { businessId, requestId: `many-${businessId}`, force: true }
    await untilNumbered(businessId)
    const client = settlements()
    await Promise.all(Array.from({ length: 20 }, () => untilServed(() => client.settle(request))))
    const listed = await settlements().listSettlements({ businessId })
    expect(listed.settlements).toMatchObject([
      { transactionCount: 50n, status: SettlementStatus.COMPLETED },
    ])
    expect(await balanceOf(businessId)).toMatchObject({
      pendingMinor: 0n,
      availableMinor: 5_000_000n,
    })
  })

  test('is announced by settles_at, which follows changes of the holidays', async () => {
    const { businessId, number } = await openAccount(service)
    await payMany(number, 1)
    const sessionId = `${number}-0`
    const settlesAt = async () => {
      const { transaction } = await transactions().getTransaction({ businessId, sessionId })
      return timestampMs(transaction!.settlesAt!)
    }
    const before = await settlesAt()
    // The due time is midnight in Lagos: the holiday is the day that starts then.
    const day = new Date(before + 3_600_000).toISOString().slice(0, 10)
    await settlements().addHoliday({ day, name: 'A day off' })
    await until(settlesAt, (at) => at > before)
    const listed = await transactions().listTransactions({ businessId })
    expect(timestampMs(listed.transactions[0]!.settlesAt!)).toBe(await settlesAt())
    await settlements().removeHoliday({ day })
    await until(settlesAt, (at) => at === before)
  })
})

test('the ledger is consistent after all tests', async () => {
  expect(await findDiscrepancies(service.database.durablePool)).toEqual([])
})
