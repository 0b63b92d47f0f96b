import { beforeEach, describe, expect, test } from 'vitest'
import { checkSettlement } from '../../src/doctor/check-database.ts'
import { readBalance } from '../../src/settlement/get-balance.ts'
import { processNextBatch, startSettlement } from '../../src/settlement/runs/run-settlement.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { SETTLEMENT_COLUMNS, toSettlement } from '../../src/settlement/runs/store.ts'
import { readCalendar } from '../../src/settlement/terms.ts'
import { tamper, useDatabase, withOpenTransaction } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'
import { rowsRead } from '../support/rows-read.ts'
import {
  CALLER,
  createInstance,
  forced,
  INSTANT,
  insertBusiness,
  payAt,
  testClock,
} from './fixture.ts'

const db = useDatabase(8)
const clock = testClock(Date.now())
let instance: ReturnType<typeof createInstance>

beforeEach(() => {
  instance = createInstance(db.database, clock)
})

const pay = (accountNumber: string, count: number, atMs: number) =>
  payAt(db.database.durablePool, accountNumber, count, atMs)

/** A business with payments that are due immediately. */
async function insertPaidBusiness(count: number) {
  const { id, accountNumber } = await insertBusiness(instance.durablePool)
  await instance.setTerms(id, INSTANT)
  return { id, accountNumber, transactionIds: await pay(accountNumber, count, clock.now()) }
}

const availableOf = async (businessId: string) =>
  (await readBalance(instance.durablePool, { businessId, live: true })).availableMinor

const start = (businessId: string) => startSettlement(instance, forced(businessId, clock.now()))

/** Processes a settlement until it is completed. */
async function settleRunning(id = '') {
  while ((await processNextBatch(instance, id)) !== 'completed');
  const { rows } = await instance.durablePool.query(
    `select ${SETTLEMENT_COLUMNS} from settlement where id = $1`,
    [id],
  )
  return toSettlement(rows[0])
}

test('a business that cannot be settled holds up no other, is reported, and is settled once it can be', async () => {
  const broken = await insertPaidBusiness(1)
  const others = [await insertPaidBusiness(1), await insertPaidBusiness(2)]
  const posting = [broken.transactionIds[0], broken.id]
  await tamper(
    db.database.durablePool,
    'delete from ledger_posting where transaction_id = $1 and business_id = $2',
    posting,
  )
  await expect(instance.job.run()).rejects.toThrow('1 balances could not be settled')
  expect(await availableOf(broken.id)).toBe(0n)
  expect(await Promise.all(others.map(({ id }) => availableOf(id)))).toEqual([100n, 200n])
  const more = await insertPaidBusiness(3)
  const all = { businessId: '', live: true, requestId: '', force: true }
  const { completed, settlements } = await settle(instance, all, CALLER)
  expect([completed, settlements.length]).toEqual([false, 1])
  expect(await availableOf(more.id)).toBe(300n)
  const findings = await checkSettlement(db.database, clock.now() + 7_200_000)
  expect(findings.map(({ level, found }) => `${level}: ${found}`)).toEqual([
    'warn: 1 settlements have been running for more than an hour',
    'warn: 1 settlement requests have been in progress for more than an hour',
  ])
  // The job resumes the request, too; it waits before it tries the balance again.
  clock.set(clock.now() + 120_000)
  await expect(instance.job.run()).rejects.toThrow('1 balances could not be settled')
  await instance.job.run()
  await tamper(
    db.database.durablePool,
    `insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
      credit_account, amount_minor, created_at) values ($1, 'payment', $2, true, 'clearing:9PSB', 'pending', 100, now())`,
    posting,
  )
  clock.set(clock.now() + 20_000)
  await instance.job.run()
  expect(await availableOf(broken.id)).toBe(100n)
  const late = await checkSettlement(db.database, clock.now() + 7_200_000)
  expect(late.map(({ level }) => level)).toEqual(['ok'])
})

test('the job resumes an unfinished request', async () => {
  const businesses = [await insertPaidBusiness(1), await insertPaidBusiness(2)]
  for (const { id } of businesses) await instance.setTerms(id)
  const aborted = { signal: AbortSignal.abort(), actor: SYSTEM }
  const all = { businessId: '', live: true, requestId: 'unfinished', force: true }
  expect(await settle(instance, all, aborted)).toMatchObject({ completed: false, settlements: [] })
  // The call itself may still be processing the request.
  await instance.job.run()
  expect(await Promise.all(businesses.map(({ id }) => availableOf(id)))).toEqual([0n, 0n])
  clock.set(clock.now() + 120_000)
  // A request does not settle payments that arrive long after it.
  for (const { accountNumber } of businesses) await pay(accountNumber, 1, clock.now())
  await instance.job.run()
  expect(await Promise.all(businesses.map(({ id }) => availableOf(id)))).toEqual([100n, 200n])
  const again = await settle(instance, all, aborted)
  expect([again.completed, again.settlements.length]).toEqual([true, 2])
})

