import { fromBinary, toBinary } from '@bufbuild/protobuf'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { archiveEvents } from '../../src/events/retention.ts'
import { updateTerms } from '../../src/settlement/change-terms.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { type Verification, verifyLedger } from '../../src/settlement/verify-ledger.ts'
import { reverseTransaction } from '../../src/transactions/reverse-transaction.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import {
  CALLER,
  createInstance,
  findDiscrepancies,
  incoming,
  insertBusiness,
  testClock,
} from './fixture.ts'

const db = useDatabase(4)
const DAY_MS = 86_400_000
const clock = testClock(Date.now() - DAY_MS)

const TABLES = [
  'outbox',
  'event_log',
  'archived_entry',
  'event_retention',
  'ledger_posting',
  'transaction',
]

let instance: ReturnType<typeof createInstance>
let businessId: string
let settled: string
let reversed: string
let unsettled: string
let settlementId: string

const change = (text: string, values: unknown[] = []) =>
  tamper(db.database.durablePool, text, values)

const pay = async (account: string, session: string, status?: 'PENDING') => {
  const payment = incoming(account, `${account}-${session}`, 500n, status)
  return (await instance.recordPayment(payment)).transaction!.id
}

const settleNow = async () => {
  const request = { businessId, live: true, requestId: '', force: true }
  return (await settle(instance, request, CALLER)).settlements[0]!.id
}

async function insertPayingBusiness() {
  const business = await insertBusiness(db.database.durablePool)
  const schedule = { schedule: 'DAILY' as const, workingDays: 0, cutOffMinutes: 0 }
  const fee = { feeFlatMinor: 7n, feeBasisPoints: 0, feeCapMinor: 0n }
  await updateTerms(instance, business.id, { ...schedule, ...fee }, SYSTEM)
  return business
}

/** One settled payment, one reversed after its settlement, and one unsettled. */
beforeEach(async () => {
  instance = createInstance(db.database, clock)
  const { id, accountNumber } = await insertPayingBusiness()
  businessId = id
  settled = await pay(accountNumber, 'a')
  reversed = await pay(accountNumber, 'b')
  await sequence(instance.durablePool)
  settlementId = await settleNow()
  await reverseTransaction(instance, instance, { transactionId: reversed, reason: 'x' }, SYSTEM)
  unsettled = await pay(accountNumber, 'c')
  await sequence(instance.durablePool)
  expect(await findDiscrepancies(instance.durablePool)).toEqual([])
})

/** @returns the discrepancies after a change of at least one row */
async function findAfter(text: string, values: unknown[] = []): Promise<string[]> {
  expect(await change(text, values)).toBeGreaterThan(0)
  return findDiscrepancies(db.database.durablePool)
}

const sequenceOf = async (subjectId: string, kind = 'PAYMENT_NOTIFICATION') => {
  const { rows } = await db.database.durablePool.query(
    'select business_sequence from money_event where subject_id = $1 and kind = $2',
    [subjectId, kind],
  )
  return rows[0].business_sequence
}

const COUNTS = 'PAYMENT_NOTIFICATION and'

