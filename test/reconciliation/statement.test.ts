import { create } from '@bufbuild/protobuf'
import { describe, expect, test } from 'vitest'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  Action,
  Finding,
  RetryReason,
  StatementRowSchema,
} from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { PalmPayOrder } from '../../src/banks/palmpay/fake.ts'
import { newId } from '../../src/core/ids.ts'
import { toResultMessage, toStatementRow } from '../../src/reconciliation/message.ts'
import {
  type ReconcileDependencies,
  reconcileStatement,
} from '../../src/reconciliation/reconcile-statement.ts'
import { payee, recordedIn } from '../notifications/scene.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { fakeBanks, OLD_MS } from './scene.ts'

const { ninePsb, safeHaven, palmPay, environment } = await fakeBanks()
// The job is off, so that only these tests record payments.
const service = useService({
  ...environment,
  RECONCILE_INTERVAL_MINUTES: '0',
  RECORD_REQUIRES_CONFIRMATION: 'on',
})

/** A payment at a fake bank; only PalmPay has another key than the session id. */
type Received = Pick<PalmPayOrder, 'sessionId' | 'accountNumber' | 'amountMinor'> &
  Partial<Pick<PalmPayOrder, 'orderNo'>>

const rowOf = (order: Received, overrides = {}) => ({
  sessionId: order.sessionId,
  bankKey: order.orderNo ?? '',
  accountNumber: order.accountNumber,
  amountMinor: order.amountMinor,
  ...overrides,
})

async function reconcile(rows: ReturnType<typeof rowOf>[], apply = true) {
  const request = { bank: Bank.BANK_PALMPAY, rows, apply }
  const { results } = await service.client(ReconciliationService).reconcile(request)
  return results.map(({ finding, action }) => [finding, action])
}

const notify = async (order: PalmPayOrder) => {
  const url = `${service.httpUrl}/banks/palmpay/notifications`
  const response = await fetch(url, { method: 'POST', body: palmPay.notification(order) })
  expect(await response.text()).toBe('success')
}

/** Opens an account with a number that the bank gave, for the business of another account. */
async function insertAccountLike(accountNumber: string, newNumber: string): Promise<void> {
  const other = {
    id: newId('acc', Date.now()),
    reference: `R-${newNumber}`,
    merchant_reference: `order-${newNumber}`,
    account_number: newNumber,
    bank_account_id: newNumber,
  }
  await service.database.durablePool.query(
    `insert into account select (jsonb_populate_record(a, $2)).* from account a
      where account_number = $1`,
    [accountNumber, other],
  )
}

const old = () => ({ atMs: Date.now() - OLD_MS })

describe('a row of a bank’s statement', () => {
  test('is recorded only if the bank confirms it', async () => {
    const account = await payee(service, Bank.BANK_PALMPAY)
    const order = palmPay.receive(account.accountNumber, '15', old())
    const { missing, rejected, retry, recorded, none, matched } = {
      missing: Finding.MISSING,
      matched: Finding.MATCHED,
      rejected: Action.REJECTED,
      retry: Action.RETRY,
      recorded: Action.RECORDED,
      none: Action.NONE,
    }
    expect(await reconcile([rowOf(order, { amountMinor: 9n })])).toEqual([[missing, rejected]])
    expect(await reconcile([rowOf(order, { bankKey: '' })])).toEqual([[missing, rejected]])
    palmPay.faults.add('detail', '500')
    const failed = { bank: Bank.BANK_PALMPAY, rows: [rowOf(order)], apply: true }
    expect(await service.client(ReconciliationService).reconcile(failed)).toMatchObject({
      results: [{ finding: missing, action: retry, retryReason: RetryReason.BANK }],
    })
    expect(await reconcile([rowOf(order)], false)).toEqual([[missing, none]])
    expect(await recordedIn(service, account)).toEqual([])
    expect(await reconcile([rowOf(order)])).toEqual([[missing, recorded]])
    expect(await reconcile([rowOf(order), rowOf(order)])).toEqual([
      [matched, none],
      [matched, none],
    ])
    const reversed = rowOf(order, { status: TransactionStatus.REVERSED })
    expect(await reconcile([reversed])).toEqual([[Finding.MISMATCHED, Action.REVIEW]])
    expect(await recordedIn(service, account)).toMatchObject([{ kobo: '1500' }])
  })

  test('is unmatched until its account is opened, and is recorded then', async () => {
    const template = await payee(service, Bank.BANK_PALMPAY)
    const unknown = palmPay.openAccount('Unknown')
    const order = palmPay.receive(unknown.virtualAccountNo, '31', old())
    await notify(order)
    expect(await reconcile([rowOf(order)])).toEqual([[Finding.UNMATCHED, Action.NONE]])
    await insertAccountLike(template.accountNumber, order.accountNumber)
    expect(await reconcile([rowOf(order)], false)).toEqual([[Finding.MISSING, Action.NONE]])
    expect(await reconcile([rowOf(order)])).toEqual([[Finding.MISSING, Action.RECORDED]])
    expect(await recordedIn(service, { ...template, accountNumber: order.accountNumber })).toEqual([
      expect.objectContaining({ session: order.sessionId, kobo: '3100' }),
    ])
    expect(await reconcile([rowOf(order)])).toEqual([[Finding.MATCHED, Action.NONE]])
  })

  test('is rightly not recorded once an operator has returned its payment', async () => {
    const unknown = palmPay.openAccount('Unknown')
    const order = palmPay.receive(unknown.virtualAccountNo, '34', old())
    await notify(order)
    const client = service.client(ReconciliationService)
    const { payments } = await client.listUnmatchedPayments({ pageSize: 100 })
    const { id = '' } = payments.find(({ sessionId }) => sessionId === order.sessionId) ?? {}
    await client.returnUnmatchedPayment({ unmatchedPaymentId: id, note: 'sent back' })
    expect(await reconcile([rowOf(order)])).toEqual([[Finding.MATCHED, Action.NONE]])
  })

  test('is found by the bank’s key if it names another session than the notification', async () => {
    const account = await payee(service, Bank.BANK_PALMPAY)
    const order = palmPay.receive(account.accountNumber, '35', old())
    await notify(order)
    const row = rowOf(order, { sessionId: `other-${order.sessionId}` })
    expect(await reconcile([row])).toEqual([[Finding.MATCHED, Action.NONE]])
    expect(await recordedIn(service, account)).toHaveLength(1)
  })
})

