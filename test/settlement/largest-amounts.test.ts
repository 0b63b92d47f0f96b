import { beforeAll, expect, test } from 'vitest'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { AMOUNT_MINOR_MAX } from '../../src/core/money.ts'
import { FULL_MINOR } from '../../src/settlement/settlement.ts'
import { pages } from '../support/pages.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { type OpenedAccount, openAccount, paymentInto } from '../transactions/fixture.ts'
import { findDiscrepancies } from './fixture.ts'

/** So many of the largest payments are more than an int64 holds. */
const PAYMENTS = 9_400n
const BATCH = 940

const SUM = PAYMENTS * AMOUNT_MINOR_MAX
const INT64_MAX = 2n ** 63n - 1n
/** A full settlement ends with its batch of 500 events. */
const GROSS_MAX = FULL_MINOR + 500n * AMOUNT_MINOR_MAX

const service = useService()
const settlements = () => service.client(SettlementService)

let rich: OpenedAccount
let other: OpenedAccount

beforeAll(async () => {
  rich = await openAccount(service)
  other = await openAccount(service)
  const transactions = service.client(TransactionService)
  for (let at = 0; at < PAYMENTS; at += BATCH) {
    const payments = Array.from({ length: BATCH }, (_, index) =>
      paymentInto(rich.number, { sessionId: `rich-${at + index}`, amountMinor: AMOUNT_MINOR_MAX }),
    )
    // A repeat records what was not recorded in time.
    await waitFor(async () => {
      const { results } = await transactions.recordPayments({ payments })
      expect(results.filter(({ transaction }) => transaction === undefined)).toEqual([])
    })
  }
  await transactions.recordPayment(paymentInto(other.number, { sessionId: 'other' }))
})

test('the figures of all businesses count them, and what is paid to others', async () => {
  const overview = service.client(OverviewService)
  await waitFor(async () => {
    const all = await overview.getOverview({})
    expect(all.total).toMatchObject({ payments: PAYMENTS + 1n, amountMinor: INT64_MAX })
    const { total } = await overview.getOverview({ businessId: other.businessId })
    expect(total).toMatchObject({ payments: 1n, amountMinor: 100_000n })
  })
})

test('the totals of a list of payments are shown as the largest number, too', async () => {
  const request = { businessId: rich.businessId, live: true }
  const totals = await service.client(TransactionService).summarizeTransactions(request)
  expect(totals).toMatchObject({ count: Number(PAYMENTS), amountMinor: INT64_MAX })
  expect(totals.statuses).toMatchObject([{ amountMinor: INT64_MAX }])
})

test('a balance is shown as the largest number of the contract, and settles as a whole', async () => {
  const { businessId } = rich
  const { balance } = await settlements().getBalance({ businessId })
  expect(balance).toMatchObject({ pendingMinor: INT64_MAX, availableMinor: 0n })
  const { body } = await service.post('getBalance/', rich.key, {})
  expect(body.data).toMatchObject({ pending: Number(SUM / 100n), available: 0 })
  const preview = await settlements().previewSettlement({ businessId, force: true })
  expect(preview).toMatchObject({ transactionCount: PAYMENTS, grossMinor: INT64_MAX })

  const request = { businessId, force: true, requestId: 'all' }
  let result = await settlements().settle(request)
  // One call takes at most 20 s.
  while (!result.completed) result = await settlements().settle(request)
  const { settlements: made } = result
  expect(made.reduce((sum, { grossMinor }) => sum + grossMinor, 0n)).toBe(SUM)
  expect(made.reduce((sum, each) => sum + each.transactionCount, 0n)).toBe(PAYMENTS)
  expect(made.length).toBeGreaterThan(1)
  for (const { grossMinor } of made) expect(grossMinor).toBeLessThan(GROSS_MAX)
  // A repeat returns the same.
  expect((await settlements().settle(request)).settlements).toEqual(made)
  await waitFor(async () => {
    const after = await settlements().getBalance({ businessId })
    expect(after.balance).toMatchObject({ pendingMinor: 0n, availableMinor: INT64_MAX })
    const { entries, closingBalance } = await settlements().listEntries({ businessId, pageSize: 1 })
    expect(entries).toHaveLength(1)
    expect(closingBalance?.pendingMinor).toBe(AMOUNT_MINOR_MAX)
  })
  const { rows } = await service.database.durablePool.query(
    `select sum(available_minor) as available, count(*)::int as settlements from money_event
      where business_id = $1 and kind = 'SETTLEMENT_COMPLETED'`,
    [businessId],
  )
  expect(rows).toEqual([{ available: String(SUM), settlements: made.length }])
  const listed = await pages(async (pageToken) => {
    const page = await settlements().listEntries({ businessId, pageSize: 1_000, pageToken })
    return { items: page.entries, next: page.nextPageToken }
  })
  expect(listed).toHaveLength(Number(PAYMENTS) + made.length)
  const month = new Date(Date.now() + 3_600_000).toISOString().slice(0, 7)
  const { days } = await settlements().getSettlementCalendar({ businessId, month })
  const settled = days.filter(({ transactionCount }) => transactionCount > 0n)
  expect(settled.map(({ grossMinor }) => grossMinor)).toEqual([INT64_MAX])
  // The verification reads all of the ledger, by plans for its size.
  await service.database.durablePool.query('analyze')
  expect(await findDiscrepancies(service.database.durablePool)).toEqual([])
})
