import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import type { IncomingPayment, RecordResult } from '../../src/transactions/transaction.ts'
import { incoming, insertBusiness } from '../settlement/fixture.ts'
import { lockWaits, useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { storedOf } from './fixture.ts'

const db = useDatabase()
const pool = () => db.database.durablePool

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

/** Records payments, without the rest of the service: calls of one turn share a batch. */
function createRecord(callback: () => void = () => undefined) {
  const database = { ...db.database, recordingPool: pool() }
  const record = createRecordPayment(createTestRuntime(database, { onCommit: callback }), {
    findOpenAccounts: createFindOpenAccounts(pool(), () => true),
    isSimulated: () => true,
    onUnmatched: callback,
    onConflict: callback,
  })
  return (payment: IncomingPayment) => outcomeOf(record(payment))
}

const outcomeOf = (call: Promise<RecordResult>) =>
  call.then(
    ({ outcome }) => outcome,
    (error: unknown) => error,
  )

let names = 0

/** An account, and payments into it with sessions that no other test uses. */
async function newPayee() {
  const { accountNumber } = await insertBusiness(pool())
  const name = `batch-${++names}`
  return {
    name,
    payment: (session: string | number, more: Partial<IncomingPayment> = {}) => ({
      ...incoming(accountNumber, `${name}-${session}`, 500n),
      ...more,
    }),
  }
}

const NOWHERE = { accountNumber: '9999999999' }
const INTERNAL = expect.objectContaining({
  reason: 'internal',
  message: 'this payment could not be recorded; the log of the service has the cause',
})

describe('a payment that the database refuses', () => {
  test('fails alone when it cannot be encoded', async () => {
    const { payment } = await newPayee()
    const faults: Partial<IncomingPayment>[] = [
      {},
      { narration: 'a\0b' },
      { amountMinor: 2n ** 64n },
      { accountNumber: 'a\0b' },
      { paidAtMs: Number.NaN },
      {},
    ]
    const record = createRecord()
    const outcomes = faults.map((fault, index) => record(payment(index, fault)))
    expect(await Promise.all(outcomes)).toEqual([
      'RECORDED',
      INTERNAL,
      INTERNAL,
      INTERNAL,
      INTERNAL,
      'RECORDED',
    ])
  })

  test('fails alone among new, unmatched and final ones, and nothing is recorded twice', async () => {
    const { name, payment } = await newPayee()
    const record = createRecord()
    const first = ['pending', 'stuck'].map((each) => payment(each, { status: 'PENDING' }))
    expect(await Promise.all(first.map(record))).toEqual(['RECORDED', 'RECORDED'])
    const batch = [
      payment('new.'),
      payment('poison'),
      payment('unmatched', NOWHERE),
      payment('unmatched-poison', NOWHERE),
      payment('pending'),
      payment('stuck'),
      payment('newer.'),
    ]
    expect(await Promise.all(batch.map(record))).toEqual([
      'RECORDED',
      INTERNAL,
      'UNMATCHED',
      INTERNAL,
      'RECORDED',
      INTERNAL,
      'RECORDED',
    ])
    const finalized = await pool().query(
      `select p.kind, o.kind as event from transaction t join ledger_posting p on p.transaction_id = t.id
        join outbox o on o.subject_id = t.id where t.session_id like $1 and t.status = 'SUCCESS'`,
      [`${name}-%`],
    )
    const credited = { kind: 'payment', event: 'PAYMENT_NOTIFICATION' }
    expect(finalized.rows).toEqual([credited, credited, credited])
  })

  test('fails alone among conflicts', async () => {
    const { name, payment } = await newPayee()
    const record = createRecord()
    await record(payment(1))
    const amounts = [1n, 666n, 2n].map((amountMinor) => record(payment(1, { amountMinor })))
    expect(await Promise.all(amounts)).toEqual(['CONFLICT', INTERNAL, 'CONFLICT'])
    const { conflicts } = await storedOf(pool(), `${name}-1`)
    expect(conflicts.map((each) => each.amount_minor)).toEqual(['1', '2'])
  })
})

test('payments that are recorded are acknowledged although the database is lost right after', async () => {
  const { payment } = await newPayee()
  const record = createRecord()
  const blocker = await pool().connect()
  onTestFinished(() => blocker.release())
  // Payments are recorded; storing an unmatched one waits.
  await blocker.query('begin; lock table unmatched_payment in share mode')
  const calls = [payment(0), payment(1, NOWHERE), payment(2)].map(record)
  await waitFor(async () => {
    const { rows } = await pool().query(
      `select pg_terminate_backend(pid) as ended from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`,
    )
    expect(rows).toEqual([{ ended: true }])
  })
  const lost = expect.objectContaining({ code: '57P01' })
  expect(await Promise.all(calls)).toEqual(['RECORDED', lost, 'RECORDED'])
  await blocker.query('rollback')
  expect(await record(payment(1, NOWHERE))).toBe('UNMATCHED')
})

test('payments are acknowledged although what follows their commit fails', async () => {
  const { payment } = await newPayee()
  let calls = 0
  const record = createRecord(() => {
    calls += 1
    throw new Error('a callback failed')
  })
  expect(await record(payment(0, { status: 'PENDING' }))).toBe('RECORDED')
  const batch = [payment(0), payment(1), payment(2, NOWHERE), payment(3, NOWHERE)]
  expect(await Promise.all(batch.map(record))).toEqual([
    'RECORDED',
    'RECORDED',
    'UNMATCHED',
    'UNMATCHED',
  ])
  expect(await record(payment(1, { amountMinor: 7n }))).toBe('CONFLICT')
  // onCommit: pending, new, unmatched and final payments; onUnmatched twice; onConflict once.
  expect(calls).toBe(7)
})

test('a flood of conflicting repeats does not hold up other payments', async () => {
  const { name, payment } = await newPayee()
  const record = createRecord()
  await record(payment(0))
  const blocker = await pool().connect()
  onTestFinished(() => blocker.release())
  await blocker.query('begin; lock table payment_conflict in exclusive mode')
  const flood = Array.from({ length: 300 }, (_, at) =>
    record(payment(0, { amountMinor: 1_000n + BigInt(at) })),
  )
  await waitUntil(async () => (await lockWaits(pool())) > 0)
  for (let at = 1; at <= 5; at++) expect(await record(payment(at))).toBe('RECORDED')
  await blocker.query('rollback')
  expect(new Set(await Promise.all(flood))).toEqual(new Set(['CONFLICT']))
  expect((await storedOf(pool(), `${name}-0`)).conflicts).toHaveLength(300)
})
