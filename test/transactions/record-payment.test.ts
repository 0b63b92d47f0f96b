import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { RecorderKind, TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { toRecorderMessage } from '../../src/transactions/message.ts'
import type { RecordedBy } from '../../src/transactions/transaction.ts'
import { creation } from '../protocols/rest/rest.ts'
import { issueToken, useSharedService } from '../support/service.ts'
import { openAccount, type Payment, paymentInto, storedOf, transactionsOf } from './fixture.ts'

const service = useSharedService()

const { PENDING } = TransactionStatus
const { RECORDED, DUPLICATE, UNMATCHED } = RecordOutcome

let sessions = 0

/** Opens an account, and returns a function that records payments of one session into it. */
async function session() {
  const account = await openAccount(service)
  sessions += 1
  const sessionId = `recorded-${sessions}.`
  return {
    account,
    sessionId,
    record: (overrides: Payment = {}) =>
      transactionsOf(service).recordPayment(
        paymentInto(account.number, { sessionId, ...overrides }),
      ),
    stored: () => storedOf(service.database.durablePool, sessionId),
  }
}

const POSTING = {
  kind: 'payment',
  debit_account: 'clearing:9PSB',
  credit_account: 'pending',
  amount_minor: '100000',
}
const EVENT = { kind: 'PAYMENT_NOTIFICATION' }

describe('a payment', () => {
  test('is recorded with all its fields, one posting and one event', async () => {
    const { account, sessionId, record, stored } = await session()
    const paidAt = timestampFromMs(Date.parse('2026-11-20T10:00:00.123Z'))
    const payer = {
      name: 'BOLA ADE',
      accountNumber: '0123456789',
      bankCode: '058',
      bankName: 'GTB',
    }
    const { outcome, transaction } = await record({ paidAt, payer, narration: 'rent' })
    expect(outcome).toBe(RECORDED)
    expect(transaction).toMatchObject({ paidAt, payer, narration: 'rent' })
    const { businessId } = account
    const found = await transactionsOf(service).getTransaction({ businessId, sessionId })
    const { settlesAt, recorder, ...facts } = found.transaction!
    expect(facts).toEqual(transaction)
    expect(settlesAt).toBeDefined()
    expect(recorder).toMatchObject({ kind: RecorderKind.TOKEN, id: 'bootstrap' })
    expect(await stored()).toEqual({
      transactions: [{ status: 'SUCCESS', amount_minor: '100000' }],
      postings: [POSTING],
      events: [EVENT],
      conflicts: [],
      unmatched: [],
    })
  })

  test('that was pending has the payer and narration of its final report, and else those of before', async () => {
    const first = { name: 'ADA', accountNumber: '0123456789', bankCode: '058', bankName: 'GTBank' }
    const none = { name: '', accountNumber: '', bankCode: '', bankName: '' }
    const other = { ...none, accountNumber: '1111111111' }
    for (const [before, final, expected] of [
      [none, first, first],
      [first, none, first],
      [first, { ...none, name: 'ADA OBI' }, { ...first, name: 'ADA OBI' }],
      // The bank of the other account is not known.
      [first, other, { ...other, name: 'ADA' }],
    ]) {
      const { record, account, sessionId } = await session()
      await record({ status: PENDING, payer: before!, narration: 'rent' })
      const { transaction } = await record({ payer: final! })
      expect(transaction).toMatchObject({ payer: expected, narration: 'rent' })
      const { businessId } = account
      const found = await transactionsOf(service).getTransaction({ businessId, sessionId })
      expect(found.transaction).toMatchObject({ payer: expected, narration: 'rent' })
    }
    const { record } = await session()
    await record({ status: PENDING, narration: 'rent' })
    expect((await record({ narration: 'rent of May' })).transaction).toMatchObject({
      narration: 'rent of May',
    })
  })

  test('for the number of an account at another bank is unmatched', async () => {
    const { record } = await session()
    expect((await record({ bank: Bank.BANK_PROVIDUS })).outcome).toBe(UNMATCHED)
  })

  test('for an account that is pending, or closed since its last payment, is unmatched', async () => {
    const { record, account, sessionId, stored } = await session()
    const setStatus = (status: string) =>
      service.database.durablePool.query('update account set status = $2 where business_id = $1', [
        account.businessId,
        status,
      ])
    await setStatus('PENDING')
    expect((await record()).outcome).toBe(UNMATCHED)
    expect((await stored()).unmatched).toHaveLength(1)
    await setStatus('ACTIVE')
    expect((await record({ sessionId: `${sessionId}open` })).outcome).toBe(RECORDED)
    await setStatus('CLOSED')
    expect((await record({ sessionId: `${sessionId}closed` })).outcome).toBe(UNMATCHED)
  })

  test('with the same session at another bank is another payment', async () => {
    const { record, account, sessionId } = await session()
    expect((await record()).outcome).toBe(RECORDED)
    const other = await service.post('generateVirtualAccount/', account.key, {
      ...creation({ reference: 'order-2', bank: 'PROVIDUS' }),
    })
    const { account_number: accountNumber } = other.body.data.account[0]
    const second = await record({ bank: Bank.BANK_PROVIDUS, accountNumber })
    expect(second.outcome).toBe(RECORDED)
    expect((await record()).outcome).toBe(DUPLICATE)
    expect((await record({ bank: Bank.BANK_PROVIDUS, accountNumber })).outcome).toBe(DUPLICATE)
    expect(await storedOf(service.database.durablePool, sessionId)).toMatchObject({
      transactions: [{}, {}],
      conflicts: [],
    })
  })

  test('is recorded although one of the same session was returned at another bank', async () => {
    const { record, sessionId } = await session()
    const unknown = { bank: Bank.BANK_PROVIDUS, accountNumber: '9999999997' }
    expect((await record(unknown)).outcome).toBe(UNMATCHED)
    const { rows } = await service.database.durablePool.query(
      'select id from unmatched_payment where session_id = $1',
      [sessionId],
    )
    await service
      .client(ReconciliationService)
      .returnUnmatchedPayment({ unmatchedPaymentId: rows[0].id, note: 'sent back' })
    expect((await record()).outcome).toBe(RECORDED)
  })
})

describe('the recorder of a payment', () => {
  test('is the token that recorded its final status, alone or in a batch', async () => {
    const { account, sessionId, record } = await session()
    const { businessId } = account
    const collector = await issueToken(service, ['payments:write'])
    const client = service.client(TransactionService, collector.secret)
    await record({ status: PENDING })
    await client.recordPayment(paymentInto(account.number, { sessionId }))
    await record()
    const inBatch = `${sessionId}batch`
    await client.recordPayments({ payments: [paymentInto(account.number, { sessionId: inBatch })] })
    const recorder = { kind: RecorderKind.TOKEN, id: collector.id }
    for (const each of [sessionId, inBatch]) {
      const { transaction } = await transactionsOf(service).getTransaction({
        businessId,
        sessionId: each,
      })
      expect(transaction).toMatchObject({ recorder })
    }
    const { transactions } = await transactionsOf(service).listTransactions({ businessId })
    expect(transactions).toMatchObject([{ recorder }, { recorder }])
  })

  test('is named neither to restricted tokens, nor to businesses, nor in events', async () => {
    const { account, sessionId } = await session()
    const { businessId } = account
    const collector = await issueToken(service, ['payments:write'])
    const client = service.client(TransactionService, collector.secret)
    await client.recordPayment(paymentInto(account.number, { sessionId }))
    const restricted = await issueToken(service, ['read'], [businessId])
    const { transaction } = await service
      .client(TransactionService, restricted.secret)
      .getTransaction({ businessId, sessionId })
    expect(transaction!.recorder).toMatchObject({ kind: RecorderKind.TOKEN, id: '' })
    const shown = await service.post('getTransaction/', account.key, { session_id: sessionId })
    expect(Object.keys(shown.body.data)).toHaveLength(13)
    expect(shown.text).not.toContain(collector.id)
    const { rows } = await service.database.durablePool.query<{ payload: Buffer }>(
      "select payload from outbox where business_id = $1 and kind = 'PAYMENT_NOTIFICATION'",
      [businessId],
    )
    expect(rows.map(({ payload }) => payload.includes(collector.id))).toEqual([false])
  })

  test.each<[RecordedBy, RecorderKind, string]>([
    ['notification', RecorderKind.NOTIFICATION, ''],
    ['reconciliation', RecorderKind.RECONCILIATION, ''],
    ['token:tok_1', RecorderKind.TOKEN, 'tok_1'],
    ['token:spiffe://shop/a:b', RecorderKind.TOKEN, 'spiffe://shop/a:b'],
    ['statement:tok_1', RecorderKind.STATEMENT, 'tok_1'],
    ['sandbox:tok_1', RecorderKind.SANDBOX, 'tok_1'],
    ['assignment:TOK_2', RecorderKind.ASSIGNMENT, 'TOK_2'],
  ])('recorded by %s names the credential only to those who may see it', (recordedBy, kind, id) => {
    expect(toRecorderMessage(recordedBy, true)).toMatchObject({ kind, id })
    expect(toRecorderMessage(recordedBy, false)).toMatchObject({ kind, id: '' })
  })
})
