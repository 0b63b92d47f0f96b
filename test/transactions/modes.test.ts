import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { RecorderKind } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { createInstance, incoming } from '../settlement/fixture.ts'
import { lockWaits, withOpenTransaction } from '../support/database.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { useSharedService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

const service = useSharedService()
const accounts = () => service.client(AccountService)
const transactions = () => service.client(TransactionService)
const sandbox = () => service.client(SandboxService)
const pool = () => service.database.durablePool
/** An instance with real bank connectors. */
let real: Instance

beforeAll(async () => {
  const banks = { '9PSB': 'live', SAFEHAVEN: 'live', PROVIDUS: 'live', PALMPAY: 'live' } as const
  real = await startInstance(service.url, { banks })
})

afterAll(() => real?.close())

async function open(businessId: string, inTest: boolean, reference = 'order-1') {
  const request = { businessId, reference, bank: Bank.BANK_9PSB, test: inTest, ...CUSTOMER }
  return (await accounts().createAccount(request)).account!
}

/**
 * Gives a test account the number of a live one: a real bank and the sandbox may assign the same.
 */
async function shareNumber(businessId: string) {
  const live = await open(businessId, false)
  const inTest = await open(businessId, true)
  await pool().query('update account set account_number = $1 where id = $2', [
    live.accountNumber,
    inTest.id,
  ])
  return { number: live.accountNumber, live: live.reference, test: inTest.reference }
}

const payment = (accountNumber: string, sessionId: string) => ({
  bank: Bank.BANK_9PSB,
  accountNumber,
  sessionId,
  amountMinor: 100n,
})

let sessions = 0
const newSession = () => `modes-${++sessions}`

describe('if a live and a test account have the same number', () => {
  test('a payment is recorded for the live account, even if the test account is older', async () => {
    const { id } = await service.business()
    const inTest = await open(id, true)
    const first = await transactions().recordPayment(payment(inTest.accountNumber, newSession()))
    expect(first.transaction).toMatchObject({ live: false, accountReference: inTest.reference })
    const live = await open(id, false)
    await pool().query('update account set account_number = $1 where id = $2', [
      inTest.accountNumber,
      live.id,
    ])
    const second = await transactions().recordPayment(payment(inTest.accountNumber, newSession()))
    expect(second.transaction).toMatchObject({ live: true, accountReference: live.reference })
  })

  test('a simulated transfer is for the live account if the sandbox serves its bank, else for the test one', async () => {
    const { id } = await service.business()
    const shared = await shareNumber(id)
    const transfer = { accountNumber: shared.number, amountMinor: 100n }
    const here = await sandbox().simulateTransfer(transfer)
    expect(here.transaction).toMatchObject({ live: true, accountReference: shared.live })
    const atReal = grpcClient(SandboxService, real.grpcUrl)
    const there = await atReal.simulateTransfer(transfer)
    expect(there.transaction).toMatchObject({ live: false, accountReference: shared.test })
    const { transaction } = await transactions().getTransaction({
      businessId: id,
      sessionId: here.sessionId,
    })
    expect(transaction!.recorder).toMatchObject({ kind: RecorderKind.SANDBOX, id: 'bootstrap' })
    const { accountNumber } = await open((await service.business()).id, false)
    await expect(atReal.simulateTransfer({ ...transfer, accountNumber })).rejects.toThrow(
      /The sandbox serves no live account at 9PSB/,
    )
  })
})

test('a payment into a test account is recorded although a live one of its session was returned', async () => {
  const { id } = await service.business()
  const inTest = await open(id, true)
  const sessionId = newSession()
  await transactions().recordPayment(payment('0000000000', sessionId))
  const client = service.client(ReconciliationService)
  const { payments } = await client.listUnmatchedPayments({ pageSize: 100 })
  const returned = payments.find((each) => each.sessionId === sessionId)
  await client.returnUnmatchedPayment({ unmatchedPaymentId: returned?.id ?? '', note: 'sent back' })
  expect(
    await transactions().recordPayment(payment(inTest.accountNumber, sessionId)),
  ).toMatchObject({ outcome: RecordOutcome.RECORDED, transaction: { live: false } })
})

