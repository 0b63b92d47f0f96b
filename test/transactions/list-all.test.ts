import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import {
  HoldState,
  TransactionStatus,
  Variance,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type ListTransactionsRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { useService } from '../support/service.ts'
import { openAccount, paymentInto, transactionsOf } from './fixture.ts'
import { newBusiness } from './variance/fixture.ts'

const service = useService()

type Filter = MessageInitShape<typeof ListTransactionsRequestSchema>

/** Reads every page. @returns the sessions in the order of the list */
async function listed(filter: Filter, token?: string): Promise<string[]> {
  const client = service.client(TransactionService, token)
  const sessions: string[] = []
  let pageToken = ''
  do {
    const page = await client.listTransactions({ pageSize: 2, ...filter, pageToken })
    expect(page.transactions.length).toBeLessThanOrEqual(2)
    sessions.push(...page.transactions.map(({ sessionId }) => sessionId))
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return sessions
}

async function restrictedTo(businessIds: string[]): Promise<string> {
  const request = { name: 'restricted', scopes: ['read'], businessIds }
  return (await service.client(AdminService).issueToken(request)).secret
}

const pay = (number: string, sessionId: string, other: Parameters<typeof paymentInto>[1] = {}) =>
  transactionsOf(service).recordPayment(paymentInto(number, { sessionId, ...other }))

test('lists the payments of all businesses, the latest reported first, with every filter', async () => {
  const [one, two, three] = [
    await openAccount(service),
    await openAccount(service),
    await openAccount(service),
  ]
  const before = Date.now()
  await pay(one.number, 'a1', { amountMinor: 100n })
  await pay(two.number, 'b1', { amountMinor: 200n, paidAt: timestampFromMs(before - 86_400_000) })
  await pay(three.number, 'c1', { amountMinor: 300n, status: TransactionStatus.PENDING })
  await pay(one.number, 'a2', { amountMinor: 400n, status: TransactionStatus.FAILED })
  await pay(two.number, 'b2', { amountMinor: 500n })

  expect(await listed({ live: true })).toEqual(['b2', 'a2', 'c1', 'b1', 'a1'])
  expect(await listed({ live: false })).toEqual([])
  const { SUCCESS, FAILED, PENDING } = TransactionStatus
  expect(await listed({ live: true, status: SUCCESS })).toEqual(['b2', 'b1', 'a1'])
  expect(await listed({ live: true, statuses: [FAILED, PENDING] })).toEqual(['a2', 'c1'])
  expect(await listed({ live: true, amountFromMinor: 200n, amountToMinor: 400n })).toEqual([
    'a2',
    'c1',
    'b1',
  ])
  expect(await listed({ live: true, bank: Bank.BANK_9PSB })).toHaveLength(5)
  expect(await listed({ live: true, bank: Bank.BANK_PALMPAY })).toEqual([])
  expect(await listed({ live: true, recordedFrom: timestampFromMs(before) })).toHaveLength(5)
  expect(await listed({ live: true, recordedTo: timestampFromMs(before) })).toEqual([])
  expect(await listed({ live: true, sessionId: 'b2' })).toEqual(['b2'])

  const token = await restrictedTo([one.businessId, two.businessId])
  // By the time of payment: b1 was paid a day before.
  expect(await listed({ live: true }, token)).toEqual(['b2', 'a2', 'a1', 'b1'])
  expect(await listed({ live: true, amountFromMinor: 200n }, token)).toEqual(['b2', 'a2', 'b1'])
  expect(await listed({ live: true, statuses: [FAILED] }, token)).toEqual(['a2'])
  expect(await listed({ live: true, recordedFrom: timestampFromMs(before) }, token)).toHaveLength(4)
  expect(await listed({ live: true, recordedTo: timestampFromMs(before) }, token)).toEqual([])
  expect(await listed({ live: true, sessionId: 'c1' }, token)).toEqual([])
  expect(await listed({ live: true, sessionId: 'a1' }, token)).toEqual(['a1'])
  await expect(listed({ live: true, businessId: three.businessId }, token)).rejects.toThrow(
    /permission_denied|restricted/,
  )

  const { businessId } = one
  expect(await listed({ businessId, statuses: [SUCCESS, FAILED] })).toEqual(['a2', 'a1'])
  expect(await listed({ businessId, statuses: [FAILED], bank: Bank.BANK_9PSB })).toEqual(['a2'])
  expect(await listed({ businessId, amountToMinor: 100n })).toEqual(['a1'])
  expect(await listed({ businessId, amountToMinor: 100n, reference: one.reference })).toEqual([
    'a1',
  ])
})

test('pages hold what lies between the bounds of several businesses exactly once', async () => {
  const accounts = [await openAccount(service), await openAccount(service)]
  const token = await restrictedTo(accounts.map(({ businessId }) => businessId))
  const expected: string[] = []
  for (let i = 0; i < 9; i++) {
    const sessionId = `page-${i}`
    // Several are paid in the same millisecond.
    const paidAt = timestampFromMs(Date.UTC(2026, 0, 1) + Math.floor(i / 3))
    await pay(accounts[i % 2]!.number, sessionId, { paidAt })
    expected.unshift(sessionId)
  }
  expect(await listed({ live: true }, token)).toEqual(expected)
})

test('payments are found by how they differ from the terms of their account', async () => {
  const { businessId, open } = await newBusiness(service)
  const { pay: payOrder } = await open({ amount: '10.00', amountRule: 'EXACT' })
  await payOrder(5, { sessionId: 'short' })
  await payOrder(10, { sessionId: 'exact' })
  await payOrder(20, { sessionId: 'long' })
  const { UNDERPAID, OVERPAID, NONE } = Variance
  const all = { live: true, recordedFrom: timestampFromMs(0) }
  expect(await listed({ ...all, variances: [UNDERPAID] })).toEqual(['short'])
  expect(await listed({ ...all, variances: [NONE, OVERPAID] })).toEqual(['long', 'exact'])
  expect(await listed({ businessId, holdStates: [HoldState.HELD] })).toEqual(['long', 'short'])
  expect(await listed({ businessId, sessionId: 'short', variances: [OVERPAID] })).toEqual([])
  expect(await listed({ businessId, sessionId: 'short', variances: [UNDERPAID] })).toEqual([
    'short',
  ])
})

test.each<readonly [string, Filter]>([
  ['no business and no mode', { businessId: '' }],
  ['an account of no business', { live: true, reference: 'R-1' }],
  ['a time of payment of no business', { live: true, from: timestampFromMs(0) }],
  ['an empty range of amounts', { live: true, amountFromMinor: 2n, amountToMinor: 1n }],
  ['a status and statuses', { live: true, status: 1, statuses: [2] }],
])('refuses %s', async (_what, request) => {
  await expect(service.client(TransactionService).listTransactions(request)).rejects.toThrow(
    /Invalid request/,
  )
})
