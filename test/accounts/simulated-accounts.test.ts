import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Action, Finding } from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox/sandbox.ts'
import { readConfig } from '../../src/config/config.ts'
import { notify, payment } from '../notifications/scene.ts'
import { PROTOCOLS, type Protocol, REST } from '../protocols/matrix/protocols.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, MASTER_KEY, useService } from '../support/service.ts'

const CODES = ['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'] as const
const IDENTITY = { idType: 1, idNumber: '22222222222' }

const db = useDatabase()

/** As it starts with a database and no further settings. */
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

/** The same service while live accounts were simulated, and while the banks were live. */
let simulating: Instance
let live: Instance

beforeAll(async () => {
  const BANKS = CODES.map((code) => `${code}=live`).join()
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

const simulate = (accountNumber: string, amountMinor: bigint, sessionId: string) =>
  simulating.client(SandboxService).simulateTransfer({ accountNumber, amountMinor, sessionId })

const paid = (
  accountNumber: string,
  sessionId: string,
  status: TransactionStatus = TransactionStatus.SUCCESS,
) => {
  return { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 700n, status }
}

async function record(instance: Pick<Instance, 'client'>, payments: ReturnType<typeof paid>[]) {
  const { results } = await instance.client(TransactionService).recordPayments({ payments })
  return results.map(({ outcome }) => outcome)
}

/** Makes a payment at the bank. */
function pay(made: FakePayment): FakePayment {
  bank.payments.set(made.key, made)
  return made
}

async function statusesOf(accountNumber: string) {
  const { rows } = await db.database.pool.query(
    `select t.session_id, t.status from transaction t join account a on a.id = t.account_id
      where a.account_number = $1 order by t.id`,
    [accountNumber],
  )
  return rows.map((row) => [row.session_id, row.status])
}

const accountsOf = async (businessId: string) =>
  (await db.database.pool.query('select * from account where business_id = $1', [businessId])).rows

async function generate(at: { readonly httpUrl: string }, key: string, body: object) {
  const request = { path: GENERATE, headers: asJson(key), body: JSON.stringify(body) }
  const { status, headers, text } = await send(at.httpUrl, request)
  return { status, replayed: headers['idempotent-replayed'] === 'true', body: JSON.parse(text) }
}

describe('with DATABASE_URL and default settings', () => {
  const create = AccountService.method.createAccount
  const generation = ThirdPartyService.method.generateVirtualAccount

  /** Every way of asking for an account, each as a function that asks for one at a bank. */
  const ways = (businessId: string, key: string) => {
    const overProtocol = (call: Protocol) => [
      (bank: number, reference: string) =>
        call(service, {
          method: create,
          request: { businessId, reference, bank, ...CUSTOMER, ...IDENTITY },
          authorization: `Bearer ${ADMIN_TOKEN}`,
        }),
      (bank: number, reference: string) =>
        call(service, {
          method: generation,
          request: creation({
            bank: CODES[bank - 1],
            reference,
            idType: 'bvn',
            idNumber: '22222222222',
          }),
          authorization: `Bearer ${key}`,
        }),
    ]
    const [, overRest] = overProtocol(REST)
    return [...Object.values(PROTOCOLS).flatMap(overProtocol), overRest!]
  }

  test('no live account is invented at a simulated bank, in any way of asking', async () => {
    const { id, key } = await service.business()
    let count = 0
    for (const ask of ways(id, key)) {
      for (const [index, code] of CODES.entries()) {
        count += 1
        expect(await ask(index + 1, `order-${count}`)).toEqual({
          code: 'UNAVAILABLE',
          reason: 'bank_unavailable',
          message: `${code} is not connected here, so it opens no live accounts; use another bank or a test key`,
          violations: [],
          retryAfterSeconds: 300,
        })
      }
    }
    expect(count).toBe(44)
    expect(await accountsOf(id)).toEqual([])
  })

  test('a test account is opened by the sandbox as ever', async () => {
    const { id: businessId } = await service.business()
    const request = { ...order(businessId), test: true }
    const { account } = await service.client(AccountService).createAccount(request)
    const transfer = { accountNumber: account!.accountNumber, amountMinor: 100n }
    expect(await service.client(SandboxService).simulateTransfer(transfer)).toMatchObject({
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

  test('nothing credits a live account that the sandbox opened before', async () => {
    const { businessId, reference, accountNumber } = await simulated()
    const [pending] = await record(simulating, [
      paid(accountNumber, 'half-way', TransactionStatus.PENDING),
    ])
    expect(pending).toBe(RecordOutcome.RECORDED)
    const transfer = service
      .client(SandboxService)
      .simulateTransfer({ accountNumber, amountMinor: 1n })
    await expect(transfer).rejects.toThrow(/The sandbox serves no live account at 9PSB/)
    expect(
      await record(service, [paid(accountNumber, 'new'), paid(accountNumber, 'half-way')]),
    ).toEqual([RecordOutcome.UNMATCHED, RecordOutcome.CONFLICT])
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
    await simulate(accountNumber, 150_050n, 'shared')
    const shared = pay(payment(accountNumber, { session: 'shared' }))
    expect((await notify(live, shared)).text).toBe('MANUAL_REVIEW')
    const reversed = pay(payment(accountNumber, { session: 'shared', state: 'reversed' }))
    expect((await notify(live, reversed)).text).toBe('MANUAL_REVIEW')
    expect(await statusesOf(accountNumber)).toEqual([['shared', 'SUCCESS']])
  })

  test("is unmatched in the bank's statement, also when it is applied again", async () => {
    const { accountNumber } = await simulated()
    await simulate(accountNumber, 150_050n, 'listed')
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

describe('an opening that was left pending', () => {
  test('at the sandbox is begun anew at the bank, once that is live', async () => {
    const { id, key } = await service.business()
    const body = creation({ phone: MAGIC_PHONES.refuses })
    expect((await generate(simulating, key, body)).status).toBe(503)
    const opened = await generate(live, key, body)
    const [account] = await accountsOf(id)
    expect(account).toMatchObject({ status: 'ACTIVE', connector: 'live' })
    expect(bank.accounts.get(account.reference)).toEqual([account.account_number])
    expect(opened.body.data.account[0].account_number).toBe(account.account_number)
  })

  test('at a bank is never completed by the sandbox, and later completed by that bank', async () => {
    const { id, key } = await service.business()
    bank.mishaps.set('POST accounts', ['after'])
    expect((await generate(live, key, creation())).status).toBe(503)
    for (const other of [simulating, service]) {
      const { status, body } = await generate(other, key, creation())
      expect([status, body.code]).toEqual([503, 'bank_unavailable'])
    }
    const [pending] = await accountsOf(id)
    expect(pending).toMatchObject({
      status: 'PENDING',
      connector: 'live',
      opening_state: 'RETRYING',
    })
    expect((await generate(live, key, creation())).status).toBe(200)
    const [account] = await accountsOf(id)
    expect(bank.accounts.get(account.reference)).toEqual([account.account_number])
  })
})
