import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { dispatchEvents } from '../../../src/webhooks/dispatch.ts'
import { useDatabase } from '../../support/database.ts'
import { sequence, writeEvents } from '../../support/events.ts'

const EVENTS = 100_000

/** PostgreSQL decides after five whether it plans a statement for each of its values. */
const TURNS = 20

const db = useDatabase()

test('the statement that creates deliveries is planned once, also on a long log', async () => {
  const { durablePool } = db.database
  await durablePool.query(
    `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
      select 'evt_' || n, 'biz_test', true, 'ACCOUNT_CREATED', now(), '' from generate_series(1, $1::int) n`,
    [EVENTS],
  )
  await sequence(durablePool)
  await durablePool.query('insert into webhook_dispatcher select position from sequencer')
  await durablePool.query('analyze')
  const one = new pg.Pool({ connectionString: db.url, max: 1 })
  onTestFinished(() => one.end())
  for (let turn = 0; turn < TURNS; turn++) {
    await writeEvents(durablePool, 1)
    await sequence(durablePool)
    const dispatched = await dispatchEvents(one, {
      ...{ idPrefix: 'dlv_0000000000', nowMs: Date.now(), eventsMax: 1_000, leaseMs: 60_000 },
      ...{ allotments: [], pausedBeforeMs: 0, recentFrom: 0n },
    })
    expect(dispatched.events).toBe(1)
  }
  const { rows } = await one.query(
    "select generic_plans::int as kept from pg_prepared_statements where name ~ '^webhook-dispatch'",
  )
  expect(rows).toHaveLength(1)
  expect(rows[0].kept).toBeGreaterThan(TURNS / 2)
})