describe('a verification reports', () => {
  beforeEach(async () => {
    for (const table of TABLES) await change(`create table saved_${table} as table ${table}`)
  })

  afterEach(async () => {
    for (const table of TABLES) {
      await change(`delete from ${table}`)
      await change(`insert into ${table} overriding system value table saved_${table}`)
      await change(`drop table saved_${table}`)
    }
  })

  test.each([
    ['amount', 'amountMinor', 501n, 'states the amount 501 instead of 500'],
    ['session', 'sessionId', 'other', 'states the session other instead of '],
    ['business', 'businessId', 'biz_other', 'states the business biz_other instead of '],
  ])('a changed %s in the payload of an event', async (_what, field, value, problem) => {
    const where = "where subject_id = $1 and kind = 'PAYMENT_NOTIFICATION'"
    const { rows } = await db.database.durablePool.query(`select payload from outbox ${where}`, [
      settled,
    ])
    const event = fromBinary(EventSchema, rows[0].payload)
    Object.assign(event.payload.value!, { [field]: value })
    const payload = Buffer.from(toBinary(EventSchema, event))
    const found = await findAfter(`update outbox set payload = $2 ${where}`, [settled, payload])
    const at = `${settled}: the event with sequence number ${await sequenceOf(settled)}`
    expect(found).toEqual([expect.stringContaining(`${at} ${problem}`)])
  })

  test('a payload that cannot be read', async () => {
    const found = await findAfter(`update outbox set payload = '\\xff' where subject_id = $1`, [
      unsettled,
    ])
    expect(found).toEqual([
      `${unsettled}: the event with sequence number ${await sequenceOf(unsettled)} has a payload that is not that of a payment`,
    ])
  })

  test('a changed amount of an event, also of an archived one', async () => {
    const expected = (found: string[], at: number) =>
      expect(found).toContain(
        `${settled}: the event with sequence number ${at} changes the pending, available and fee totals by 501, 0, 0 instead of 500, 0, 0`,
      )
    const set = 'pending_minor = 501 where subject_id = $1'
    const at = await sequenceOf(settled)
    expected(await findAfter(`update outbox set ${set}`, [settled]), at)
    await change('update outbox set pending_minor = 500 where subject_id = $1', [settled])
    await change('update event_retention set floor = (select position from sequencer)')
    expect(await archiveEvents(db.database.durablePool, 1_000)).toBeGreaterThan(0)
    expect(await findDiscrepancies(db.database.durablePool)).toEqual([])
    expected(await findAfter(`update archived_entry set ${set}`, [settled]), at)
  })

  test('a payment whose event is missing', async () => {
    const gone = 'delete from outbox where subject_id = $1 returning event_id'
    const found = await findAfter(
      `with gone as (${gone}) delete from event_log where event_id in (select event_id from gone)`,
      [unsettled],
    )
    expect(found).toContain(
      `${unsettled}: is SUCCESS; it has 0 ${COUNTS} 0 PAYMENT_REVERSED events`,
    )
  })

  test('an event whose content is missing', async () => {
    const at = await sequenceOf(unsettled)
    const found = await findAfter('delete from outbox where subject_id = $1', [unsettled])
    expect(found).toContain(`${businessId}: the event with sequence number ${at} has no content`)
    expect(found).toContain(
      `${unsettled}: is SUCCESS; it has 0 ${COUNTS} 0 PAYMENT_REVERSED events`,
    )
  })

  test('a reversal whose event is missing', async () => {
    const found = await findAfter(
      `update outbox set kind = 'PAYMENT_FORGOTTEN' where subject_id = $1 and kind = 'PAYMENT_REVERSED'`,
      [reversed],
    )
    expect(found).toEqual([
      `${reversed}: is REVERSED; it has 1 ${COUNTS} 0 PAYMENT_REVERSED events`,
    ])
  })

  test('an event of another subject', async () => {
    const at = await sequenceOf(unsettled)
    const set = 'update outbox set subject_id = $2 where subject_id = $1'
    const found = await findAfter(set, [unsettled, settled])
    expect(found.sort()).toEqual(
      [
        `${settled}: the event with sequence number ${at} states the transaction ${unsettled} instead of ${settled}`,
        `${settled}: is SUCCESS; it has 2 ${COUNTS} 0 PAYMENT_REVERSED events`,
        `${unsettled}: is SUCCESS; it has 0 ${COUNTS} 0 PAYMENT_REVERSED events`,
      ].sort(),
    )
  })

  test('an event of an unknown subject', async () => {
    const at = await sequenceOf(unsettled)
    const set = 'update outbox set subject_id = $2 where subject_id = $1'
    expect(await findAfter(set, [unsettled, 'txn_none'])).toContain(
      `txn_none: the event with sequence number ${at} is of no transaction of this business and mode`,
    )
  })

  test('an event of another business', async () => {
    const at = await sequenceOf(unsettled)
    const found = await findAfter(
      "update outbox set business_id = 'biz_other' where subject_id = $1",
      [unsettled],
    )
    expect(found).toEqual([
      `${unsettled}: the event with sequence number ${at} belongs to another business or mode`,
    ])
  })

  test('a successful payment that a completed settlement skipped', async () => {
    const found = await findAfter(
      "delete from ledger_posting where transaction_id = $1 and kind <> 'payment'",
      [settled],
    )
    expect(found).toContain(`${settled}: is SUCCESS and not settled; ${settlementId} skipped it`)
  })

  test('a fee that the terms of the settlement do not give', async () => {
    const found = await findAfter(
      "update ledger_posting set amount_minor = 6 where transaction_id = $1 and kind = 'fee'",
      [settled],
    )
    expect(found).toContain(`${settled}: its fee is 6; the terms of ${settlementId} give 7`)
    await change("delete from ledger_posting where transaction_id = $1 and kind = 'fee'", [settled])
    expect(await findDiscrepancies(db.database.durablePool)).toContain(
      `${settled}: its fee is 0; the terms of ${settlementId} give 7`,
    )
  })

  test('postings without a transaction, and postings of an unknown settlement', async () => {
    await change(
      `insert into ledger_posting select 'txn_none', kind, business_id, debit_account, credit_account,
        amount_minor, created_at, live, settlement_id from ledger_posting where transaction_id = $1`,
      [unsettled],
    )
    expect(await findDiscrepancies(db.database.durablePool)).toEqual([
      'txn_none: has postings, but the transaction does not exist',
    ])
    const found = await findAfter(
      "update ledger_posting set settlement_id = 'stl_none' where transaction_id = $1 and kind in ('settlement', 'fee')",
      [settled],
    )
    expect(found).toContain('stl_none: has postings, but the settlement does not exist')
  })
})

