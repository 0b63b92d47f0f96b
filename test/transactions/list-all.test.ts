import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type ListTransactionsRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { pages } from '../support/pages.ts'
import { issueToken, useSharedService } from '../support/service.ts'
import { openAccount, paymentInto, transactionsOf } from './fixture.ts'

const service = useSharedService()

type Filter = MessageInitShape<typeof ListTransactionsRequestSchema>

/** Reads every page. @returns the sessions in the order of the list */
const listed = (filter: Filter, token?: string) =>
  pages(async (pageToken) => {
    const client = service.client(TransactionService, token)
    const page = await client.listTransactions({ pageSize: 2, ...filter, pageToken })
    expect(page.transactions.length).toBeLessThanOrEqual(2)
    return { items: page.transactions.map(({ sessionId }) => sessionId), next: page.nextPageToken }
  })

const pay = (number: string, sessionId: string, other: Parameters<typeof paymentInto>[1] = {}) =>
  transactionsOf(service).recordPayment(paymentInto(number, { sessionId, ...other }))

test('a restricted token lists the payments of its businesses, the latest paid first', async () => {
  const [one, two, three] = [
    await openAccount(service),
    await openAccount(service),
    await openAccount(service),
  ]
  const before = Date.now()
  await pay(one.number, 'all-a1', { amountMinor: 100n })
  await pay(two.number, 'all-b1', {
    amountMinor: 200n,
    paidAt: timestampFromMs(before - 86_400_000),
  })
  await pay(three.number, 'all-c1', { amountMinor: 300n })
  await pay(one.number, 'all-a2', { amountMinor: 400n, status: TransactionStatus.FAILED })
  await pay(two.number, 'all-b2', { amountMinor: 500n })

  const { secret: token } = await issueToken(service, ['read'], [one.businessId, two.businessId])
  expect(await listed({ live: false }, token)).toEqual([])
  expect(await listed({ live: true }, token)).toEqual(['all-b2', 'all-a2', 'all-a1', 'all-b1'])
  expect(await listed({ live: true, amountFromMinor: 200n }, token)).toEqual([
    'all-b2',
    'all-a2',
    'all-b1',
  ])
  expect(await listed({ live: true, statuses: [TransactionStatus.FAILED] }, token)).toEqual([
    'all-a2',
  ])
  expect(await listed({ live: true, sessionId: 'all-c1' }, token)).toEqual([])
  expect(await listed({ live: true, sessionId: 'all-a1' }, token)).toEqual(['all-a1'])
  await expect(listed({ live: true, businessId: three.businessId }, token)).rejects.toThrow(
    /permission_denied|restricted/,
  )
  const at = timestampFromMs(before)
  expect(await listed({ live: true, recordedFrom: at }, token)).toHaveLength(4)
  expect(await listed({ live: true, recordedTo: at }, token)).toEqual([])
})

test('pages hold what lies between the bounds of several businesses exactly once', async () => {
  const accounts = [await openAccount(service), await openAccount(service)]
  const businessIds = accounts.map(({ businessId }) => businessId)
  const { secret: token } = await issueToken(service, ['read'], businessIds)
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

test.each<readonly [string, Filter]>([
  ['no business and no mode', { businessId: '' }],
  ['a customer of no business', { live: true, customerEmail: 'ada@example.com' }],
  ['an account of no business', { live: true, reference: 'R-1' }],
  ['a time of payment of no business', { live: true, from: timestampFromMs(0) }],
  ['an empty range of amounts', { live: true, amountFromMinor: 2n, amountToMinor: 1n }],
  ['a status and statuses', { live: true, status: 1, statuses: [2] }],
])('refuses %s', async (_what, request) => {
  await expect(service.client(TransactionService).listTransactions(request)).rejects.toThrow(
    /Invalid request/,
  )
})
