import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Action, Finding } from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { BANK_CODES } from '../../src/banks/bank.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { readConfig } from '../../src/config/config.ts'
import { notify, payment } from '../notifications/scene.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { MASTER_KEY, useService } from '../support/service.ts'

// One database under three settings: the default ones, simulated live accounts, and live banks.
const db = useDatabase()
const service = useService(
  {
    get DATABASE_URL() {
      return db.url
    },
    MASTER_KEY: MASTER_KEY.toString('base64'),
  },
  undefined,
  db,
)
const bank = useFakeBank()
let simulating: Instance
let live: Instance

beforeAll(async () => {
  const BANKS = BANK_CODES.map((code) => `${code}=live`).join()
  const { banks, liveBanks } = readConfig({ BANKS }, bank.connectors())
  simulating = await startInstance(db.url)
  live = await startInstance(db.url, { banks, liveBanks })
})

afterAll(async () => {
  await simulating?.close()
  await live?.close()
})

const order = (businessId: string) => {
  return { businessId, reference: 'order-1', bank: Bank.BANK_9PSB, ...CUSTOMER }
}

/** A live account that the sandbox opened, for a new business. */
async function simulated() {
  const { id: businessId } = await service.business()
  const { account } = await simulating.client(AccountService).createAccount(order(businessId))
  const { reference, accountNumber } = account!
  return { businessId, reference, accountNumber }
}

const simulate = (at: Pick<Instance, 'client'>, accountNumber: string, sessionId = '') =>
  at.client(SandboxService).simulateTransfer({ accountNumber, amountMinor: 150_050n, sessionId })

async function record(
  at: Pick<Instance, 'client'>,
  accountNumber: string,
  sessionId: string,
  status: TransactionStatus = TransactionStatus.SUCCESS,
) {
  const request = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 700n, status }
  return (await at.client(TransactionService).recordPayment(request)).outcome
}

/** Makes a payment at the bank. */
function pay(made: FakePayment): FakePayment {
  bank.payments.set(made.key, made)
  return made
}

async function generate(at: { readonly httpUrl: string }, key: string, body: object) {
  const request = { path: GENERATE, headers: asJson(key), body: JSON.stringify(body) }
  const { status, headers, text } = await send(at.httpUrl, request)
  return { status, replayed: headers['idempotent-replayed'] === 'true', body: JSON.parse(text) }
}

async function statusesOf(accountNumber: string) {
  const { rows } = await db.database.durablePool.query(
    `select t.session_id, t.status from transaction t join account a on a.id = t.account_id
      where a.account_number = $1 order by t.id`,
    [accountNumber],
  )
  return rows.map((row) => [row.session_id, row.status])
}

async function accountsOf(businessId: string) {
  const text = 'select * from account where business_id = $1 order by merchant_reference'
  return (await db.database.durablePool.query(text, [businessId])).rows
}