test('a report of a real bank never credits a test account', async () => {
  const { id } = await service.business()
  const [live, inTest] = [await open(id, false), await open(id, true)]
  const { recordPayment } = createInstance(service.database, { now: Date.now })
  const notify = (accountNumber: string, mode: boolean | undefined, sessionId = newSession()) =>
    recordPayment({ ...incoming(accountNumber, sessionId, 100n), live: mode })
  // Both accounts are in the account cache, one in each mode.
  for (const { accountNumber } of [live, inTest]) {
    expect(await notify(accountNumber, undefined)).toMatchObject({ outcome: 'RECORDED' })
  }
  const session = newSession()
  expect(await notify(inTest.accountNumber, true, session)).toMatchObject({ outcome: 'UNMATCHED' })
  expect(await notify(live.accountNumber, true, session)).toMatchObject({
    outcome: 'RECORDED',
    transaction: { account: { live: true } },
  })
  // A simulated transfer without a test account is not stored as an unmatched payment.
  const simulated = newSession()
  expect(await notify(live.accountNumber, false, simulated)).toMatchObject({ outcome: 'UNMATCHED' })
  const { rows } = await pool().query('select from unmatched_payment where session_id = $1', [
    simulated,
  ])
  expect(rows).toEqual([])
  expect(await notify(inTest.accountNumber, false)).toMatchObject({ outcome: 'RECORDED' })
})

test('a test transfer does not block a real payment with the same session', async () => {
  const { id } = await service.business()
  const [live, inTest] = [await open(id, false), await open(id, true)]
  const sessionId = newSession()
  const transfer = { accountNumber: inTest.accountNumber, amountMinor: 7n, sessionId }
  expect(await sandbox().simulateTransfer(transfer)).toMatchObject({
    outcome: RecordOutcome.RECORDED,
  })
  const real = payment(live.accountNumber, sessionId)
  expect(await transactions().recordPayment(real)).toMatchObject({
    outcome: RecordOutcome.RECORDED,
    transaction: { live: true, amountMinor: 100n },
  })
  expect(await transactions().recordPayment(real)).toMatchObject({
    outcome: RecordOutcome.DUPLICATE,
    transaction: { live: true },
  })
  expect(await sandbox().simulateTransfer(transfer)).toMatchObject({
    outcome: RecordOutcome.DUPLICATE,
    transaction: { live: false },
  })
  // An internal caller names no mode and gets the live transaction.
  const found = await transactions().getTransaction({ businessId: id, sessionId })
  expect(found.transaction).toMatchObject({ live: true, amountMinor: 100n })
})

// The recording waits for the lock for no longer than its deadline of five seconds.
test('a report for a test account that closes at that moment is compared with the live payment of its session', {
  retry: 5,
}, async () => {
  const sessionId = `closing-${Math.random()}`
  const { id: businessId } = await service.business()
  const [live, inTest] = [await open(businessId, false), await open(businessId, true)]
  const record = (accountNumber: string, amountMinor: bigint) =>
    transactions().recordPayment({ ...payment(accountNumber, sessionId), amountMinor })
  await record(live.accountNumber, 9_999n)
  let recorded!: ReturnType<typeof record>
  await withOpenTransaction(pool(), async (holder) => {
    // Between the look-up of the account and the statement that records the payment.
    await holder.query('lock table payment_session in access exclusive mode')
    recorded = record(inTest.accountNumber, 1n)
    // It is awaited below.
    recorded.catch(() => undefined)
    await waitUntil(async () => (await lockWaits(pool(), 'payment_session')) > 0)
    await accounts().closeAccount({ businessId, reference: inTest.reference })
  })
  const { outcome, transaction } = await recorded
  expect(outcome).toBe(RecordOutcome.CONFLICT)
  expect(transaction!.accountReference).toBe(live.reference)
})

test('the database rejects a change of the mode of a row', async () => {
  const { id } = await service.business()
  const { accountNumber } = await open(id, false)
  await transactions().recordPayment(payment(accountNumber, newSession()))
  await pool().query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
        after_position, created_at) values ($1, $2, true, '', '{}', '', 1, 0, now())`,
    [`ep_${id}`, id],
  )
  for (const table of ['account', 'transaction', 'api_key', 'webhook_endpoint']) {
    const change = pool().query(`update ${table} set live = not live where business_id = $1`, [id])
    await expect(change, table).rejects.toMatchObject({ code: '23000' })
  }
})