describe('a large settlement', () => {
  test('lets other settlements take their turn', async () => {
    const large = await insertPaidBusiness(5_100)
    // As autovacuum eventually does: plans made for empty tables would take most of ten seconds.
    await instance.durablePool.query('analyze')
    await start(large.id)
    const small = await insertPaidBusiness(1)
    await start(small.id)
    await instance.job.run()
    expect(await availableOf(large.id)).toBe(510_000n)
    const { rows } = await instance.durablePool.query(
      `select business_id from outbox where kind = 'SETTLEMENT_COMPLETED' and business_id = any ($1)
        order by seq`,
      [[large.id, small.id]],
    )
    expect(rows.map((row) => row.business_id)).toEqual([small.id, large.id])
  })

  test('is skipped while another instance processes it', async () => {
    const large = await insertPaidBusiness(2)
    const { id } = (await start(large.id))!
    const small = await insertPaidBusiness(1)
    await withOpenTransaction(instance.durablePool, async (other) => {
      await other.query('select from settlement where id = $1 for update', [id])
      await instance.job.run()
      expect(await availableOf(small.id)).toBe(100n)
      expect(await availableOf(large.id)).toBe(0n)
    })
    await instance.job.run()
    expect(await availableOf(large.id)).toBe(200n)
  })
})

test('a settlement leaves out a payment that was recorded at its cut-off', async () => {
  const { id: businessId, accountNumber } = await insertBusiness(instance.durablePool)
  const cutOffAtMs = clock.now()
  clock.set(cutOffAtMs + 60_000)
  await pay(accountNumber, 1, cutOffAtMs - 1)
  await pay(accountNumber, 2, cutOffAtMs)
  const input = { ...forced(businessId, cutOffAtMs), forced: false }
  const started = await startSettlement(instance, input)
  expect(await settleRunning(started?.id)).toMatchObject({ transactionCount: 1n })
})

test('a settlement whose payments are all reversed after it started moves no money and has no event', async () => {
  const { id: businessId, transactionIds } = await insertPaidBusiness(2)
  const started = await start(businessId)
  for (const transactionId of transactionIds) await instance.reverse(transactionId)
  expect(await settleRunning(started?.id)).toMatchObject({
    status: 'COMPLETED',
    transactionCount: 0n,
    grossMinor: 0n,
  })
  const { rows } = await instance.durablePool.query(
    'select kind from outbox where business_id = $1 order by seq',
    [businessId],
  )
  expect(rows.map(({ kind }) => kind)).toEqual([
    'PAYMENT_NOTIFICATION',
    'PAYMENT_NOTIFICATION',
    'PAYMENT_REVERSED',
    'PAYMENT_REVERSED',
  ])
})

test('the database refuses to change what a settlement has fixed', async () => {
  const { id: businessId } = await insertPaidBusiness(2)
  const { id } = (await start(businessId))!
  const change = (set: string) =>
    instance.durablePool.query(`update settlement set ${set} where id = $1`, [id])
  await change(
    'scanned_sequence = to_sequence - 1, transaction_count = 2, gross_minor = 2, fees_minor = 2',
  )
  for (const column of ['gross_minor', 'fees_minor', 'transaction_count', 'scanned_sequence']) {
    await expect(change(`${column} = ${column} - 1`)).rejects.toThrow('its totals never decrease')
  }
  for (const set of ['to_sequence - 1', 'to_sequence + 1']) {
    await expect(change(`to_sequence = ${set}`)).rejects.toThrow('are fixed when it starts')
  }
  await settleRunning(id)
  await expect(change('gross_minor = gross_minor + 1')).rejects.toThrow(
    'a completed settlement cannot be changed',
  )
})

test('starting a settlement reads few of the events that are not due yet', async () => {
  const { id, accountNumber } = await insertBusiness(instance.durablePool)
  await instance.setTerms(id, { workingDays: 5 })
  const nowMs = clock.now()
  const { calendar } = await readCalendar(instance.durablePool, id)
  const cutOffAtMs = calendar.cutOffAt(nowMs)
  await pay(accountNumber, 3, cutOffAtMs - 60_000)
  // Booked late, after payments that are not due.
  await pay(accountNumber, 2, cutOffAtMs + 60_000)
  await pay(accountNumber, 1, cutOffAtMs - 1)
  for (let at = 1; at <= 6; at++) await pay(accountNumber, 500, cutOffAtMs + at * 7_200_000)
  await instance.durablePool.query('analyze event_log, outbox')
  const input = { ...forced(id, cutOffAtMs), forced: false }
  const read = await rowsRead(instance.durablePool, 'outbox', async (pool) => {
    const started = await startSettlement(
      { ...instance, database: { ...db.database, durablePool: pool } },
      input,
    )
    expect(started?.toSequence).toBe(6n)
  })
  expect(read).toBeLessThan(100)
  await instance.job.run()
  // Events numbered below the last due one are settled with it.
  expect(await availableOf(id)).toBe(600n)
})