test('with RECORD_REQUIRES_CONFIRMATION, each bank confirms what a token records, by the key it knows', async () => {
  const open = async (bank: Bank) => (await payee(service, bank)).accountNumber
  const ninth = ninePsb.receive(await open(Bank.BANK_9PSB), '0.30', old())
  const haven = safeHaven.receive(await open(Bank.BANK_SAFEHAVEN), '1500.50', old())
  const palm = palmPay.receive(await open(Bank.BANK_PALMPAY), '20', old())
  const payments = [
    { bank: Bank.BANK_9PSB, ...rowOf(ninth) },
    { bank: Bank.BANK_SAFEHAVEN, ...rowOf(haven) },
    { bank: Bank.BANK_PALMPAY, ...rowOf(palm) },
  ]
  const client = service.client(TransactionService)
  const more = payments.map((payment) => ({ ...payment, amountMinor: payment.amountMinor + 1n }))
  const refused = await client.recordPayments({ payments: more })
  expect(refused.results.map(({ reason }) => reason)).toEqual(
    payments.map(() => 'payment_unconfirmed'),
  )
  const { RECORDED, DUPLICATE } = RecordOutcome
  for (const outcome of [RECORDED, DUPLICATE]) {
    const { results } = await client.recordPayments({ payments })
    expect(results.map((result) => [result.outcome, result.error])).toEqual(
      payments.map(() => [outcome, '']),
    )
  }
})

test('an applied row names the operator, at a live bank and at one that is not', async () => {
  const { accountNumber } = await payee(service, Bank.BANK_PALMPAY)
  const atLive = rowOf(palmPay.receive(accountNumber, '7', old()))
  const simulated = await payee(service, Bank.BANK_PROVIDUS)
  const atSandbox = {
    ...atLive,
    accountNumber: simulated.accountNumber,
    sessionId: `other-${atLive.sessionId}`,
    bankKey: '',
  }
  for (const [bank, row] of [
    [Bank.BANK_PALMPAY, atLive],
    [Bank.BANK_PROVIDUS, atSandbox],
  ] as const) {
    await service.client(ReconciliationService).reconcile({ bank, rows: [row], apply: true })
    const { rows } = await service.database.durablePool.query(
      'select recorded_by from transaction where session_id = $1',
      [row.sessionId],
    )
    expect(rows).toEqual([{ recorded_by: 'statement:bootstrap' }])
  }
})

test('reports a row that could not be processed, and audits the others that the call recorded', async () => {
  const rows = [1, 2].map((each) =>
    toStatementRow(
      create(StatementRowSchema, {
        sessionId: `faulty-${each}`,
        bankKey: `faulty-${each}`,
        accountNumber: '0000000000',
        amountMinor: 100n,
      }),
    ),
  )
  const faulty = {
    live: new Map(),
    isSimulated: () => true,
    assignSession: async ({ sessionId }) => sessionId,
    recordPayment: async ({ sessionId }) => {
      if (sessionId === 'faulty-1') throw new Error('the connection was lost')
      return { outcome: 'UNMATCHED', transaction: undefined }
    },
  } satisfies Partial<ReconcileDependencies> as unknown as ReconcileDependencies
  const runtime = createTestRuntime(service.database)
  const statement = { bank: 'PALMPAY', rows, apply: true } as const
  const results = await reconcileStatement(runtime, faulty, statement, SYSTEM)
  expect(results.map(({ action }) => action)).toEqual(['RETRY', 'UNMATCHED'])
  const { rows: audited } = await service.database.durablePool.query(
    `select details from audit_entry where action = 'statement.reconcile' order by number desc limit 1`,
  )
  expect(JSON.parse(audited[0].details)).toEqual({ rows: 2, retry: 1, unmatched: 1 })
})

test('reports which rows a call that ran out of time did not reach', async () => {
  const row = create(StatementRowSchema, {
    sessionId: 'late-1',
    bankKey: 'late-1',
    accountNumber: '0000000000',
    amountMinor: 100n,
  })
  let nowMs = Date.now()
  // The clock moves 20 seconds at every reading, so no row starts and no other dependency is needed.
  const clock = { now: () => (nowMs += 20_000) }
  const runtime = createTestRuntime(service.database, { clock })
  const late = {
    live: new Map(),
    isSimulated: () => true,
  } as unknown as ReconcileDependencies
  const statement = { bank: 'PALMPAY', rows: [toStatementRow(row)], apply: true } as const
  const [result] = await reconcileStatement(runtime, late, statement, SYSTEM)
  expect(result && toResultMessage(result, row)).toMatchObject({
    finding: Finding.MISSING,
    action: Action.RETRY,
    retryReason: RetryReason.TIME,
  })
})
