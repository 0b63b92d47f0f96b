import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { RecordOutcome } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import type { IncomingPayment, RecordResult } from '../../src/transactions/transaction.ts'
import { incoming } from '../settlement/fixture.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { openAccount, type Payment, paymentInto, storedOf, transactionsOf } from './fixture.ts'

const service = useService()
const pool = () => service.database.durablePool

const { RECORDED, DUPLICATE, UNMATCHED, CONFLICT, UNSPECIFIED } = RecordOutcome

/** As many payments as one statement records. */
const BATCH = 256

beforeAll(async () => {
  await pool().query(`
    create function refuse() returns trigger language plpgsql as $$
      begin raise exception 'a row that the database refuses' using errcode = 'XX001'; end $$;
    create trigger refuse_transaction before insert on transaction
      for each row when (new.session_id like '%poison%') execute function refuse();
    create trigger refuse_final before update on transaction
      for each row when (new.session_id like '%stuck%') execute function refuse();
    create trigger refuse_unmatched before insert on unmatched_payment
      for each row when (new.session_id like '%poison%') execute function refuse();
    create trigger refuse_conflict before insert on payment_conflict
      for each row when (new.amount_minor = 666) execute function refuse()`)
})

let names = 0

/** A prefix of session ids that no other test uses. */
const newName = () => `batch-${++names}`

async function record(payments: readonly Payment[]) {
  const { results } = await transactionsOf(service).recordPayments({ payments: [...payments] })
  return results
}

describe('a payment that the database refuses', () => {
  test('fails alone: its neighbours are recorded', async () => {
    const { number } = await openAccount(service)
    const name = newName()
    const payments = Array.from({ length: BATCH }, (_, index) =>
      paymentInto(number, { sessionId: `${name}-${index === 100 ? 'poison' : index}` }),
    )
    const results = await record(payments)
    expect(results.map(({ outcome }) => outcome)).toEqual(
      payments.map((_, index) => (index === 100 ? UNSPECIFIED : RECORDED)),
    )
    expect(results[100]!.error).toBe(
      'this payment could not be recorded; the log of the service has the cause',
    )
    expect(results[100]!.transaction).toBeUndefined()
    const repeated = await record(payments)
    expect(repeated.filter(({ outcome }) => outcome === DUPLICATE)).toHaveLength(BATCH - 1)
  })

  test('also when it cannot be encoded', async () => {
    const { number } = await openAccount(service)
    const name = newName()
    const { recordPayment } = instance()
    const faults: Partial<IncomingPayment>[] = [
      {},
      { narration: 'a\0b' },
      { amountMinor: 2n ** 64n },
      { accountNumber: 'a\0b' },
      { paidAtMs: Number.NaN },
      {},
    ]
    const calls = faults.map((fault, index) =>
      outcomeOf(recordPayment({ ...incoming(number, `${name}-${index}`, 500n), ...fault })),
    )
    const internal = expect.objectContaining({ reason: 'internal' })
    expect(await Promise.all(calls)).toEqual([
      'RECORDED',
      ...[internal, internal, internal, internal],
      'RECORDED',
    ])
  })

  test('fails alone among unmatched payments and final reports, and nothing is recorded twice', async () => {
    const { number } = await openAccount(service)
    const name = newName()
    const { PENDING, SUCCESS } = TransactionStatus
    const first = ['pending', 'stuck'].map((each) =>
      paymentInto(number, { sessionId: `${name}-${each}`, status: PENDING }),
    )
    for (const { outcome } of await record(first)) expect(outcome).toBe(RECORDED)
    const results = await record([
      paymentInto(number, { sessionId: `${name}-new.` }),
      paymentInto('9999999999', { sessionId: `${name}-unmatched` }),
      paymentInto('9999999999', { sessionId: `${name}-poison` }),
      ...first.map((payment) => ({ ...payment, status: SUCCESS })),
      paymentInto(number, { sessionId: `${name}-newer.` }),
    ])
    expect(results.map(({ outcome }) => outcome)).toEqual([
      RECORDED,
      UNMATCHED,
      UNSPECIFIED,
      RECORDED,
      UNSPECIFIED,
      RECORDED,
    ])
    for (const each of ['new.', 'pending', 'newer.']) {
      expect(await storedOf(pool(), `${name}-${each}`)).toMatchObject({
        transactions: [{ status: 'SUCCESS' }],
        postings: [{ kind: 'payment' }],
        events: [{ kind: 'PAYMENT_NOTIFICATION' }],
      })
    }
  })

  test('fails alone among conflicts', async () => {
    const { number } = await openAccount(service)
    const name = newName()
    const recorded = paymentInto(number, { sessionId: name })
    await record([recorded])
    const amounts = [1n, 666n, 2n]
    const results = await record(amounts.map((amountMinor) => ({ ...recorded, amountMinor })))
    expect(results.map(({ outcome }) => outcome)).toEqual([CONFLICT, UNSPECIFIED, CONFLICT])
    const { conflicts } = await storedOf(pool(), name)
    expect(conflicts.map((each) => each.amount_minor)).toEqual(['1', '2'])
  })
})