describe('a verification reports nothing', () => {
  test('of payments that became final or were reversed around a settlement', async () => {
    const { id, accountNumber } = await insertPayingBusiness()
    businessId = id
    await pay(accountNumber, 'late', 'PENDING')
    await pay(accountNumber, 'waiting', 'PENDING')
    await pay(accountNumber, 'early')
    const undone = await pay(accountNumber, 'undone')
    await reverseTransaction(instance, instance, { transactionId: undone, reason: 'x' }, SYSTEM)
    await sequence(instance.durablePool)
    await settleNow()
    await pay(accountNumber, 'late')
    expect(await findDiscrepancies(instance.durablePool)).toEqual([])
    await sequence(instance.durablePool)
    expect(await findDiscrepancies(instance.durablePool)).toEqual([])
    await settleNow()
    expect(await findDiscrepancies(instance.durablePool)).toEqual([])
  })

  test('while payments are recorded, settled and reversed', async () => {
    const { id, accountNumber } = await insertPayingBusiness()
    businessId = id
    await pay(accountNumber, 'first')
    await sequence(instance.durablePool)
    let step = 0
    const found: unknown[] = []
    for await (const { discrepancies } of verifyLedger(instance.durablePool)) {
      found.push(...discrepancies)
      step += 1
      const transactionId = await pay(accountNumber, `${step}`)
      if (step % 2 === 0) await sequence(instance.durablePool)
      if (step % 3 === 0) await settleNow().catch(() => undefined)
      if (step % 5 === 0)
        await reverseTransaction(instance, instance, { transactionId, reason: 'x' }, SYSTEM)
    }
    expect(step).toBeGreaterThan(10)
    expect(found).toEqual([])
  })
})

/** Verifies from a cursor. @returns the progress, up to the first that `until` accepts */
async function verifyFrom(cursor: string, until = (_: Verification) => false) {
  const progress: Verification[] = []
  for await (const each of verifyLedger(db.database.durablePool, cursor)) {
    progress.push(each)
    if (until(each)) break
  }
  return { progress, last: progress.at(-1)! }
}

describe('a verification continues', () => {
  test('with the next business after an interruption, in another transaction', async () => {
    const { progress, last: all } = await verifyFrom('')
    const cursors = [...new Set(progress.map(({ cursor }) => cursor))]
    expect(cursors.length).toBeGreaterThan(2)
    const second = cursors[1]!
    const { last: interrupted } = await verifyFrom(
      '',
      ({ cursor }) => cursor.length === second.length,
    )
    const { progress: rest, last } = await verifyFrom(interrupted.cursor)
    expect(last.completed).toBe(true)
    expect(rest.length).toBeLessThan(progress.length)
    expect(last.transactions).toBeLessThan(all.transactions)
    expect(last.transactions).toBeGreaterThan(0)
  })

  test.each(['x', 'e30', Buffer.from('["1","-1"]').toString('base64url')])(
    'from no other cursor: %s',
    async (cursor) => {
      await expect(verifyFrom(cursor)).rejects.toMatchObject({
        reason: 'validation_failed',
        fields: [{ field: 'from', message: 'is not a cursor of a verification' }],
      })
    },
  )

  test('with what was written since a completed one began', async () => {
    await change('update event_log set logged_at = logged_at - $1::interval', ['1 day'])
    const { last: first } = await verifyFrom('')
    expect(first).toMatchObject({ completed: true, discrepancyCount: 0 })
    await change("update outbox set payload = '\\xff' where subject_id = $1", [unsettled])
    clock.set(Date.now())
    const { accountNumber } = await insertPayingBusiness()
    const [good, bad] = [await pay(accountNumber, 'good'), await pay(accountNumber, 'bad')]
    await sequence(db.database.durablePool)
    await change("update outbox set payload = '\\xff' where subject_id = $1", [bad])
    const { last, progress } = await verifyFrom(first.cursor)
    expect(progress.flatMap(({ discrepancies }) => discrepancies)).toEqual([
      { subject: bad, problem: expect.stringContaining('has a payload') },
    ])
    expect(last).toMatchObject({ completed: true, transactions: [good, bad].length })
    // A complete verification still finds what changed before.
    const all = await findDiscrepancies(db.database.durablePool)
    expect(all).toContainEqual(expect.stringContaining(unsettled))
  })
})
