import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { ConnectError } from '@connectrpc/connect'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import {
  type Transaction,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { issueToken, useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { transactionsOf } from './fixture.ts'
import { newBusiness } from './variance/fixture.ts'

const service = useSharedService()
const BEGIN_MS = Date.UTC(2026, 0, 1)
const { PENDING, SUCCESS, FAILED, REVERSED } = TransactionStatus

/** Of customers of the first business. The first one has two accounts. */
const EMAILS = ['bola@example.com', 'chidi@example.com']

/** Two businesses that the token sees; there is one that it does not see. */
let shops: readonly string[]
let token: string
let references: readonly string[]
let recordedMs: readonly number[]

beforeAll(async () => {
  const [one, two, other] = [
    await newBusiness(service),
    await newBusiness(service),
    await newBusiness(service),
  ]
  shops = [one.businessId, two.businessId]
  const accounts = [
    await one.open({ email: EMAILS[0] }, 'permanent'),
    await one.open({ bank: 'PROVIDUS', email: EMAILS[1] }, 'elsewhere'),
    await two.open({}, 'permanent'),
    await one.open({ amount: 20, email: EMAILS[0] }, 'underpaid'),
    await other.open({}, 'permanent'),
  ]
  references = accounts.map(({ data }) => data.reference)
  for (let at = 0; at < 30; at++) {
    const status = [SUCCESS, SUCCESS, FAILED, PENDING][at % 4]!
    const paidAt = timestampFromMs(BEGIN_MS + Math.floor(at / 3))
    const { transaction } = await accounts[at % 5]!.pay(1 + at, { status, paidAt })
    if (at % 20 === 0) {
      await transactionsOf(service).reverseTransaction({
        transactionId: transaction.id,
        reason: 'x',
      })
    }
  }
  recordedMs = [0, Date.now() - 1_000, Date.now() + 60_000]
  token = (await issueToken(service, ['read'], [...shops])).secret
  // The list by recorded time follows the log of events.
  await waitFor(async () => {
    const recordedFrom = timestampFromMs(0)
    const filters = shops.map((businessId) => ({ businessId, live: true, recordedFrom }))
    const lists = await Promise.all(filters.map(readAll))
    expect(lists.flat()).toHaveLength(9)
  })
})

/** What the list shows on all of its pages. */
async function readAll(filter: object): Promise<readonly Transaction[]> {
  const client = service.client(TransactionService, token)
  const found: Transaction[] = []
  let pageToken = ''
  for (;;) {
    const page = await client.listTransactions({ ...filter, pageSize: 7, pageToken })
    found.push(...page.transactions)
    // Without an end of the period, the last token is repeated.
    if (page.nextPageToken === '' || page.nextPageToken === pageToken) return found
    pageToken = page.nextPageToken
  }
}

async function summed(filter: object) {
  const client = service.client(TransactionService, token)
  const { count, amountMinor, statuses, truncated } = await client.summarizeTransactions(filter)
  return {
    count,
    amountMinor,
    statuses: statuses.map(({ $typeName: _, ...each }) => each),
    truncated,
  }
}

function totalsOf(rows: readonly Transaction[]) {
  const sum = (of: readonly Transaction[]) => ({
    count: of.length,
    amountMinor: of.reduce((total, { amountMinor }) => total + amountMinor, 0n),
  })
  const statuses = [PENDING, SUCCESS, FAILED, REVERSED].map((status) => {
    return { status, ...sum(rows.filter((row) => row.status === status)) }
  })
  return { ...sum(rows), statuses: statuses.filter(({ count }) => count > 0), truncated: false }
}

/** Either both succeed, or both are refused for the same reason. */
const outcomeOf = <Value>(call: Promise<Value>): Promise<Value | string> =>
  call.catch((error: unknown) => ConnectError.from(error).message)

/** Few filters at a time, so that something is left. */
const maybe = <Value>(value: fc.Arbitrary<Value>) =>
  fc.oneof(
    { arbitrary: fc.constant(undefined), weight: 6 },
    { arbitrary: value as fc.Arbitrary<Value | undefined>, weight: 1 },
  )
const time = (from: () => readonly number[]) =>
  maybe(fc.nat(2).map((at) => () => timestampFromMs(from()[at]!)))
const paidMs = () => [BEGIN_MS, BEGIN_MS + 4, BEGIN_MS + 20]

/** Functions, because what they name is made later. */
const filters = fc.record({
  businessId: fc.nat(2).map((at) => () => shops[at] ?? ''),
  live: maybe(fc.constantFrom(true, true, false)),
  reference: maybe(fc.nat(3).map((at) => () => references[at])),
  customerEmail: maybe(fc.constantFrom(...EMAILS)),
  statuses: maybe(fc.uniqueArray(fc.constantFrom(PENDING, SUCCESS, FAILED, REVERSED))),
  bank: maybe(fc.constantFrom(Bank.BANK_9PSB, Bank.BANK_PROVIDUS)),
  amountFromMinor: maybe(fc.constantFrom(500n, 1_000n)),
  amountToMinor: maybe(fc.constantFrom(900n, 2_000n)),
  variances: maybe(fc.constant([2])),
  holdStates: maybe(fc.constant([1])),
  from: time(paidMs),
  to: time(paidMs),
  recordedFrom: time(() => recordedMs),
  recordedTo: time(() => recordedMs),
})

test('totals are the sums of what all pages of the list with the same filters have', async () => {
  let sums = 0
  await fc.assert(
    fc.asyncProperty(filters, async (chosen) => {
      const filter = Object.fromEntries(
        Object.entries(chosen)
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => [name, typeof value === 'function' ? value() : value]),
      )
      const expected = await outcomeOf(readAll(filter).then(totalsOf))
      expect(await outcomeOf(summed(filter))).toEqual(expected)
      if (typeof expected === 'object' && expected.count > 0) sums++
    }),
    { numRuns: 150 },
  )
  expect(sums).toBeGreaterThan(10)
})

test('totals of a session are those of its payments, and of an unknown account none', async () => {
  const [businessId] = shops
  const [payment] = await readAll({ businessId, live: true })
  expect(await summed({ businessId, sessionId: payment!.sessionId })).toEqual(totalsOf([payment!]))
  expect(await summed({ businessId, reference: 'unknown' })).toEqual(totalsOf([]))
})
