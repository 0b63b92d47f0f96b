import { Registry } from 'prom-client'
import { beforeEach, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS } from '../../src/core/durations.ts'
import { addHoliday, removeHoliday } from '../../src/settlement/change-terms.ts'
import { readBalance } from '../../src/settlement/get-balance.ts'
import { countOverdue, registerSettlementMetrics } from '../../src/settlement/overdue.ts'
import { claimDue, postponeDue } from '../../src/settlement/runs/advance-settlements.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { followPayments } from '../../src/settlement/sweep-due.ts'
import { readCalendar } from '../../src/settlement/terms.ts'
import { captureLog } from '../support/captured-log.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { beginTimeline, publishEvents, sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import {
  CALLER,
  createInstance,
  INSTANT,
  incoming,
  insertBusiness,
  openTestAccount,
  payAt,
  testClock,
} from './fixture.ts'

const db = useDatabase(8)

/** A Friday, midday in Lagos. */
const clock = testClock(Date.UTC(2026, 10, 20, 11))

const { log, lines: logged } = captureLog('warn')
let instance: ReturnType<typeof createInstance>

beforeEach(async () => {
  instance = createInstance(db.database, clock, log)
  // Completes what earlier tests left, and the sweep.
  clock.set(clock.now() + 60 * DAY_MS)
  await instance.job.run()
  await sequence(instance.durablePool)
  await followPayments(instance)
  logged.length = 0
})

const pay = (accountNumber: string, count = 1, atMs = clock.now()) =>
  payAt(db.database.durablePool, accountNumber, count, atMs)

/** The row of a balance in the index. */
async function dueOf(businessId: string, live = true) {
  const { rows } = await db.database.durablePool.query(
    `select round(date_part('epoch', due_at) * 1000) as due_at_ms,
        round(date_part('epoch', next_at) * 1000) as next_at_ms, failures,
        xmin::text as version
      from settlement_due where business_id = $1 and live = $2`,
    [businessId, live],
  )
  return rows[0]
}

async function settlementsOf(businessId: string) {
  const { rows } = await db.database.durablePool.query(
    `select status, transaction_count::int as count,
        round(date_part('epoch', started_at) * 1000) as started_at_ms
      from settlement where business_id = $1 order by id`,
    [businessId],
  )
  return rows
}

const settlesAt = async (businessId: string, recordedAtMs: number) =>
  (await readCalendar(db.database.durablePool, businessId)).calendar.settlesAt(recordedAtMs)

const pendingOf = async (businessId: string) =>
  (await readBalance(db.database.durablePool, { businessId, live: true })).pendingMinor

describe('the index of what is due', () => {
  test('has a balance from its first unsettled payment on, and later payments write nothing', async () => {
    const { id, accountNumber } = await insertBusiness(instance.durablePool)
    const firstAtMs = clock.now()
    await pay(accountNumber)
    expect(await dueOf(id)).toBeUndefined()
    await followPayments(instance)
    const due = await dueOf(id)
    expect(due).toMatchObject({ due_at_ms: await settlesAt(id, firstAtMs), failures: 0 })
    for (const [early, balances] of [
      [1, 0],
      [0, 1],
    ] as const) {
      const overdue = await countOverdue(db.database, due.due_at_ms - early)
      expect(overdue).toMatchObject({ balances })
    }
    await pay(accountNumber, 3, firstAtMs + 2 * DAY_MS)
    await followPayments(instance)
    expect(await dueOf(id)).toEqual(due)
  })

  test('has each mode: a settlement of one leaves the other, and hides none of its payments', async () => {
    const { id, accountNumber } = await insertBusiness(instance.durablePool)
    const inTest = await openTestAccount(instance.durablePool, accountNumber)
    const listed = async () => [Boolean(await dueOf(id)), Boolean(await dueOf(id, false))]
    await pay(accountNumber, 5)
    await pay(inTest)
    await followPayments(instance)
    expect(await listed()).toEqual([true, true])
    await instance.settleNow(id)
    expect(await listed()).toEqual([false, true])
    await instance.settleNow(id, { live: false })
    expect(await listed()).toEqual([false, false])
    // Their numbers are lower than those that the settlement of live payments has reached.
    await pay(inTest)
    await followPayments(instance)
    expect(await listed()).toEqual([false, true])
    // And now they are higher.
    await pay(inTest, 6)
    await instance.settleNow(id)
    expect(await listed()).toEqual([false, true])
  })

  test('follows a removed holiday before a settlement of all businesses', async () => {
    const { orm, durablePool } = db.database
    const { id, accountNumber } = await insertBusiness(durablePool)
    const withoutMs = await settlesAt(id, clock.now())
    // In Lagos.
    const day = new Date(withoutMs + HOUR_MS).toISOString().slice(0, 10)
    await addHoliday(orm, { day, name: 'Test day' }, SYSTEM)
    await pay(accountNumber)
    await followPayments(instance)
    expect((await dueOf(id)).due_at_ms).toBeGreaterThan(withoutMs)
    await removeHoliday(orm, day, SYSTEM)
    clock.set(withoutMs)
    const all = { businessId: '', live: true, requestId: '', force: false }
    expect(await settle(instance, all, CALLER)).toMatchObject({ completed: true })
    expect(await pendingOf(id)).toBe(0n)
  })
})

