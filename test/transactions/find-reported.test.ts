import { describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { BankCode } from '../../src/banks/bank.ts'
import { findReported, type ReportedPayment } from '../../src/transactions/find-reported.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { useSharedService } from '../support/service.ts'
import { openAccount, paymentInto, transactionsOf } from './fixture.ts'

const service = useSharedService()

const find = (reported: readonly ReportedPayment[], bank: BankCode = '9PSB') =>
  findReported(service.database.durablePool, bank, true, reported)

/** Records a payment. @returns its id, and how the bank reports it */
async function record(accountNumber: string, sessionId: string) {
  const payment = paymentInto(accountNumber, { sessionId })
  const { transaction } = await transactionsOf(service).recordPayment(payment)
  const reported = { accountNumber, sessionId, amountMinor: 100_000n, status: 'SUCCESS' } as const
  return { id: transaction!.id, reported }
}

describe('a payment that a bank reports', () => {
  test('is found by its session at its bank, in the order of the report', async () => {
    const { number } = await openAccount(service)
    const [one, two] = [await record(number, 'found-1'), await record(number, 'found-2')]
    const unknown = { ...one.reported, sessionId: 'found-3' }
    const found = await find([two.reported, unknown, one.reported])
    expect(found.map(({ recorded }) => recorded?.transactionId)).toEqual([
      two.id,
      undefined,
      one.id,
    ])
    expect(found[2]).toMatchObject({
      recorded: { accountNumber: number, amountMinor: 100_000n, status: 'SUCCESS' },
      connector: 'sandbox',
      isAccountOpen: true,
      isUnmatched: false,
      conflictRecorded: false,
    })
    const [elsewhere] = await find([one.reported], 'PROVIDUS')
    expect(elsewhere).toMatchObject({ recorded: undefined, isAccountOpen: false })
  })

  test('is not a test transaction with the same session', async () => {
    const { id: businessId } = await service.business()
    const request = { businessId, reference: 'test-1', bank: Bank.BANK_9PSB, live: false }
    const accounts = service.client(AccountService)
    const { account } = await accounts.createAccount({ ...request, ...CUSTOMER })
    const { reported } = await record(account!.accountNumber, 'test-1')
    const [found] = await find([reported])
    expect(found?.recorded).toBeUndefined()
  })

  test('is in manual review if just this contradiction is, and not if another one is', async () => {
    const { number } = await openAccount(service)
    const { reported } = await record(number, 'conflict-1')
    const failed = paymentInto(number, {
      sessionId: 'conflict-1',
      status: TransactionStatus.FAILED,
    })
    await transactionsOf(service).recordPayment(failed)
    const found = await find([
      { ...reported, status: 'FAILED' },
      { ...reported, status: 'REVERSED' },
      { ...reported, status: 'FAILED', amountMinor: 5n },
    ])
    expect(found.map(({ conflictRecorded }) => conflictRecorded)).toEqual([true, false, false])
  })

  test('is unmatched if it was reported for this account number with this amount', async () => {
    const known = {
      accountNumber: '3999999998',
      sessionId: 'unmatched-1',
      amountMinor: 100_000n,
      status: 'SUCCESS',
    } as const
    const payment = paymentInto(known.accountNumber, { sessionId: known.sessionId })
    await transactionsOf(service).recordPayment(payment)
    const found = await find([known, { ...known, amountMinor: 5n }])
    expect(found.map(({ isUnmatched }) => isUnmatched)).toEqual([true, false])
    expect(found[0]).toMatchObject({ recorded: undefined, resolution: null, isAccountOpen: false })
  })

  test('is assigned if an operator assigned it while it was pending', async () => {
    const { businessId, reference, number } = await openAccount(service)
    const pending = paymentInto('3999999998', {
      sessionId: 'assigned-1',
      status: TransactionStatus.PENDING,
    })
    await transactionsOf(service).recordPayment(pending)
    const operator = service.client(ReconciliationService)
    const { payments } = await operator.listUnmatchedPayments({ pageSize: 100 })
    const { id = '' } = payments.find(({ sessionId }) => sessionId === pending.sessionId) ?? {}
    await operator.assignUnmatchedPayment({ unmatchedPaymentId: id, businessId, reference })
    const reported = {
      accountNumber: '3999999998',
      sessionId: 'assigned-1',
      amountMinor: 100_000n,
      status: 'SUCCESS',
    } as const
    const [found] = await find([reported])
    expect(found).toMatchObject({
      recorded: { accountNumber: number, status: 'PENDING' },
      resolution: 'ASSIGNED',
      isUnmatched: false,
    })
  })
})
