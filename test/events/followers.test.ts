import pg, { type Pool } from 'pg'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { checkEvents } from '../../src/doctor/check-events.ts'
import { followPayments as followFigures } from '../../src/overview/figures-job.ts'
import { followPayments as followDue } from '../../src/settlement/sweep-due.ts'
import { insertBusiness, payAt } from '../settlement/fixture.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { rowsRead } from '../support/rows-read.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase(6)
const { log, lines } = captureLog()

/** Each follower, and what the database refuses of it about a business in a test. */
const FOLLOWERS = {
  figures: {
    follow: (pool: Pool) => followFigures(createTestRuntime({ durablePool: pool }, { log })),
    table: 'payment_hour',
    what: 'the hourly figures of payments',
  },
  settlement: {
    follow: (pool: Pool) => followDue(createTestRuntime({ durablePool: pool }, { log })),
    table: 'settlement_due',
    what: 'the balances due for settlement',
  },
}

/** The tables that grow with payments. */
const GROWING = [
  'event_log_rest',
  'outbox_rest',
  'transaction_rest',
  'ledger_posting_rest',
  'payment_hour',
  'settlement_due',
]

let account: string

beforeEach(async () => {
  const { durablePool } = db.database
  account = (await insertBusiness(durablePool)).accountNumber
  for (const { follow } of Object.values(FOLLOWERS)) await follow(durablePool)
  lines.length = 0
})

const pay = (count: number, accountNumber = account, atMs = Date.now()) =>
  payAt(db.database.durablePool, accountNumber, count, atMs)

async function findingsAbout(what: string): Promise<readonly string[]> {
  const findings = await checkEvents(db.database.durablePool, 30)
  return findings
    .filter(({ found }) => found.startsWith(what))
    .map(({ level, found }) => `${level}: ${found}`)
}

describe('a follower', () => {
  const name = 'figures'
  const { follow, table, what } = FOLLOWERS[name]

  test('sets aside the events that the database refuses, and continues with the others', async () => {
    const { durablePool } = db.database
    const [bad, good] = [await insertBusiness(durablePool), await insertBusiness(durablePool)]
    for (const { accountNumber } of [good, bad, good, bad, bad]) await pay(5, accountNumber)
    const last = await insertBusiness(durablePool)
    await pay(1, last.accountNumber)
    await durablePool.query(
      `alter table ${table} add constraint refused check (business_id <> '${bad.id}')`,
    )
    onTestFinished(
      async () => void (await durablePool.query(`alter table ${table} drop constraint refused`)),
    )
    while (!(await follow(durablePool)));
    const has = async (businessId: string) =>
      (await durablePool.query(`select from ${table} where business_id = $1`, [businessId]))
        .rowCount
    expect([await has(good.id), await has(bad.id), await has(last.id)]).toEqual([1, 0, 1])
    const [readTo] = (await durablePool.query('select position from sequencer')).rows
    const place = await durablePool.query(
      'select position, set_aside from log_follower where name = $1',
      [name],
    )
    expect(place.rows).toEqual([{ position: readTo.position, set_aside: '15' }])
    const aside = lines.filter(({ msg }) => String(msg).startsWith('event set aside'))
    expect(aside).toHaveLength(15)
    expect(aside[0]).toMatchObject({ level: 50, follower: name, err: { code: '23514' } })
    expect(await findingsAbout(what)).toEqual([
      `ok: ${what} contain every event of the log`,
      `warn: ${what} lack 15 events that the database refused`,
    ])
    await durablePool.query('update log_follower set set_aside = 0')
  })

  test('that stands still is a finding of the doctor', async () => {
    await pay(1, account, Date.now() - 3 * 86_400_000)
    expect(await findingsAbout(what)).toEqual([`fail: ${what} lack the events of the last 3 days`])
    await follow(db.database.durablePool)
    expect(await findingsAbout(what)).toEqual([`ok: ${what} contain every event of the log`])
  })

  test('follows up to the end of the log, and does not chase what arrives meanwhile', async () => {
    const { durablePool } = db.database
    await pay(3)
    let commits = 0
    const connect = async () => {
      const client = await durablePool.connect()
      const query = async (...args: [string]) => {
        if (args[0] === 'commit') {
          commits += 1
          await pay(1)
        }
        return client.query(...args)
      }
      return { query, on() {}, off() {}, release: () => client.release() }
    }
    const growing = { connect, query: durablePool.query.bind(durablePool) } as unknown as Pool
    expect(await follow(growing)).toBe(true)
    expect(commits).toBe(1)
  })
})

describe.each(Object.values(FOLLOWERS))(
  'on tables that were small, the follower into $table',
  ({ follow }) => {
    const small = useDatabase(6)

    test('keeps the plan of then, which reads no more once they are large', async () => {
      const { durablePool } = small.database
      const { accountNumber } = await insertBusiness(durablePool)
      const paid = (count: number) => payAt(durablePool, accountNumber, count, Date.now())
      const one = new pg.Pool({ connectionString: small.url, max: 1, idleTimeoutMillis: 0 })
      onTestFinished(() => one.end())
      await paid(20)
      await durablePool.query('analyze')
      for (let turn = 0; turn < 8; turn++) {
        await paid(1)
        await follow(one)
      }
      await paid(2_000)
      await follow(one)
      await paid(1)
      expect(await rowsRead(one, GROWING, follow)).toBeLessThan(20)
      const { rows } = await one.query(
        `select name from pg_prepared_statements where statement ~ 'with next as'
        and custom_plans = 0 and generic_plans > 5`,
      )
      expect(rows).toHaveLength(1)
    })
  },
)
