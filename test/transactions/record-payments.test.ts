import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Code, type ConnectError } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { AMOUNT_MINOR_MAX } from '../../src/core/money.ts'
import type { IncomingPayment } from '../../src/transactions/transaction.ts'
import { createInstance, incoming } from '../settlement/fixture.ts'
import { useSharedService } from '../support/service.ts'
import { openAccount, type Payment, paymentInto, storedOf, transactionsOf } from './fixture.ts'

const service = useSharedService()

const { RECORDED, CONFLICT, UNSPECIFIED } = RecordOutcome

async function record(payments: Payment[]) {
  return (await transactionsOf(service).recordPayments({ payments })).results
}

describe('refuses an invalid payment of a batch and records the others', () => {
  const bad: [string, Payment, string][] = [
    ['no session', { sessionId: '' }, 'sessionId is required'],
    ['a session with invalid characters', { sessionId: 'a b' }, 'sessionId '],
    ['a session of 65 characters', { sessionId: 'x'.repeat(65) }, 'sessionId '],
    ['no amount', { amountMinor: 0n }, 'amountMinor '],
    ['a negative amount', { amountMinor: -1n }, 'amountMinor '],
    ['more than ten trillion naira', { amountMinor: AMOUNT_MINOR_MAX + 1n }, 'amountMinor '],
    ['no bank', { bank: 0 }, 'bank is required'],
    ['an unknown bank', { bank: 99 as never }, 'bank '],
    ['an account number of nine digits', { accountNumber: '123456789' }, 'accountNumber '],
    ['a reversal', { status: TransactionStatus.REVERSED }, 'status '],
    ['a time before 2000', { paidAt: timestampFromMs(0) }, 'paidAt '],
    ['a time after 2100', { paidAt: timestampFromMs(Date.UTC(2200, 0)) }, 'paidAt '],
    ['a narration of 501 characters', { narration: 'x'.repeat(501) }, 'narration '],
    ['U+0000 in the narration', { narration: 'a\0b' }, 'narration must not contain'],
    ['U+0000 in the name of the payer', { payer: { name: '\0' } }, 'payer.name must not contain'],
  ]

  test('each for its own reason', async () => {
    const { number } = await openAccount(service)
    const good = (at: number) => paymentInto(number, { sessionId: `good-${at}` })
    const wrong = bad.map(([, fault], at) =>
      paymentInto(number, { sessionId: `bad-${at}`, ...fault }),
    )
    const results = await record(wrong.flatMap((each, at) => [each, good(at)]))
    for (const [at, [what, , error]] of bad.entries()) {
      const [refused, recorded] = results.slice(2 * at, 2 * at + 2)
      const { outcome, transaction } = refused!
      expect([what, outcome, transaction]).toEqual([what, UNSPECIFIED, undefined])
      expect(refused!.error).toContain(error)
      expect([what, recorded!.outcome, recorded!.error]).toEqual([what, RECORDED, ''])
    }
    const { rows } = await service.database.durablePool.query(
      "select from transaction where session_id like 'bad-%'",
    )
    expect(rows).toEqual([])
  })

  test('reports all faults of a payment together', async () => {
    const [result] = await record([{ accountNumber: '1' }])
    for (const field of ['bank', 'accountNumber', 'sessionId', 'amountMinor']) {
      expect(result?.error).toContain(field)
    }
  })
})

describe('the size of a batch', () => {
  test.each([0, 1_001])('refuses a batch of %i payments as a whole', async (count) => {
    const { number } = await openAccount(service)
    const payments = Array.from({ length: count }, (_, index) =>
      paymentInto(number, { sessionId: `many-${index}` }),
    )
    const refusal: ConnectError = await record(payments).then(
      () => expect.unreachable(),
      (error) => error,
    )
    expect(refusal.code).toBe(Code.InvalidArgument)
    const { transactions } = await storedOf(service.database.durablePool, 'many-0')
    expect(transactions).toEqual([])
  })

  test('records 1,000 payments of the maximum size, over gRPC and Connect', async () => {
    const { number } = await openAccount(service)
    for (const [protocol, client] of Object.entries({
      grpc: transactionsOf(service),
      connect: service.connectClient(TransactionService),
    })) {
      const payments = Array.from({ length: 1_000 }, (_, index) =>
        paymentInto(number, {
          sessionId: `${protocol}-${index}-`.padEnd(64, 'x'),
          narration: '😀'.repeat(500),
          payer: { name: 'x'.repeat(200), bankName: 'y'.repeat(200) },
        }),
      )
      const { results } = await client.recordPayments({ payments })
      expect(results.filter((result) => result.outcome !== RECORDED)).toEqual([])
    }
  })
})

test('a batch that takes more than one statement has the results of its payments one by one', async () => {
  const { number } = await openAccount(service)
  const payments = Array.from({ length: 300 }, (_, index) =>
    paymentInto(number, { sessionId: `far-${index % 290}`, amountMinor: 1n + BigInt(index) }),
  )
  const outcomes = (await record(payments)).map(({ outcome }) => outcome)
  expect(outcomes).toEqual(payments.map((_, index) => (index < 290 ? RECORDED : CONFLICT)))
})

test('payments that share a statement count in the order in which they arrived', async () => {
  const { number } = await openAccount(service)
  const { recordPayment } = createInstance(service.database, { now: Date.now })
  const sessions = Array.from({ length: 60 }, (_, index) => `arrived-${index}`)
  const outcomesOf = async (reports: readonly (readonly [IncomingPayment['status'], bigint])[]) => {
    const payments = sessions.flatMap((session) =>
      reports.map(([status, amountMinor]) => incoming(number, session, amountMinor, status)),
    )
    const results = await Promise.all(payments.map(recordPayment))
    return new Set(
      sessions.map((_, index) => {
        const at = index * reports.length
        return `${results.slice(at, at + reports.length).map(({ outcome }) => outcome)}`
      }),
    )
  }
  const first = await outcomesOf([
    ['PENDING', 1n],
    ['SUCCESS', 2n],
    ['PENDING', 1n],
  ])
  expect([...first]).toEqual(['RECORDED,CONFLICT,DUPLICATE'])
  const final = await outcomesOf([
    ['FAILED', 1n],
    ['SUCCESS', 1n],
    ['FAILED', 1n],
  ])
  expect([...final]).toEqual(['RECORDED,CONFLICT,DUPLICATE'])
})
