import { beforeAll, expect, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { raiseFloor } from '../../src/events/retention.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'

const db = useDatabase(2)

const sql = (text: string, values: unknown[] = []) => db.database.durablePool.query(text, values)

/** Expects SQLSTATE class 23: the database itself rejects the statement. */
const refuses = (text: string, values: unknown[] = []) =>
  expect(sql(text, values), text).rejects.toMatchObject({ code: expect.stringMatching(/^23/) })

beforeAll(async () => {
  await writeEvents(db.database.durablePool, 3, { kind: 'PAYMENT_NOTIFICATION' })
  await sequence(db.database.durablePool)
})

test('the database refuses to change any column of an event, and to delete one', async () => {
  const { rows } = await sql(
    `select table_name, column_name from information_schema.columns
      where table_name in ('outbox', 'event_log') and is_identity = 'NO'`,
  )
  expect(rows.length).toBeGreaterThan(15)
  for (const { table_name, column_name } of rows) {
    await refuses(`update ${table_name} set ${column_name} = ${column_name}`)
  }
  await refuses('truncate outbox')
  await refuses('truncate event_log')
  await refuses('delete from outbox')
  await refuses('delete from event_log')
})

test('readers never get again what has expired, whichever instance is late', async () => {
  const { durablePool } = db.database
  await raiseFloor(durablePool, 2n)
  await raiseFloor(durablePool, 1n)
  expect((await readLogState(durablePool)).floor).toBe(2n)
})