/** What records payments, without the rest of the service: calls of one turn share a batch. */
function instance(callback: () => void = () => undefined) {
  const database = { ...service.database, recordingPool: pool() }
  return {
    recordPayment: createRecordPayment(createTestRuntime(database, { onCommit: callback }), {
      findOpenAccounts: createFindOpenAccounts(pool(), () => true),
      isSimulated: () => true,
      onUnmatched: callback,
      onConflict: callback,
    }),
  }
}

const outcomeOf = (call: Promise<RecordResult>) =>
  call.then(
    ({ outcome }) => outcome,
    (error: unknown) => error,
  )

test('payments that are recorded are acknowledged although the database is lost right after', async () => {
  const { number } = await openAccount(service)
  const name = newName()
  const { recordPayment } = instance()
  const blocker = await pool().connect()
  onTestFinished(() => blocker.release())
  await blocker.query('begin')
  // Payments are recorded; storing an unmatched one waits.
  await blocker.query('lock table unmatched_payment in share mode')
  const numbers = [number, '9999999999', number]
  const calls = numbers.map((each, index) =>
    outcomeOf(recordPayment(incoming(each, `${name}-${index}`, 500n))),
  )
  await waitFor(async () => {
    const { rows } = await pool().query(
      `select pg_terminate_backend(pid) as ended from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`,
    )
    expect(rows).toEqual([{ ended: true }])
  })
  expect(await Promise.all(calls)).toEqual([
    'RECORDED',
    expect.objectContaining({ code: '57P01' }),
    'RECORDED',
  ])
  await blocker.query('rollback')
  const again = recordPayment(incoming('9999999999', `${name}-1`, 500n))
  expect(await outcomeOf(again)).toBe('UNMATCHED')
})

test('payments are acknowledged although what follows their commit fails', async () => {
  const { number } = await openAccount(service)
  const name = newName()
  let calls = 0
  const { recordPayment } = instance(() => {
    calls += 1
    throw new Error('a callback failed')
  })
  const payment = (index: number, more: Partial<IncomingPayment> = {}) =>
    recordPayment({ ...incoming(number, `${name}-${index}`, 500n), ...more })
  const pending = outcomeOf(payment(0, { status: 'PENDING' }))
  expect(await pending).toBe('RECORDED')
  const accountNumber = '9999999999'
  const batch = [
    payment(0),
    payment(1),
    payment(2, { accountNumber }),
    payment(3, { accountNumber }),
  ]
  expect(await Promise.all(batch.map(outcomeOf))).toEqual([
    'RECORDED',
    'RECORDED',
    'UNMATCHED',
    'UNMATCHED',
  ])
  expect(await outcomeOf(payment(1, { amountMinor: 7n }))).toBe('CONFLICT')
  // onCommit: pending, new, unmatched and final payments; onUnmatched twice; onConflict once.
  expect(calls).toBe(7)
})

test('a flood of conflicting repeats does not hold up other payments', async () => {
  const { number } = await openAccount(service)
  const name = newName()
  const recorded = paymentInto(number, { sessionId: name })
  await record([recorded])
  const blocker = await pool().connect()
  onTestFinished(() => blocker.release())
  await blocker.query('begin')
  await blocker.query('lock table payment_conflict in exclusive mode')
  const flood = record(
    Array.from({ length: 1_000 }, (_, index) => ({
      ...recorded,
      amountMinor: 1_000n + BigInt(index),
    })),
  )
  await waitFor(async () => {
    const { rowCount } = await pool().query(
      `select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`,
    )
    expect(rowCount).toBeGreaterThan(0)
  })
  for (let index = 0; index < 5; index++) {
    const [result] = await record([paymentInto(number, { sessionId: `${name}-${index}` })])
    expect(result!.outcome).toBe(RECORDED)
  }
  await blocker.query('rollback')
  for (const { outcome } of await flood) expect(outcome).toBe(CONFLICT)
  expect((await storedOf(pool(), name)).conflicts).toHaveLength(1_000)
})