test('instant terms settle each payment within a minute, and start one settlement a minute', async () => {
  const { id, accountNumber } = await insertBusiness(instance.durablePool)
  await instance.setTerms(id, INSTANT)
  const startMs = clock.now()
  let waitedMs = 0
  for (let second = 0; second < 125; second += 5) {
    clock.set(startMs + second * 1_000)
    if (second % 10 === 0) await pay(accountNumber)
    await instance.job.run()
    const { rows } = await db.database.durablePool.query<{ oldest_ms: number | null }>(
      `select round(date_part('epoch', min(created_at)) * 1000) as oldest_ms from transaction t
        where business_id = $1 and not exists (select from ledger_posting p
          where p.transaction_id = t.id and p.kind = 'settlement')`,
      [id],
    )
    waitedMs = Math.max(waitedMs, clock.now() - (rows[0]?.oldest_ms ?? clock.now()))
  }
  const settlements = await settlementsOf(id)
  expect(settlements.map((each) => each.started_at_ms - startMs)).toEqual([0, 60_000, 120_000])
  expect(waitedMs).toBeLessThan(60_000)
  expect(
    await db.database.durablePool.query('select from outbox where business_id = $1', [id]),
  ).toMatchObject({ rowCount: 13 + settlements.length })
})

test('a balance that failed any number of times is postponed by 5 s to 10 min', async () => {
  const { id: businessId } = await insertBusiness(instance.durablePool)
  const waits: number[] = []
  for (const failures of [0, 1, 6, 7, 30, 2 ** 31 - 2]) {
    await tamper(
      instance.durablePool,
      `insert into settlement_due values ($1, true, now(), now(), $2)
        on conflict (business_id, live) do update set failures = $2`,
      [businessId, failures],
    )
    await postponeDue(instance.durablePool, { businessId, live: true }, clock.now())
    waits.push((await dueOf(businessId)).next_at_ms - clock.now())
  }
  expect(waits).toEqual([5_000, 10_000, 320_000, 600_000, 600_000, 600_000])
})

test('a balance whose instance died is settled half a minute later', async () => {
  const { id, accountNumber } = await insertBusiness(instance.durablePool)
  await instance.setTerms(id, INSTANT)
  await pay(accountNumber)
  await followPayments(instance)
  const claimed = await claimDue(instance.durablePool, clock.now())
  expect(claimed).toContainEqual({ businessId: id, live: true })
  clock.set(clock.now() + 30_000 - 1)
  await instance.job.run()
  expect(await pendingOf(id)).toBe(100n)
  clock.set(clock.now() + 1)
  await instance.job.run()
  expect(await pendingOf(id)).toBe(0n)
})

