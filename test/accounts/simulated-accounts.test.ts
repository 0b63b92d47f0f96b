import { describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Action, Finding } from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { RecordOutcome } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { restPath } from '../../src/protobuf/contract-services.ts'
import { notify, payment } from '../notifications/scene.ts'
import { allMethods, PROTOCOLS, REST } from '../protocols/matrix/protocols.ts'
import { creation } from '../protocols/rest/rest.ts'
import {
  CODES,
  creationBy,
  generate,
  opensAccounts,
  order,
  paid,
  record,
  useSimulatedScene,
} from './simulated-scene.ts'

const scene = useSimulatedScene()
const { service } = scene

describe('with DATABASE_URL and default settings', () => {
  test('no live account is invented at a simulated bank, in any way of asking', async () => {
    const { id, key } = await service.business()
    const ways = (await allMethods()).filter(opensAccounts).flatMap((method) => {
      const protocols = Object.values(PROTOCOLS)
      return [...protocols, ...(restPath(method) ? [REST] : [])].map((call) => ({ method, call }))
    })
    expect(ways).toHaveLength(11)
    let count = 0
    for (const { method, call } of ways) {
      for (const [index, code] of CODES.entries()) {
        count += 1
        const { request, credential } = creationBy(method, index, `order-${count}`, { id, key })
        const authorization = `Bearer ${credential}`
        expect(await call(service, { method, request, authorization })).toEqual({
          code: 'UNAVAILABLE',
          reason: 'bank_unavailable',
          message: `${code} is not connected here, so it opens no live accounts; use another bank or a test key`,
          violations: [],
          retryAfterSeconds: 300,
        })
      }
    }
    expect(await scene.accountsOf(id)).toEqual([])
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
    const first = await generate(scene.simulating, key, creation())
    expect(await generate(service, key, creation())).toEqual({ ...first, replayed: true })
    const changed = await generate(service, key, creation({ firstName: 'Bola' }))
    expect([changed.status, changed.body.code]).toEqual([409, 'duplicate_reference'])
    const pending = creation({ reference: 'order-2', phone: MAGIC_PHONES.refuses })
    for (const at of [scene.simulating, service]) {
      const { status, body } = await generate(at, key, pending)
      expect([status, body.code]).toEqual([503, 'bank_unavailable'])
    }
    expect(await scene.accountsOf(id)).toMatchObject([
      { status: 'ACTIVE', connector: 'sandbox' },
      { status: 'PENDING', connector: 'sandbox', attempts: 1 },
    ])
  })

  test('a pending account is not resolved with an invented number either', async () => {
    const { id: businessId, key } = await service.business()
    await generate(scene.simulating, key, creation({ phone: MAGIC_PHONES.refuses }))
    const resolve = service.client(AccountService).resolveAccount({
      businessId,
      reference: 'order-1',
      resolution: { case: 'opened', value: { accountNumber: '2999999999' } },
    })
    await expect(resolve).rejects.toThrow(/The sandbox was asked to open this account/)
    expect(await scene.accountsOf(businessId)).toMatchObject([{ status: 'PENDING' }])
  })

  test('nothing credits a live account that the sandbox opened before', async () => {
    const { businessId, reference, accountNumber } = await scene.simulated()
    const [pending] = await record(scene.simulating, [
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
    expect(await scene.statusesOf(accountNumber)).toEqual([['half-way', 'PENDING']])
  })
})

describe('at a bank that is live now, a live account that the sandbox opened', () => {
  test('gets nothing that the bank notifies: it is unmatched, or a conflict', async () => {
    const { accountNumber } = await scene.simulated()
    const reported = scene.pay(payment(accountNumber))
    expect((await notify(scene.live, reported)).text).toBe('UNMATCHED')
    // As if the bank had given a payment of its own the session of a simulated one.
    await scene.simulate(accountNumber, 150_050n, 'shared')
    const shared = scene.pay(payment(accountNumber, { session: 'shared' }))
    expect((await notify(scene.live, shared)).text).toBe('MANUAL_REVIEW')
    const reversed = scene.pay(payment(accountNumber, { session: 'shared', state: 'reversed' }))
    expect((await notify(scene.live, reversed)).text).toBe('MANUAL_REVIEW')
    expect(await scene.statusesOf(accountNumber)).toEqual([['shared', 'SUCCESS']])
  })

  test("is unmatched in the bank's statement, also when it is applied again", async () => {
    const { accountNumber } = await scene.simulated()
    await scene.simulate(accountNumber, 150_050n, 'listed')
    const [missing, listed] = [
      payment(accountNumber),
      payment(accountNumber, { session: 'listed' }),
    ]
    const rows = [missing, listed].map(({ key, session, kobo }) => {
      return { accountNumber, bankKey: key, sessionId: session, amountMinor: BigInt(kobo) }
    })
    for (const each of [missing, listed]) scene.pay(each)
    const reconcile = async () => {
      const request = { bank: Bank.BANK_9PSB, apply: true, rows }
      return (await scene.live.client(ReconciliationService).reconcile(request)).results
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
    expect(await scene.statusesOf(accountNumber)).toEqual([['listed', 'SUCCESS']])
  })

  test('is closed without asking the bank, unlike one that the bank opened', async () => {
    const { businessId, reference } = await scene.simulated()
    const asked = scene.bank.asked.length
    await scene.live.client(AccountService).closeAccount({ businessId, reference })
    expect(scene.bank.asked.slice(asked)).toEqual([])
    await scene.live
      .client(AccountService)
      .createAccount({ ...order(businessId), reference: 'order-2' })
    await scene.live.client(AccountService).closeAccount({ businessId, reference: 'order-2' })
    expect(scene.bank.asked.slice(asked)).toEqual(['POST accounts', 'POST close'])
  })
})

describe('an opening that was left pending', () => {
  test('at the sandbox is begun anew at the bank, once that is live', async () => {
    const { id, key } = await service.business()
    const body = creation({ phone: MAGIC_PHONES.refuses })
    expect((await generate(scene.simulating, key, body)).status).toBe(503)
    const opened = await generate(scene.live, key, body)
    const [account] = await scene.accountsOf(id)
    expect(account).toMatchObject({ status: 'ACTIVE', connector: 'live' })
    expect(scene.bank.accounts.get(account.reference)).toEqual([account.account_number])
    expect(opened.body.data.account[0].account_number).toBe(account.account_number)
  })

  test('at a bank is never completed by the sandbox, and later completed by that bank', async () => {
    const { id, key } = await service.business()
    scene.bank.mishaps.set('POST accounts', ['after'])
    expect((await generate(scene.live, key, creation())).status).toBe(503)
    for (const other of [scene.simulating, service]) {
      const { status, body } = await generate(other, key, creation())
      expect([status, body.code]).toEqual([503, 'bank_unavailable'])
    }
    const [pending] = await scene.accountsOf(id)
    expect(pending).toMatchObject({
      status: 'PENDING',
      connector: 'live',
      opening_state: 'RETRYING',
    })
    expect((await generate(scene.live, key, creation())).status).toBe(200)
    const [account] = await scene.accountsOf(id)
    expect(scene.bank.accounts.get(account.reference)).toEqual([account.account_number])
  })
})
