import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { addHoliday, removeHoliday } from '../../src/settlement/change-terms.ts'
import { computeDue } from '../../src/settlement/due-index.ts'
import { processNextBatch, startSettlement } from '../../src/settlement/runs/run-settlement.ts'
import type { BalanceKey } from '../../src/settlement/settlement.ts'
import { followPayments, sweepDue } from '../../src/settlement/sweep-due.ts'
import { readCalendar } from '../../src/settlement/terms.ts'
import { useDatabase } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'
import { createInstance, insertBusiness, payAt, testClock } from './fixture.ts'

const SCHEDULES = Number(process.env['DUE_SCHEDULES'] ?? 15)

// A Friday, midday in Lagos.
const NOW_MS = Date.UTC(2026, 10, 20, 11)
const HOLIDAYS = ['2026-11-19', '2026-11-20', '2026-11-23']

const db = useDatabase(4)
const clock = testClock(NOW_MS)

/** An instance that stops before each of its statements until the test lets it continue. */
interface Actor {
  readonly database: Database
  readonly instance: ReturnType<typeof createInstance>
  state: 'running' | 'waiting' | 'done'
  /** Continues, or dies. */
  release: (dies: boolean) => void
}

let actors: Actor[] = []
let watcher: pg.Client

beforeAll(async () => {
  watcher = new pg.Client({ connectionString: db.url })
  await watcher.connect()
  actors = await Promise.all(Array.from({ length: 4 }, openActor))
})

afterAll(async () => {
  // After a failure, some still wait.
  for (const actor of actors) actor.release(false)
  for (const actor of actors) actor.state = 'done'
  await Promise.all(actors.map(({ database }) => database.close()))
  await watcher?.end()
})

async function openActor(): Promise<Actor> {
  const database = await openDatabase(db.url, ENTITIES, { connectionsMax: 2 })
  const instance = createInstance(database, clock)
  const actor: Actor = { database, instance, state: 'done', release: () => undefined }
  database.durablePool.on('connect', (client) => stopBeforeStatements(actor, client))
  return actor
}

function stopBeforeStatements(actor: Actor, client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  const stop = async (args: readonly unknown[]): Promise<unknown> => {
    if (actor.state === 'running') {
      const dies = await new Promise<boolean>((resolve) => {
        actor.state = 'waiting'
        actor.release = (dies) => {
          actor.state = 'running'
          resolve(dies)
        }
      })
      // The server ends the connection, and with it the transaction, as when a process is killed.
      if (dies)
        await Promise.resolve(query('select pg_terminate_backend(pg_backend_pid())')).catch(
          () => {},
        )
    }
    return query(...args)
  }
  const stopping = (...args: unknown[]): unknown => {
    const done = args.at(-1)
    if (typeof done !== 'function') return stop(args)
    stop(args).catch((error) => done(error))
    return undefined
  }
  client.query = stopping as typeof client.query
}

const is = <Kind extends string>(kind: Kind) => fc.constant(kind)
const which = fc.nat({ max: 1 })
const daysAgo = fc.nat({ max: 3 })
const day = fc.constantFrom(...HOLIDAYS)
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: is('pay'), which, daysAgo }) },
  { weight: 4, arbitrary: fc.record({ kind: is('settle'), which }) },
  { weight: 2, arbitrary: fc.record({ kind: is('terms'), which, days: fc.nat({ max: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: is('holiday'), day, add: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ kind: is('follow') }) },
)
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never

const plan = fc.record({
  steps: fc.array(fc.array(step, { maxLength: 3 }), { minLength: 4, maxLength: 4 }),
  /** Which of the waiting actors continues, and for how many statements. */
  order: fc.infiniteStream(
    fc.record({ actor: fc.nat({ max: 3 }), statements: fc.integer({ min: 1, max: 20 }) }),
  ),
  /** The statement at which an actor dies, if it comes to that. */
  deathAt: fc.option(fc.nat({ max: 60 })),
})

/** What every schedule has: a payment and the follower come to a settlement. */
const ALWAYS: readonly (readonly Step[])[] = [
  [{ kind: 'settle', which: 0 }],
  [{ kind: 'pay', which: 0, daysAgo: 0 }, { kind: 'follow' }],
]

type Business = Awaited<ReturnType<typeof insertBusiness>>

let businesses: Business[]

beforeEach(async () => {
  // The first sweep, of an empty index.
  await sweepDue(createInstance(db.database, clock))
})

test('no balance leaves the index of what is due, however its writers interleave', async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ steps, order, deathAt }) => {
      businesses = [
        await insertBusiness(db.database.durablePool),
        await insertBusiness(db.database.durablePool),
      ]
      await payAt(db.database.durablePool, businesses[0]!.accountNumber, 1, NOW_MS - 4 * DAY_MS)
      await followPayments(createInstance(db.database, clock))
      const changesHolidays = steps.flat().some(({ kind }) => kind === 'holiday')
      await interleave(steps, order, deathAt)
      await expectComplete(changesHolidays)
    }),
    { numRuns: SCHEDULES, endOnFailure: true },
  )
})