describe('with DATABASE_URL and default settings', () => {
  test('no live account is invented at a simulated bank, and a test account is opened as ever', async () => {
    const { id, key } = await service.business()
    for (const [index, code] of BANK_CODES.entries()) {
      const message = `${code} is not connected here, so it opens no live accounts; use another bank or a test key`
      const identity = { idType: IdType.BVN, idNumber: '22222222222' }
      const request = { ...order(id), ...identity, bank: (index + 1) as Bank }
      const refused = service.client(AccountService).createAccount(request)
      await expect(refused).rejects.toMatchObject({ rawMessage: message })
      const body = creation({ bank: code, ...identity, idType: 'bvn' })
      expect(await generate(service, key, body)).toMatchObject({
        status: 503,
        body: { code: 'bank_unavailable', message },
      })
    }
    expect(await accountsOf(id)).toEqual([])
    const request = { ...order(id), live: false }
    const { account } = await service.client(AccountService).createAccount(request)
    expect(await simulate(service, account!.accountNumber)).toMatchObject({
      outcome: RecordOutcome.RECORDED,
      transaction: { live: false },
    })
  })

  test('a repeat returns the account that exists, and a pending one stays pending', async () => {
    const { id, key } = await service.business()
    const first = await generate(simulating, key, creation())
    expect(await generate(service, key, creation())).toEqual({ ...first, replayed: true })
    const changed = await generate(service, key, creation({ firstName: 'Bola' }))
    expect([changed.status, changed.body.code]).toEqual([409, 'duplicate_reference'])
    const pending = creation({ reference: 'order-2', phone: MAGIC_PHONES.refuses })
    for (const at of [simulating, service]) {
      const { status, body } = await generate(at, key, pending)
      expect([status, body.code]).toEqual([503, 'bank_unavailable'])
    }
    expect(await accountsOf(id)).toMatchObject([
      { status: 'ACTIVE', connector: 'sandbox' },
      { status: 'PENDING', connector: 'sandbox', attempts: 1 },
    ])
  })

  test('a pending account is not resolved with an invented number either', async () => {
    const { id: businessId, key } = await service.business()
    await generate(simulating, key, creation({ phone: MAGIC_PHONES.refuses }))
    const resolve = service.client(AccountService).resolveAccount({
      businessId,
      reference: 'order-1',
      resolution: { case: 'opened', value: { accountNumber: '2999999999' } },
    })
    await expect(resolve).rejects.toThrow(/The sandbox was asked to open this account/)
    expect(await accountsOf(businessId)).toMatchObject([{ status: 'PENDING' }])
  })

  test('nothing credits a live account that the sandbox opened before', async () => {
    const { businessId, reference, accountNumber } = await simulated()
    await record(simulating, accountNumber, 'half-way', TransactionStatus.PENDING)
    await expect(simulate(service, accountNumber)).rejects.toThrow(
      /The sandbox serves no live account at 9PSB/,
    )
    expect(await record(service, accountNumber, 'new')).toBe(RecordOutcome.UNMATCHED)
    expect(await record(service, accountNumber, 'half-way')).toBe(RecordOutcome.CONFLICT)
    const reconciliation = service.client(ReconciliationService)
    const row = {
      accountNumber,
      sessionId: 'by-statement',
      bankKey: 'by-statement',
      amountMinor: 5n,
    }
    const statement = { bank: Bank.BANK_9PSB, apply: true, rows: [row] }
    const [applied] = (await reconciliation.reconcile(statement)).results
    expect(applied?.action).toBe(Action.UNMATCHED)
    const { payments } = await reconciliation.listUnmatchedPayments({})
    const unmatched = payments.filter((each) => each.accountNumber === accountNumber)
    expect(unmatched.map((each) => each.sessionId)).toEqual(['by-statement', 'new'])
    const assignment = { unmatchedPaymentId: unmatched[0]!.id, businessId, reference }
    await expect(reconciliation.assignUnmatchedPayment(assignment)).rejects.toThrow(/reference/)
    expect(await statusesOf(accountNumber)).toEqual([['half-way', 'PENDING']])
  })
})

describe('at a bank that is live now, a live account that the sandbox opened', () => {
  test('gets nothing that the bank notifies: it is unmatched, or a conflict', async () => {
    const { accountNumber } = await simulated()
    const reported = pay(payment(accountNumber))
    expect((await notify(live, reported)).text).toBe('UNMATCHED')
    // As if the bank had given a payment of its own the session of a simulated one.
    await simulate(simulating, accountNumber, 'shared')
    const shared = pay(payment(accountNumber, { session: 'shared' }))
    expect((await notify(live, shared)).text).toBe('MANUAL_REVIEW')
    const reversed = pay(payment(accountNumber, { session: 'shared', state: 'reversed' }))
    expect((await notify(live, reversed)).text).toBe('MANUAL_REVIEW')
    expect(await statusesOf(accountNumber)).toEqual([['shared', 'SUCCESS']])
  })

  test("is unmatched in the bank's statement, also when it is applied again", async () => {
    const { accountNumber } = await simulated()
    await simulate(simulating, accountNumber, 'listed')
    const [missing, listed] = [
      payment(accountNumber),
      payment(accountNumber, { session: 'listed' }),
    ]
    const rows = [missing, listed].map(({ key, session, kobo }) => {
      return { accountNumber, bankKey: key, sessionId: session, amountMinor: BigInt(kobo) }
    })
    for (const each of [missing, listed]) pay(each)
    const reconcile = async () => {
      const request = { bank: Bank.BANK_9PSB, apply: true, rows }
      return (await live.client(ReconciliationService).reconcile(request)).results
    }
    const [first, conflicting] = await reconcile()
    expect(first).toMatchObject({ finding: Finding.MISSING })
    expect(conflicting).toMatchObject({
      finding: Finding.MISMATCHED,
      action: Action.REVIEW,
    })
    const [again] = await reconcile()
    expect(again).toMatchObject({
      finding: Finding.UNMATCHED,
      action: Action.NONE,
    })
    expect(await statusesOf(accountNumber)).toEqual([['listed', 'SUCCESS']])
  })

  test('is closed without asking the bank, unlike one that the bank opened', async () => {
    const { businessId, reference } = await simulated()
    const asked = bank.asked.length
    await live.client(AccountService).closeAccount({ businessId, reference })
    expect(bank.asked.slice(asked)).toEqual([])
    await live.client(AccountService).createAccount({ ...order(businessId), reference: 'order-2' })
    await live.client(AccountService).closeAccount({ businessId, reference: 'order-2' })
    expect(bank.asked.slice(asked)).toEqual(['POST accounts', 'POST close'])
  })
})
