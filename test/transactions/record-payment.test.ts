import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  RecorderKind,
  type Transaction,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { RecordOutcome } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { checkBankWork } from '../../src/doctor/check-banks.ts'
import { creation } from '../protocols/rest/rest.ts'
import { useService } from '../support/service.ts'
import { openAccount, type Payment, paymentInto, storedOf, transactionsOf } from './fixture.ts'

const service = useService()

const { PENDING, SUCCESS, FAILED } = TransactionStatus
const { RECORDED, DUPLICATE, UNMATCHED, CONFLICT } = RecordOutcome

let sessions = 0

/** Opens an account, and returns a function that records payments of one session into it. */
async function session() {
  const account = await openAccount(service)
  sessions += 1
  const sessionId = `session-${sessions}.`
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

test('a reversal posts the opposite of the payment', async () => {
  const { record, stored } = await session()
  const { transaction } = await record()
  const client = transactionsOf(service)
  await client.reverseTransaction({ transactionId: transaction!.id, reason: 'recalled' })
  const reversal = { kind: 'payment_reversal', debit_account: 'pending' }
  const { postings, events } = await stored()
  expect(postings).toHaveLength(2)
  expect(postings).toEqual(
    expect.arrayContaining([
      POSTING,
      { ...POSTING, ...reversal, credit_account: POSTING.debit_account },
    ]),
  )
  expect(events).toEqual([EVENT, { kind: 'PAYMENT_REVERSED' }])
})

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
    expect(transaction).toMatchObject({
      businessId: account.businessId,
      accountReference: account.reference,
      merchantReference: 'order-1',
      sessionId,
      amountMinor: 100_000n,
      currency: 'NGN',
      status: SUCCESS,
      settled: false,
      bank: Bank.BANK_9PSB,
      accountNumber: account.number,
      accountName: 'Acme/Ada Obi',
      customerName: 'Ada Obi',
      customerEmail: 'ada@example.com',
      paidAt,
      payer,
      narration: 'rent',
    })
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

  test('that is reported again is a duplicate and changes nothing', async () => {
    const { record, stored } = await session()
    const { transaction } = await record()
    const before = await stored()
    const later = timestampFromMs(Date.now() + 60_000)
    for (const repeat of [{}, { paidAt: later }, { narration: 'x' }, { status: PENDING }]) {
      const again = await record(repeat)
      expect(again).toMatchObject({ outcome: DUPLICATE, transaction })
    }
    expect(await stored()).toEqual(before)
  })

  test('for an unknown account is stored once as unmatched and credits no business', async () => {
    const { record, stored } = await session()
    for (let copy = 0; copy < 3; copy++) {
      const { outcome, transaction } = await record({ accountNumber: '9999999999' })
      expect([outcome, transaction]).toEqual([UNMATCHED, undefined])
    }
    expect(await stored()).toEqual({
      transactions: [],
      postings: [],
      events: [{ kind: 'PAYMENT_UNMATCHED' }],
      conflicts: [],
      unmatched: [{ account_number: '9999999999', amount_minor: '100000', status: 'SUCCESS' }],
    })
  })

  test('that conflicts with an unmatched payment is stored as another unmatched payment', async () => {
    const { record, stored } = await session()
    const accountNumber = '9999999998'
    for (const amountMinor of [100_000n, 250_000n, 100_000n]) {
      expect((await record({ accountNumber, amountMinor })).outcome).toBe(UNMATCHED)
    }
    const { unmatched } = await stored()
    expect(unmatched.map((row) => row.amount_minor).sort()).toEqual(['100000', '250000'])
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

describe('a payment that conflicts with the recorded one', () => {
  test('is stored once for manual review, and nothing else changes', async () => {
    const { account, record, stored } = await session()
    const { transaction } = await record()
    const before = await stored()
    const { number: elsewhere } = await openAccount(service)
    const conflicting: Payment[] = [
      { amountMinor: 100_001n },
      { accountNumber: elsewhere },
      { accountNumber: '9999999999' },
      { status: FAILED },
    ]
    for (const payment of [...conflicting, ...conflicting]) {
      expect(await record(payment)).toMatchObject({ outcome: CONFLICT, transaction })
    }
    const { conflicts, ...rest } = await stored()
    expect(rest).toEqual({ ...before, conflicts: undefined })
    expect(conflicts).toHaveLength(4)
    expect(conflicts).toContainEqual({
      account_number: account.number,
      amount_minor: '100001',
      status: 'SUCCESS',
    })
    expect(rest.unmatched).toEqual([])
    // This is the first test of this file that records conflicts.
    const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
    expect(metrics).toContain('inflow_payment_conflicts_total{bank="9PSB"} 4')
    const findings = await checkBankWork(service.database.orm, {}, Date.now())
    expect(findings.map(({ found }) => found)).toContain(
      '4 reported payments contradict recorded ones',
    )
    const later = await checkBankWork(service.database.orm, {}, Date.now() + 8 * 86_400_000)
    expect(later.map(({ found }) => found)).toContain(
      '4 reported payments contradict recorded ones',
    )
  })
})

test('responds to a duplicate with the current state of the transaction', async () => {
  const { record, account, sessionId } = await session()
  await record({ status: PENDING })
  await record({ status: SUCCESS })
  const { outcome, transaction } = await record({ status: PENDING })
  expect([outcome, (transaction as Transaction).status]).toEqual([DUPLICATE, SUCCESS])
  const shown = await service.post('getTransaction/', account.key, { session_id: sessionId })
  expect(shown.body.data.status).toBe('SUCCESS')
})
