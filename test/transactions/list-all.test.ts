import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type ListTransactionsRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { useService } from '../support/service.ts'
import { openAccount, paymentInto, transactionsOf } from './fixture.ts'

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

test('a restricted token lists the payments of its businesses, the latest paid first', async () => {
  const [one, two, three] = [
    await openAccount(service),
    await openAccount(service),
    await openAccount(service),
  ]
  const before = Date.now()
  await pay(one.number, 'a1', { amountMinor: 100n })
  await pay(two.number, 'b1', { amountMinor: 200n, paidAt: timestampFromMs(before - 86_400_000) })
  await pay(three.number, 'c1', { amountMinor: 300n })
  await pay(one.number, 'a2', { amountMinor: 400n, status: TransactionStatus.FAILED })
  await pay(two.number, 'b2', { amountMinor: 500n })

  expect(await listed({ live: false })).toEqual([])
  const token = await restrictedTo([one.businessId, two.businessId])
  expect(await listed({ live: true }, token)).toEqual(['b2', 'a2', 'a1', 'b1'])
  expect(await listed({ live: true, amountFromMinor: 200n }, token)).toEqual(['b2', 'a2', 'b1'])
  expect(await listed({ live: true, statuses: [TransactionStatus.FAILED] }, token)).toEqual(['a2'])
  expect(await listed({ live: true, sessionId: 'c1' }, token)).toEqual([])
  expect(await listed({ live: true, sessionId: 'a1' }, token)).toEqual(['a1'])
  await expect(listed({ live: true, businessId: three.businessId }, token)).rejects.toThrow(
    /permission_denied|restricted/,
  )
  for (const [allowed, count] of [
    [undefined, 5],
    [token, 4],
  ] as const) {
    const at = timestampFromMs(before)
    expect(await listed({ live: true, recordedFrom: at }, allowed)).toHaveLength(count)
    expect(await listed({ live: true, recordedTo: at }, allowed)).toEqual([])
  }
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

test('an operator lists the rare statuses of all businesses, however many payments lie between', async () => {
  const accounts = await Promise.all(Array.from({ length: 5 }, () => openAccount(service)))
  const { FAILED, PENDING, REVERSED } = TransactionStatus
  const expected: string[] = []
  for (let i = 0; i < 12; i++) {
    const sessionId = `rare-${i}`
    // Several are paid in the same millisecond, and some businesses have more than others.
    const paidAt = timestampFromMs(Date.UTC(2025, 0, 1) + Math.floor(i / 3))
    const status = i % 4 === 0 ? PENDING : FAILED
    await pay(accounts[(i * i) % 5]!.number, sessionId, { paidAt, status })
    expected.unshift(sessionId)
  }
  const before = (sessions: string[]) => sessions.filter((each) => each.startsWith('rare-'))
  const rare = (...statuses: TransactionStatus[]) => listed({ live: true, statuses })
  expect(before(await rare(FAILED, PENDING))).toEqual(expected)
  const pending = ['rare-8', 'rare-4', 'rare-0']
  expect(await rare(PENDING)).toEqual(pending)
  expect(before(await rare(FAILED, REVERSED))).toEqual(
    expected.filter((each) => !pending.includes(each)),
  )
  expect(await listed({ live: false, statuses: [FAILED] })).toEqual([])
  // The first page has the first row, whatever lies before it.
  for (let batch = 0; batch < 3; batch++) {
    await transactionsOf(service).recordPayments({
      payments: Array.from({ length: 1_000 }, (_, at) =>
        paymentInto(accounts[0]!.number, { sessionId: `many-${batch}-${at}` }),
      ),
    })
  }
  const { transactions } = await service
    .client(TransactionService)
    .listTransactions({ live: true, statuses: [PENDING] })
  expect(transactions.map(({ sessionId }) => sessionId)).toEqual(pending)
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
