import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { createCreateAccount } from '../../src/accounts/create-account.ts'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import { createOpenAtBank } from '../../src/accounts/open-at-bank.ts'
import type { AccountOrder, BankConnector, BankOf } from '../../src/banks/bank.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { until } from '../protocols/rest/rest.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY, useSharedService } from '../support/service.ts'

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
    const there = await grpcClient(SandboxService, real.grpcUrl).simulateTransfer(transfer)
    expect(there.transaction).toMatchObject({ live: false, accountReference: shared.test })
    const { transactions: found } = await transactions().listTransactions({
      businessId: id,
      live: true,
    })
    expect(found.map((each) => each.sessionId)).toEqual([here.sessionId])
  })
})

test('simulated transfers reach only test accounts if real banks are connected', async () => {
  const { id } = await service.business()
  const [live, inTest] = [await open(id, false), await open(id, true)]
  const client = grpcClient(SandboxService, real.grpcUrl)
  const simulate = (accountNumber: string) =>
    client.simulateTransfer({ accountNumber, amountMinor: 100n })
  await expect(simulate(live.accountNumber)).rejects.toThrow(
    /The sandbox serves no live account at 9PSB/,
  )
  expect(await simulate(inTest.accountNumber)).toMatchObject({
    outcome: RecordOutcome.RECORDED,
    transaction: { live: false },
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
  const record = createRecordPayment(createTestRuntime(service.database), {
    findOpenAccounts: createFindOpenAccounts(pool(), () => true),
    isSimulated: () => true,
    onUnmatched: () => undefined,
    onConflict: () => undefined,
  })
  const notify = (accountNumber: string, mode: boolean | undefined, sessionId = newSession()) =>
    record({
      bank: '9PSB',
      accountNumber,
      sessionId,
      amountMinor: 100n,
      status: 'SUCCESS',
      paidAtMs: Date.now(),
      payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
      narration: '',
      live: mode,
      recordedBy: 'notification',
    })
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

test('a test transfer does not hide an unmatched real payment with the same session', async () => {
  const { id } = await service.business()
  const inTest = await open(id, true)
  const sessionId = newSession()
  const transfer = { accountNumber: inTest.accountNumber, amountMinor: 7n, sessionId }
  await sandbox().simulateTransfer(transfer)
  const real = payment('9999999998', sessionId)
  for (let i = 0; i < 2; i++) {
    expect(await transactions().recordPayment(real)).toMatchObject({
      outcome: RecordOutcome.UNMATCHED,
    })
  }
  const stored = 'select account_number from unmatched_payment where session_id = $1'
  expect((await pool().query(stored, [sessionId])).rows).toEqual([{ account_number: '9999999998' }])
  // A repeat of the test transfer is still a duplicate.
  await accounts().closeAccount({ businessId: id, reference: inTest.reference })
  expect(await transactions().recordPayment({ ...transfer, bank: Bank.BANK_9PSB })).toMatchObject({
    outcome: RecordOutcome.DUPLICATE,
  })
})

test('a report for a test account that closes at that moment is compared with the live payment of its session', async () => {
  const { id: businessId } = await service.business()
  const [live, inTest] = [await open(businessId, false), await open(businessId, true)]
  const record = (accountNumber: string, amountMinor: bigint) =>
    transactions().recordPayment({ ...payment(accountNumber, 'closing'), amountMinor })
  await record(live.accountNumber, 9_999n)
  const holder = await pool().connect()
  let recorded: ReturnType<typeof record>
  try {
    // Between the look-up of the account and the statement that records the payment.
    await holder.query('begin')
    await holder.query('lock table payment_session in access exclusive mode')
    recorded = record(inTest.accountNumber, 1n)
    await until(
      async () => {
        const { rows } = await pool().query(
          "select from pg_locks where relation = 'payment_session'::regclass and not granted",
        )
        return rows.length
      },
      (waiting) => waiting === 1,
      10_000,
    )
    await accounts().closeAccount({ businessId, reference: inTest.reference })
    await holder.query('commit')
  } finally {
    await holder.query('rollback')
    holder.release()
  }
  const { outcome, transaction } = await recorded
  expect(outcome).toBe(RecordOutcome.CONFLICT)
  expect(transaction!.accountReference).toBe(live.reference)
})

test('a posting has the mode of its transaction', async () => {
  const { id } = await service.business()
  for (const inTest of [false, true]) {
    const { accountNumber } = await open(id, inTest)
    await transactions().recordPayment(payment(accountNumber, newSession()))
  }
  const { rows } = await pool().query(
    `select t.live, p.live = t.live as same from ledger_posting p
      join transaction t on t.id = p.transaction_id where t.business_id = $1 order by 1`,
    [id],
  )
  expect(rows).toEqual([
    { live: false, same: true },
    { live: true, same: true },
  ])
})

describe('internal callers', () => {
  test('list transactions of both modes, the latest first, or of the requested mode', async () => {
    const { id: businessId } = await service.business()
    const made = { true: [] as string[], false: [] as string[] }
    const opened = { true: '', false: '' }
    for (const live of [true, false] as const) {
      const account = await open(businessId, !live)
      opened[`${live}`] = account.reference
      for (let i = 0; i < 3; i++) {
        const sessionId = newSession()
        const paidAt = { seconds: BigInt(1_700_000_000 + 2 * i + Number(live)) }
        const one = payment(account.accountNumber, sessionId)
        await transactions().recordPayment({ ...one, paidAt })
        made[`${live}`].unshift(sessionId)
      }
    }
    const list = async (live?: boolean) => {
      const listed: string[] = []
      let pageToken = ''
      do {
        const mode = live === undefined ? {} : { live }
        const request = { businessId, pageSize: 2, pageToken, ...mode }
        const page = await transactions().listTransactions(request)
        listed.push(...page.transactions.map((each) => each.sessionId))
        pageToken = page.nextPageToken
      } while (pageToken !== '')
      return listed
    }
    expect(await list(true)).toEqual(made.true)
    expect(await list(false)).toEqual(made.false)
    const merged = made.true.flatMap((session, index) => [session, made.false[index]])
    expect(await list()).toEqual(merged)
    for (const live of [true, false] as const) {
      const { accounts: found } = await accounts().listAccounts({ businessId, live })
      expect(found.map((each) => [each.reference, each.live])).toEqual([[opened[`${live}`], live]])
    }
    expect((await accounts().listAccounts({ businessId })).accounts).toHaveLength(2)
    const byOwn = await accounts().getAccount({ businessId, reference: 'order-1' })
    expect(byOwn.account).toMatchObject({ reference: opened.true, live: true })
    const byReturned = await accounts().getAccount({ businessId, reference: opened.false })
    expect(byReturned.account).toMatchObject({ live: false })
  })

  test('list events of one mode, and stream events of both modes or of one', async () => {
    const { id: businessId } = await service.business()
    await open(businessId, true, 'order-2')
    await open(businessId, false)
    await open(businessId, true)
    const events = service.client(EventService)
    const list = (inTest: boolean, count: number) =>
      until(
        () => events.listEvents({ businessId, test: inTest }),
        (response) => response.events.length === count,
      )
    const shown = ({ events: found }: Awaited<ReturnType<typeof list>>) =>
      found.map(({ live, businessSequence, payload: { value } }) => [
        live,
        Number(businessSequence),
        value && 'live' in value && value.live,
      ])
    expect(shown(await list(false, 1))).toEqual([[true, 1, true]])
    expect(shown(await list(true, 2))).toEqual([
      [false, 1, false],
      [false, 2, false],
    ])
    const stream = async (count: number, live?: boolean) => {
      const found: boolean[] = []
      const request = {
        start: { case: 'beginning' as const, value: true },
        businessIds: [businessId],
        ...(live !== undefined && { live }),
      }
      for await (const { item } of events.subscribe(request)) {
        if (item.case === 'event') found.push(item.value.live)
        if (found.length === count) break
      }
      return found
    }
    expect(await stream(3)).toEqual([false, true, false])
    expect(await stream(2, false)).toEqual([false, false])
    expect(await stream(1, true)).toEqual([true])
  })
})

describe('opening an account', () => {
  test.each([
    [true, 'bank'],
    [false, 'sandbox'],
  ])('with live %s, calls the %s whatever the settings', async (live, expected) => {
    const { id: businessId } = await service.business()
    const calls: [string, AccountOrder][] = []
    const connector = (name: string): BankConnector => ({
      afterCrash: 'retry',
      async openAccount(order) {
        calls.push([name, order])
        const accountNumber = String(Date.now()).slice(-10)
        return { kind: 'opened', accountNumber, accountName: order.accountName, bankAccountId: '' }
      },
    })
    const callTimeoutMs = 10_000
    const bank = { name: 'live', connector: connector('bank'), callTimeoutMs } as const
    const sandbox = { name: 'sandbox', connector: connector('sandbox'), callTimeoutMs } as const
    const bankOf: BankOf = (account) => (account.live ? bank : sandbox)
    const openAtBank = createOpenAtBank(createTestRuntime(service.database), { bankOf })
    const create = createCreateAccount(createTestRuntime(service.database), {
      bankOf,
      openAtBank,
      encrypter: createEncrypter(MASTER_KEY),
      aliasOf: async () => 'Acme',
    })
    const details = {
      bank: 'PROVIDUS',
      ...CUSTOMER,
      idType: undefined,
      idNumber: undefined,
    } as const
    const order = { businessId, live, reference: 'order-1', ...details }
    const { account } = await create(order)
    expect(account.live).toBe(live)
    expect(calls.map(([name]) => name)).toEqual([expected])
    expect(calls[0]![1]).toMatchObject({ bank: 'PROVIDUS', reference: account.reference })
    expect(await create(order)).toMatchObject({ replayed: true, account: { live } })
    expect(calls).toHaveLength(1)
  })
})

test.each(['account', 'transaction', 'api_key', 'webhook_endpoint'])(
  'the database rejects a change of the mode of a row of %s',
  async (table) => {
    const { id } = await service.business()
    const { accountNumber } = await open(id, false)
    await transactions().recordPayment(payment(accountNumber, newSession()))
    await pool().query(
      `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
          after_position, created_at) values ($1, $2, true, '', '{}', '', 1, 0, now())
        on conflict do nothing`,
      [`ep_${id}`, id],
    )
    const change = pool().query(`update ${table} set live = not live where business_id = $1`, [id])
    await expect(change).rejects.toMatchObject({ code: '23000' })
  },
)