async function interleave(
  steps: readonly (readonly Step[])[],
  order: Iterator<{ readonly actor: number; readonly statements: number }>,
  deathAt: number | null,
): Promise<void> {
  const ended = Promise.all(
    actors.map((actor, at) => runSteps(actor, [...(ALWAYS[at] ?? []), ...(steps[at] ?? [])])),
  )
  // Awaited at the end; until then it would be unhandled.
  ended.catch(() => undefined)
  let chosen: Actor | undefined
  for (let statement = 0, left = 0; ; statement++, left--) {
    await untilQuiet()
    const waiting = actors.filter(({ state }) => state === 'waiting')
    if (waiting.length === 0) break
    if (left <= 0 || chosen?.state !== 'waiting') {
      const next = order.next().value
      chosen = waiting[next.actor % waiting.length]
      left = next.statements
    }
    chosen?.release(statement === deathAt)
  }
  await ended
}

async function runSteps(actor: Actor, steps: readonly Step[]): Promise<void> {
  actor.state = 'running'
  try {
    for (const each of steps) {
      // Its transaction is rolled back; the next step begins again, as another process would.
      await take(actor, each).catch(expectDeath)
    }
  } finally {
    // A step that fails can leave a statement behind that it began beside the one that failed.
    actor.release(false)
    actor.state = 'done'
  }
}

/** Waits until every actor stops before a statement, waits for a lock, or is done. */
async function untilQuiet(): Promise<void> {
  for (;;) {
    const running = actors.filter(({ state }) => state === 'running').length
    if (running === 0) return
    const { rows } = await watcher.query<{ blocked: number }>(
      `select count(distinct pid)::int as blocked from pg_locks
        where not granted and pid in (select pid from pg_stat_activity
          where datname = current_database())`,
    )
    const stillRunning = actors.filter(({ state }) => state === 'running').length
    const someWait = actors.some(({ state }) => state === 'waiting')
    if (someWait && running === stillRunning && rows[0]?.blocked === running) return
    await setImmediate()
  }
}

/** Of a connection that was ended, or that a busy machine did not open in time. */
function expectDeath(error: Error): void {
  expect(error.message).toMatch(/terminat|is not queryable|not usable|connect|timeout/i)
}

async function take({ database, instance }: Actor, next: Step): Promise<void> {
  const business = businesses['which' in next ? next.which : 0]!
  switch (next.kind) {
    case 'pay':
      return void (await payAt(
        database.durablePool,
        business.accountNumber,
        1,
        NOW_MS - next.daysAgo * DAY_MS,
      ))
    case 'follow':
      return void (await followPayments(instance))
    case 'settle':
      return settleDue(instance, business.id)
    case 'terms':
      return changeTerms(instance, business.id, next.days)
    case 'holiday':
      return changeHoliday(instance, next.day, next.add)
  }
}

async function settleDue(instance: Actor['instance'], businessId: string): Promise<void> {
  const { terms, calendar } = await readCalendar(instance.durablePool, businessId)
  const cutOffAtMs = calendar.cutOffAt(NOW_MS)
  const input = { ...terms, businessId, live: true, requestId: undefined, forced: false }
  const started = await startSettlement(instance, { ...input, cutOffAtMs })
  while (started && (await processNextBatch(instance, started.id)) === 'running');
}

/** @param days 0: immediately; 1: daily; more: working days */
async function changeTerms(instance: Actor['instance'], businessId: string, days: number) {
  const schedule = days === 0 ? 'INSTANT' : days === 1 ? 'DAILY' : 'WORKING_DAYS'
  const workingDays = days > 1 ? days - 1 : 0
  await instance.setTerms(businessId, { schedule, workingDays })
}

async function changeHoliday({ database }: Actor['instance'], day: string, add: boolean) {
  if (add) await addHoliday(database.orm, { day, name: 'A day off' }, SYSTEM)
  else {
    await removeHoliday(database.orm, day, SYSTEM).catch((error) => {
      if (error.reason !== 'not_found') throw error
    })
  }
}

/** Every balance with unsettled payments is in the index, and not due too late. */
async function expectComplete(changesHolidays: boolean): Promise<void> {
  const { durablePool } = db.database
  const instance = createInstance(db.database, clock)
  // An instance that died leaves its settlement to others.
  const { rows: running } = await durablePool.query(
    "select id from settlement where status = 'RUNNING'",
  )
  for (const { id } of running) while ((await processNextBatch(instance, id)) === 'running');
  await followPayments(instance)
  // Only a holiday needs the sweep, which it has requested.
  if (changesHolidays) await sweepDue(instance)
  const keys = businesses.map(({ id }): BalanceKey => ({ businessId: id, live: true }))
  const due = await computeDue(durablePool, keys)
  const { rows } = await durablePool.query<{ business_id: string; due_at_ms: number }>(
    `select business_id, round(date_part('epoch', due_at) * 1000) as due_at_ms from settlement_due
      where business_id = any ($1)`,
    [keys.map(({ businessId }) => businessId)],
  )
  const listed = new Map(rows.map((row) => [row.business_id, row.due_at_ms]))
  const lost = due.filter(({ businessId, dueAtMs }) => !(listed.get(businessId)! <= dueAtMs))
  expect(lost.map((each) => ({ ...each, listed: listed.get(each.businessId) }))).toEqual([])
}
