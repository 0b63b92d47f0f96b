import { Code, type ConnectError } from '@connectrpc/connect'
import { afterEach, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { LiveConnector } from '../../src/banks/bank.ts'
import { systemClock } from '../../src/core/clock.ts'
import { createRecordConfirmed } from '../../src/notifications/record-confirmed.ts'
import type { TokenPayment } from '../../src/transactions/transaction.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { notify, payee, payment, recordedIn } from './scene.ts'

const { RECORDED, DUPLICATE, UNMATCHED, CONFLICT, UNSPECIFIED } = RecordOutcome

const bank = useFakeBank()
const service = useService(
  { BANKS: '9PSB=live,PALMPAY=live', RECORD_REQUIRES_CONFIRMATION: 'on' },
  bank.connectors,
)
const transactions = () => service.client(TransactionService)

afterEach(() => bank.mishaps.clear())

/** A payment that 9PSB knows, by its session id. */
function known(account: string, overrides: Partial<FakePayment> = {}): FakePayment {
  const made = payment(account, overrides)
  const paid = { ...made, key: made.session }
  bank.payments.set(paid.key, paid)
  return paid
}

/** What an internal service reports of a payment. */
const reportOf = ({ session, account, kobo }: FakePayment) => ({
  bank: Bank.BANK_9PSB,
  accountNumber: account,
  sessionId: session,
  amountMinor: BigInt(kobo),
})

const record = async (report: Parameters<ReturnType<typeof transactions>['recordPayment']>[0]) =>
  (await transactions().recordPayment(report)).outcome

const requeries = () => bank.asked.filter((what) => what === 'GET payments').length

/** The rows that a report may have left: of transactions and of unmatched payments. */
async function rowsOf(sessionId: string): Promise<number> {
  const { rows } = await service.database.durablePool.query(
    `select (select count(*) from transaction where session_id = $1)::int
      + (select count(*) from unmatched_payment where session_id = $1)::int as n`,
    [sessionId],
  )
  return rows[0].n
}

async function refused(report: Parameters<typeof record>[0]): Promise<ConnectError> {
  const error = await record(report).then(
    (outcome) => expect.fail(`got outcome ${outcome}`),
    (fault: ConnectError) => fault,
  )
  expect(await rowsOf(report.sessionId as string)).toBe(0)
  return error
}

describe('with RECORD_REQUIRES_CONFIRMATION, what a token reports of a live bank', () => {
  test('is recorded once the bank confirms it, with what only the bank knows', async () => {
    const to = await payee(service)
    const paid = known(to.accountNumber)
    const { outcome, transaction } = await transactions().recordPayment(reportOf(paid))
    expect(outcome).toBe(RECORDED)
    expect(transaction).toMatchObject({ sessionId: paid.session, amountMinor: 150_050n })
    expect(await recordedIn(service, to)).toEqual([
      { session: paid.session, kobo: '150050', payer: 'BOLA ADE', narration: 'rent' },
    ])
  })

  test('is not recorded if the bank does not know it, describes another payment or has reversed it', async () => {
    const { accountNumber } = await payee(service)
    const unknown = payment(accountNumber)
    const paid = known(accountNumber)
    const cases = [
      [reportOf(unknown), 'The payment is not confirmed by its bank: not found'],
      [{ ...reportOf(paid), amountMinor: 150_051n }, 'requery response differ in: amount'],
      [reportOf(known(accountNumber, { state: 'reversed' })), 'the bank has reversed the payment'],
      [{ ...reportOf(paid), status: TransactionStatus.PENDING }, 'only payments that arrived'],
      [{ ...reportOf(paid), status: TransactionStatus.FAILED }, 'only payments that arrived'],
    ] as const
    for (const [report, text] of cases) {
      const error = await refused(report)
      expect([error.code, error.rawMessage]).toEqual([
        Code.FailedPrecondition,
        expect.stringContaining(text),
      ])
    }
    bank.payments.set(unknown.session, { ...unknown, key: unknown.session })
    expect(await record(reportOf(unknown))).toBe(RECORDED)
  })

  test('is unavailable and not recorded while the bank is silent, and recorded on a repeat', async () => {
    const to = await payee(service)
    const paid = known(to.accountNumber)
    bank.mishaps.set('GET payments', ['after'])
    const error = await refused(reportOf(paid))
    expect(error.code).toBe(Code.Unavailable)
    expect(await record(reportOf(paid))).toBe(RECORDED)
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('is recorded once when it is repeated while in progress, also by the bank', async () => {
    const to = await payee(service)
    const paid = known(to.accountNumber)
    const [notified, ...outcomes] = await Promise.all([
      notify(service, paid),
      ...Array.from({ length: 12 }, () => record(reportOf(paid))),
    ])
    const recorded = outcomes.filter((outcome) => outcome === RECORDED).length
    expect(recorded + (notified.text === 'RECORDED' ? 1 : 0)).toBe(1)
    expect(outcomes.filter((outcome) => outcome === DUPLICATE)).toHaveLength(12 - recorded)
    expect(await recordedIn(service, to)).toHaveLength(1)
  })

  test('is a duplicate or a conflict without a requery if its session is recorded', async () => {
    const { accountNumber } = await payee(service)
    const paid = known(accountNumber)
    expect(await record(reportOf(paid))).toBe(RECORDED)
    const before = requeries()
    bank.mishaps.set('GET payments', ['after', 'after'])
    expect(await record(reportOf(paid))).toBe(DUPLICATE)
    expect(await record({ ...reportOf(paid), amountMinor: 1n })).toBe(CONFLICT)
    expect(requeries()).toBe(before)
  })

  test('is kept as unmatched if the bank confirms it for a number that is not open', async () => {
    const paid = known('3999999998')
    expect(await record(reportOf(paid))).toBe(UNMATCHED)
    expect(await rowsOf(paid.session)).toBe(1)
    await refused(reportOf(payment('3999999998')))
  })

  test('is requeried at PalmPay by its own key, and refused without it', async () => {
    const { accountNumber } = await payee(service, Bank.BANK_PALMPAY)
    const paid = payment(accountNumber)
    bank.payments.set(paid.key, paid)
    const report = { ...reportOf(paid), bank: Bank.BANK_PALMPAY }
    const error = await refused(report)
    expect([error.code, error.rawMessage]).toEqual([
      Code.FailedPrecondition,
      'PALMPAY confirms a payment by its own key: bank_key is required',
    ])
    expect(await record({ ...report, bankKey: paid.key })).toBe(RECORDED)
    // The same payment with another session id is the same payment.
    expect(await record({ ...report, sessionId: paid.key, bankKey: paid.key })).toBe(DUPLICATE)
  })
})

test('a batch keeps the outcome of each payment, in order', async () => {
  const to = await payee(service)
  const paid = known(to.accountNumber)
  const unclear = known(to.accountNumber)
  bank.payments.set(unclear.key, { ...unclear, kobo: 'not a number' })
  const others = Array.from({ length: 100 }, () => known(to.accountNumber))
  expect(await record(reportOf(paid))).toBe(RECORDED)
  const { results } = await transactions().recordPayments({
    payments: [
      reportOf(unclear),
      reportOf(paid),
      reportOf(payment(to.accountNumber)),
      { ...reportOf(paid), sessionId: 'a b' },
      { ...reportOf(known(to.accountNumber)), bank: Bank.BANK_PALMPAY },
      ...others.map(reportOf),
    ],
  })
  expect(results.slice(0, 5).map(({ outcome, reason }) => [outcome, reason])).toEqual([
    [UNSPECIFIED, 'bank_unavailable'],
    [DUPLICATE, ''],
    [UNSPECIFIED, 'payment_unconfirmed'],
    [UNSPECIFIED, 'validation_failed'],
    [UNSPECIFIED, 'bank_key_required'],
  ])
  // More than the connector admits at once, with its queue.
  expect(results.slice(5).map(({ transaction }) => transaction?.sessionId)).toEqual(
    others.map(({ session }) => session),
  )
  expect(await recordedIn(service, to)).toHaveLength(101)
})

describe('payments that need no confirmation', () => {
  test('a test account at a live bank is paid at once', async () => {
    const { id: businessId } = await service.business()
    const request = { businessId, reference: 'in-test', bank: Bank.BANK_9PSB, live: false }
    const { account } = await service
      .client(AccountService)
      .createAccount({ ...request, ...CUSTOMER })
    const { accountNumber, id } = account!
    const before = requeries()
    expect(await record(reportOf(payment(accountNumber)))).toBe(RECORDED)
    expect(requeries()).toBe(before)
    // Once a live account has the number, the money belongs to that one, and the bank has to confirm it.
    const to = await payee(service)
    await service.database.durablePool.query(
      'update account set account_number = $1 where id = $2',
      [to.accountNumber, id],
    )
    await refused(reportOf(payment(to.accountNumber)))
  })

  test('a bank that the sandbox serves is not affected', async () => {
    const { accountNumber } = await payee(service, Bank.BANK_PROVIDUS)
    const report = { ...reportOf(payment(accountNumber)), bank: Bank.BANK_PROVIDUS }
    const status = TransactionStatus.PENDING
    expect(await record({ ...report, status })).toBe(RECORDED)
    expect(await record(report)).toBe(RECORDED)
  })
})

test('a payment that waited too long for its requery is refused, and the bank is not asked', async () => {
  let nowMs = 1_000_000
  let asked = 0
  let release: () => void = () => undefined
  const asking = new Promise<void>((resolve) => {
    release = resolve
  })
  const requery = async () => {
    asked += 1
    if (asked === 8) {
      nowMs += 15_000
      release()
    }
    await asking
    return { kind: 'unknown', cause: 'no response' } as const
  }
  const connector = { requery } as unknown as LiveConnector
  const recordConfirmed = createRecordConfirmed(
    createTestRuntime(service.database, { clock: { ...systemClock, now: () => nowMs } }),
    {
      live: new Map([
        ['9PSB', { connector, callTimeoutMs: 10_000, allowedCidrs: [], requery: true }],
      ]),
      findOpenAccounts: async (keys) => keys.map(() => undefined),
      assignSession: () => expect.fail('nothing is confirmed'),
      isReturned: () => expect.fail('nothing is confirmed'),
      recordPayment: () => expect.fail('nothing is confirmed'),
    },
  )
  const reports = Array.from({ length: 40 }, (_, index): TokenPayment => {
    const { account, session } = payment('3000000001')
    return {
      bank: '9PSB',
      accountNumber: account,
      sessionId: session,
      bankKey: '',
      live: undefined,
      amountMinor: BigInt(index + 1),
      status: 'SUCCESS',
      paidAtMs: nowMs,
      narration: '',
      payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
      recordedBy: 'token:tok_1',
    }
  })
  const results = await Promise.allSettled(reports.map(recordConfirmed))
  expect(asked).toBe(8)
  for (const result of results) {
    expect(result).toMatchObject({ status: 'rejected', reason: { reason: 'bank_unavailable' } })
  }
})
