import { createClient, type Transport } from '@connectrpc/connect'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { useSharedService } from '../support/service.ts'
import { untilServed } from '../support/wait-for.ts'
import { openAccount, type Payment, paymentInto, storedOf, transactionsOf } from './fixture.ts'

const service = useSharedService()

let second: Instance

beforeAll(async () => {
  second = await startInstance(service.url)
})

afterAll(() => second?.close())

const transports = new Map<string, Transport>()

/** A client of one of the instances, which share a connection each. */
function clientOf({ grpcUrl }: { grpcUrl: string }) {
  const transport = transports.get(grpcUrl) ?? grpcTransport(grpcUrl)
  transports.set(grpcUrl, transport)
  return createClient(TransactionService, transport)
}

/** Records a batch at one of the instances. */
const recordAt = (at: { grpcUrl: string }, payments: readonly Payment[]) =>
  clientOf(at).recordPayments({ payments: [...payments] })

/** In batches of 250, and as many again one by one: `npm run test:faults` sends 10,000. */
const COPIES = Number(process.env['COPIES'] ?? 1_000)

/** More at once take a busy machine longer than a server waits for its responses to be read. */
const TOGETHER = 500

test('credits a payment once when two instances receive thousands of copies at the same time', async () => {
  const { number, businessId } = await openAccount(service)
  const payment = paymentInto(number, { sessionId: 'copied' })
  const clients = [service, second].map(clientOf)
  let repeated = false
  const record = async (copies: number) => {
    const singles = Array.from({ length: copies / 2 }, (_, index) =>
      untilServed(() => clients[index % 2]!.recordPayment(payment)),
    )
    const batches = Array.from({ length: copies / 500 }, (_, index) =>
      untilServed(() => recordAt(index % 2 === 0 ? service : second, new Array(250).fill(payment))),
    )
    const [responses, results] = await Promise.all([Promise.all(singles), Promise.all(batches)])
    repeated ||= [...responses, ...results].some(({ sent }) => sent > 1)
    return [...responses, ...results.flatMap((batch) => batch.results)]
  }
  const all: {
    readonly outcome: RecordOutcome
    readonly transaction?: { readonly id: string } | undefined
  }[] = []
  while (all.length < COPIES) all.push(...(await record(Math.min(COPIES, TOGETHER))))
  expect(all).toHaveLength(COPIES)
  const count = (outcome: RecordOutcome) => all.filter((each) => each.outcome === outcome).length
  const recorded = count(RecordOutcome.RECORDED)
  expect(recorded).toBeLessThanOrEqual(1)
  // The call that recorded it may have been sent again.
  if (!repeated) expect(recorded).toBe(1)
  expect(count(RecordOutcome.DUPLICATE)).toBe(COPIES - recorded)
  expect(new Set(all.map((each) => each.transaction?.id)).size).toBe(1)
  expect(await storedOf(service.database.durablePool, 'copied')).toMatchObject({
    transactions: [{ status: 'SUCCESS', amount_minor: '100000' }],
    postings: [{ amount_minor: '100000' }],
    events: [{ kind: 'PAYMENT_NOTIFICATION' }],
    conflicts: [],
    unmatched: [],
  })
  const { transactions } = await transactionsOf(service).listTransactions({ businessId })
  expect(transactions).toHaveLength(1)
})

test('overlapping batches in any order never deadlock and never record a payment twice', async () => {
  const { number, businessId } = await openAccount(service)
  const deadlocks = async () => {
    const { rows } = await service.database.durablePool.query(
      'select deadlocks::int from pg_stat_database where datname = current_database()',
    )
    return rows[0].deadlocks
  }
  const before = await deadlocks()
  // One statement holds 256 rows: two instances write the same new rows at the same time.
  const payments = (round: number) =>
    Array.from({ length: 256 }, (_, index) =>
      // In every third round, no payment has an account.
      paymentInto(index % 16 === 0 || round % 3 === 2 ? '9999999999' : number, {
        sessionId: `overlap-${round}-${index}`,
        // Some payments have other amounts.
        amountMinor: index % 11 === 0 ? BigInt(index + 1) : 100_000n,
      }),
    )
  const rounds = 6
  for (let round = 0; round < rounds; round++) {
    const rows = payments(round)
    const [shuffled] = fc.sample(fc.shuffledSubarray(rows, { minLength: 256, maxLength: 256 }), {
      numRuns: 1,
      seed: round,
    })
    const orders = [rows, rows.toReversed(), shuffled!, shuffled!.toReversed()]
    const batches = await Promise.all(
      orders.map((order, index) =>
        untilServed(() => recordAt(index % 2 === 0 ? service : second, order)),
      ),
    )
    for (const { results } of batches) {
      expect(results.filter((each) => each.error !== '')).toEqual([])
    }
  }
  const { rows } = await service.database.durablePool.query(
    `select (select count(*)::int from transaction where business_id = $1) as transactions,
      (select count(*)::int from outbox where business_id = $1 and kind = 'PAYMENT_NOTIFICATION')
        as events,
      (select count(*)::int from ledger_posting where business_id = $1) as postings,
      (select count(*)::int from unmatched_payment where session_id like 'overlap-%') as unmatched`,
    [businessId],
  )
  const matched = (rounds / 3) * 2 * 240
  expect(rows[0]).toEqual({
    transactions: matched,
    events: matched,
    postings: matched,
    unmatched: rounds * 256 - matched,
  })
  expect(await deadlocks()).toBe(before)
})