describe('nothing is lost', () => {
  test('if the index loses rows: a sweep repairs it every hour, and logs what it found', async () => {
    const businesses = [
      await insertBusiness(instance.durablePool),
      await insertBusiness(instance.durablePool),
    ]
    for (const { id, accountNumber } of businesses) {
      await instance.setTerms(id)
      await pay(accountNumber)
    }
    await instance.job.run()
    const [missing = '', late = ''] = businesses.map(({ id }) => id)
    const before = [await dueOf(missing), await dueOf(late)]
    await instance.durablePool.query('delete from settlement_due where business_id = $1', [missing])
    await instance.durablePool.query(
      "update settlement_due set due_at = due_at + interval '1 day' where business_id = $1",
      [late],
    )
    clock.set(clock.now() + HOUR_MS / 2)
    await instance.job.run()
    expect(await dueOf(missing)).toBeUndefined()
    clock.set(clock.now() + HOUR_MS / 2)
    await instance.job.run()
    for (const [at, id] of [missing, late].entries()) {
      expect(await dueOf(id)).toMatchObject({ due_at_ms: before[at].due_at_ms })
    }
    expect(logged).toHaveLength(1)
    expect(logged[0]).toMatchObject({ level: 50 })
    const balances = logged[0]?.['balances'] as string[]
    expect(balances.sort()).toEqual([`live ${missing}`, `live ${late}`].sort())
    clock.set(clock.now() + HOUR_MS)
    await instance.job.run()
    expect(logged).toHaveLength(1)
  })

  test('if events are deleted before they were read', async () => {
    const { id, accountNumber } = await insertBusiness(instance.durablePool)
    await pay(accountNumber)
    await tamper(
      db.database.durablePool,
      'insert into archived_entry select * from money_event where business_id = $1',
      [id],
    )
    await tamper(db.database.durablePool, 'delete from event_log where business_id = $1', [id])
    const other = await insertBusiness(instance.durablePool)
    await pay(other.accountNumber)
    await instance.job.run()
    expect(await dueOf(other.id)).toBeDefined()
    expect(await dueOf(id)).toMatchObject({ due_at_ms: await settlesAt(id, clock.now()) })
  })

  test('in a failover or a restore: payments that are numbered in the next epoch', async () => {
    const { durablePool } = db.database
    const begins = {
      'a standby is promoted': () => beginTimeline(durablePool),
      'another cluster': () => durablePool.query('select new_epoch from bump_event_epoch()'),
    }
    for (const [name, begin] of Object.entries(begins)) {
      const known = await insertBusiness(durablePool)
      await pay(known.accountNumber)
      await followPayments(instance)
      const { id, accountNumber } = await insertBusiness(durablePool)
      await instance.recordPayment(incoming(accountNumber, `before ${name}`, 100n))
      await begin()
      await sequence(durablePool)
      // A row that did not survive, of a payment that was numbered before.
      await durablePool.query('delete from settlement_due where business_id = $1', [known.id])
      await instance.job.run()
      expect(await dueOf(id), name).toBeDefined()
      expect(await dueOf(known.id), name).toBeDefined()
    }
  })

  test('if the log is shorter than what was read of it', async () => {
    const { durablePool } = db.database
    await publishEvents(durablePool, 5)
    await followPayments(instance)
    await durablePool.query(
      "update log_follower set position = position + 100 where name = 'settlement'",
    )
    await beginTimeline(durablePool)
    const { id, accountNumber } = await insertBusiness(durablePool)
    await pay(accountNumber)
    await instance.job.run()
    expect(await dueOf(id)).toBeDefined()
  })
})

test('the settlement lag is that of the live balance which has been due for longest', async () => {
  const { durablePool } = db.database
  const lag = async () => {
    const metrics = new Registry()
    registerSettlementMetrics(createTestRuntime(db.database, { clock, metrics }))
    const [, seconds] = /^inflow_settlement_lag_seconds (\S+)$/m.exec(await metrics.metrics()) ?? []
    return seconds
  }
  const due = (businessId: string, live: boolean, secondsAgo: number) =>
    durablePool.query('insert into settlement_due values ($1, $2, $3, $3, 0)', [
      businessId,
      live,
      new Date(clock.now() - secondsAgo * 1_000),
    ])
  await durablePool.query('delete from settlement_due')
  await due('biz_later', true, -60)
  await due('biz_test', false, 900)
  expect(await lag()).toBe('0')
  await due('biz_a', true, 30)
  await due('biz_b', true, 45)
  expect(await lag()).toBe('45')
})
