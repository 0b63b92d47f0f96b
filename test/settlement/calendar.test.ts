import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { until } from '../protocols/rest/rest.ts'
import { issueToken, useService } from '../support/service.ts'
import { openAccount, paymentInto, transactionsOf } from '../transactions/fixture.ts'

const service = useService()
const settlements = (token?: string) => service.client(SettlementService, token)

/** YYYY-MM-DD of a time in Lagos. */
const lagosDay = (atMs: number) => new Date(atMs + 3_600_000).toISOString().slice(0, 10)

/** Two businesses that settle after one working day; the first has settled a payment. */
async function setScene() {
  const accounts = [await openAccount(service), await openAccount(service)] as const
  for (const [index, { businessId, number }] of accounts.entries()) {
    const terms = { schedule: Schedule.WORKING_DAYS, workingDays: 1, feeFlatMinor: 100n }
    await settlements().updateSettlementTerms({ businessId, terms })
    const amountMinor = BigInt(1_000 * (index + 1))
    const payment = paymentInto(number, { sessionId: `settled-${businessId}`, amountMinor })
    await transactionsOf(service).recordPayment(payment)
  }
  const [{ businessId }] = accounts
  // The settlement waits for the number of the payment for two seconds at most.
  await until(
    () => settlements().previewSettlement({ businessId, force: true }),
    ({ transactionCount }) => transactionCount === 1n,
  )
  const { settlements: settled } = await settlements().settle({ businessId, force: true })
  for (const name of ['first', 'second']) {
    const sessionId = `${name}-${businessId}`
    const payment = paymentInto(accounts[0].number, { sessionId, amountMinor: 500n })
    await transactionsOf(service).recordPayment(payment)
  }
  return { accounts, settlement: settled[0]! }
}

test('a month shows working days, what was settled, and what falls due', async () => {
  const { accounts, settlement } = await setScene()
  const [{ businessId }, other] = accounts
  const today = lagosDay(timestampMs(settlement.startedAt!))
  const month = today.slice(0, 7)
  await settlements().addHoliday({ day: `${month}-05`, name: 'Test day' })
  const calendarOf = async (request: { businessId?: string; month: string; test?: boolean }) =>
    (await settlements().getSettlementCalendar(request)).days

  // The index of due balances is written in the background.
  const { settlesAt } = (await transactionsOf(service).listTransactions({ businessId }))
    .transactions[0]!
  const dueDay = lagosDay(Number(settlesAt!.seconds) * 1_000)
  const dueMonth = dueDay.slice(0, 7)
  await until(
    async () => (await calendarOf({ month: dueMonth })).find(({ day }) => day === dueDay)!,
    ({ dueBalanceCount }) => dueBalanceCount === 2n,
  )

  const days = await calendarOf({ businessId, month })
  expect(days[0]!.day).toBe(`${month}-01`)
  expect(new Date(Date.parse(days.at(-1)!.day) + DAY_MS).getUTCDate()).toBe(1)
  for (const { day, workingDay, holidayName } of days) {
    const isWeekend = [0, 6].includes(new Date(day).getUTCDay())
    expect(holidayName).toBe(day === `${month}-05` ? 'Test day' : '')
    expect(workingDay).toBe(!isWeekend && holidayName === '')
  }
  expect(days.find(({ day }) => day === today)).toMatchObject({
    settlementCount: 1n,
    transactionCount: 1n,
    grossMinor: 1_000n,
    feesMinor: 100n,
    netMinor: 900n,
  })
  expect(days.filter(({ settlementCount }) => settlementCount > 0n)).toHaveLength(1)
  const due = await until(
    async () =>
      (await calendarOf({ businessId, month: dueMonth })).find(({ day }) => day === dueDay)!,
    ({ dueTransactionCount }) => dueTransactionCount === 2n,
  )
  const dueOfOne = { dueBalanceCount: 1n, dueTransactionCount: 2n, dueGrossMinor: 1_000n }
  expect(due).toMatchObject(dueOfOne)

  // Of all businesses, balances are counted; test mode and other months have none.
  const all = (await calendarOf({ month })).find(({ day }) => day === today)
  expect(all).toMatchObject({ settlementCount: 1n, grossMinor: 1_000n })
  for (const request of [
    { month: '2020-01' },
    { month: dueMonth, live: false },
    { month, live: false },
  ]) {
    for (const { settlementCount, dueBalanceCount } of await calendarOf(request)) {
      expect([settlementCount, dueBalanceCount]).toEqual([0n, 0n])
    }
  }

  const { secret } = await issueToken(service, ['read'], [other.businessId])
  const seen = await settlements(secret).getSettlementCalendar({ month: dueMonth })
  expect(seen.days.find(({ day }) => day === dueDay)).toMatchObject({ dueBalanceCount: 1n })
  expect(seen.days.every(({ settlementCount }) => settlementCount === 0n)).toBe(true)

  const { id, startedAt } = settlement
  const startedMs = Number(startedAt!.seconds) * 1_000
  const list = async (request: Parameters<ReturnType<typeof settlements>['listSettlements']>[0]) =>
    (await settlements().listSettlements(request)).settlements.map((each) => each.id)
  expect(await list({ settlementId: id })).toEqual([id])
  expect(await list({ settlementId: id, businessId: other.businessId })).toEqual([])
  expect(await list({ from: timestampFromMs(startedMs) })).toEqual([id])
  expect(await list({ to: timestampFromMs(startedMs) })).toEqual([])
})

test('the payments of a settlement are the entries that it covers', async () => {
  const { accounts, settlement } = await setScene()
  const [{ businessId }, other] = accounts
  await until(
    () => settlements().listEntries({ businessId }),
    ({ entries }) => entries.length === 4,
  )
  const { entries, openingBalance, closingBalance, nextPageToken } =
    await settlements().listEntries({ businessId, settlementId: settlement.id })
  expect(entries.map(({ sessionId }) => sessionId)).toEqual([`settled-${businessId}`])
  expect(openingBalance).toMatchObject({ pendingMinor: 0n })
  expect(closingBalance).toMatchObject({ pendingMinor: 1_000n })
  expect(nextPageToken).toBe('')
  const wrong = { businessId: other.businessId, settlementId: settlement.id }
  await expect(settlements().listEntries(wrong)).rejects.toThrow(/no such settlement/)
  const both = { businessId, settlementId: settlement.id, from: timestampFromMs(0) }
  await expect(settlements().listEntries(both)).rejects.toThrow(/Invalid request/)
})
