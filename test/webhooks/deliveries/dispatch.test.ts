import fc from 'fast-check'
import pg, { type Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import {
  deleteSupersededPositions,
  dispatchedUpTo,
} from '../../../src/webhooks/deliveries/backlog.ts'
import { publishEvents, sequence } from '../../support/events.ts'
import { explain } from '../../support/explained-client.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { accountEvent, dispatchNow, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const dispatch = (pool: Pool, eventsMax: number, recentFrom = 0n) =>
  dispatchNow(pool, { eventsMax, recentFrom })

const TICKS = 2_000

/** Pages that the index may gain meanwhile. */
const BUFFERS_MARGIN = 4

/** Dispatches one event. */
const tick = (pool: Pool) => dispatch(pool, 1)

/** @returns the most pages that a part of the statement reads to find or move the position */
async function buffersOfTick(): Promise<number> {
  const nodes = await explain(harness.url, async (pool) => {
    expect(await tick(pool)).toMatchObject({ events: 1 })
  })
  const buffers = nodes
    .filter((node) => node['Relation Name'] === 'webhook_dispatcher')
    .map((node) => node['Shared Hit Blocks'] + node['Shared Read Blocks'])
  // Without both parts, reading and moving, it would prove nothing.
  expect(buffers.length).toBeGreaterThanOrEqual(2)
  return Math.max(...buffers)
}

test('a snapshot that stays open does not make the position of the dispatcher more expensive', async () => {
  const { durablePool, relaxedPool } = harness.database
  await publishEvents(durablePool, TICKS + 3)
  // With these statistics the planner prefers to scan the table.
  await durablePool.query('vacuum analyze webhook_dispatcher')
  const reader = await durablePool.connect()
  try {
    await reader.query('begin isolation level repeatable read')
    await reader.query('select from webhook_dispatcher')
    const before = await buffersOfTick()
    for (let i = 0; i < TICKS; i++) expect(await tick(relaxedPool)).toMatchObject({ events: 1 })
    expect(await buffersOfTick()).toBeLessThanOrEqual(before + BUFFERS_MARGIN)

    const last = await dispatchedUpTo(durablePool)
    await deleteSupersededPositions(durablePool)
    const { rows } = await durablePool.query('select position from webhook_dispatcher')
    expect(rows).toEqual([{ position: `${last}` }])
    expect(await buffersOfTick()).toBeLessThanOrEqual(before + BUFFERS_MARGIN)
    await reader.query('commit')
  } finally {
    reader.release(true)
  }
})

test('previous_sequence chains the deliveries of any endpoints, however the events are dispatched', async () => {
  const { durablePool } = harness.database
  const business = await harness.business()
  const webhooks = harness.idle()
  const names = ['PAYMENT_NOTIFICATION', 'ACCOUNT_CREATED']
  const endpoints = await Promise.all(
    [[], names, ...names.map((name) => [name])].map((kinds) =>
      addEndpoint(webhooks, business, 'http://127.0.0.1:9', { kinds }),
    ),
  )
  const step = fc.record({
    events: fc.array(fc.constantFrom(paymentEvent, accountEvent), { maxLength: 7 }),
    // Where to look first changes the cost, and nothing else.
    recentFrom: fc.constantFrom(0n, 5n, 20n, 1_000_000n),
    changed: fc.nat(endpoints.length - 1),
    kinds: fc.subarray(names),
  })
  await fc.assert(
    fc.asyncProperty(step, async ({ events, recentFrom, changed, kinds }) => {
      await harness.publish(...events.map((make) => make(business)))
      while ((await dispatch(durablePool, 3, recentFrom)).events > 0);
      const change = kinds.length > 0 ? { kinds } : { allKinds: true }
      const endpointId = endpoints[changed]!.id
      await clientOf(webhooks).updateEndpoint({ endpointId, ...change })
    }),
    { numRuns: 25 },
  )
  const { rows } = await durablePool.query(
    `select sequence, previous_sequence, business_sequence,
        lag(sequence, 1, 0::bigint) over (partition by endpoint_id order by position) as expected
      from webhook_delivery join event_log using (position)`,
  )
  expect(rows.length).toBeGreaterThan(20)
  expect(rows.filter((row) => row.previous_sequence !== row.expected)).toEqual([])
  expect(rows.filter((row) => row.sequence !== row.business_sequence)).toEqual([])
})

const EVENTS = 100_000

/** PostgreSQL decides after five whether it plans a statement for each of its values. */
const TURNS = 20

test('the statement that creates deliveries is planned once, also on a long log', async () => {
  const { durablePool } = harness.database
  await durablePool.query(
    `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
      select 'evt_' || n, 'biz_test', true, 'ACCOUNT_CREATED', now(), '' from generate_series(1, $1::int) n`,
    [EVENTS],
  )
  await sequence(durablePool)
  await durablePool.query('insert into webhook_dispatcher select position from sequencer')
  await durablePool.query('analyze')
  const one = new pg.Pool({ connectionString: harness.url, max: 1 })
  onTestFinished(() => one.end())
  for (let turn = 0; turn < TURNS; turn++) {
    await publishEvents(durablePool, 1)
    expect(await dispatch(one, 1_000)).toMatchObject({ events: 1 })
  }
  const { rows } = await one.query(
    "select generic_plans::int as kept from pg_prepared_statements where name ~ '^webhook-dispatch'",
  )
  expect(rows).toHaveLength(1)
  expect(rows[0].kept).toBeGreaterThan(TURNS / 2)
})

test('an instance that stands still before its commit delays the others for seconds', async () => {
  const { durablePool } = harness.database
  await publishEvents(durablePool, 1)
  const before = await dispatchedUpTo(durablePool)
  // Its host does not respond any more: the connection stays, and sends nothing.
  const frozen = await durablePool.connect()
  const committing = Promise.withResolvers<void>()
  const still = {
    async connect() {
      const query = (text: unknown) => {
        if (text !== 'commit') return frozen.query(text as string)
        committing.resolve()
        return new Promise(() => undefined)
      }
      return { query, release: () => undefined }
    },
  } as unknown as Pool
  onTestFinished(() => frozen.release(true))
  frozen.on('error', () => undefined)
  void tick(still)
  await committing.promise
  const { rows } = await frozen.query('show idle_in_transaction_session_timeout')
  expect(rows).toEqual([{ idle_in_transaction_session_timeout: '5s' }])
  await waitUntil(async () => (await tick(durablePool)).events === 1)
  expect(await dispatchedUpTo(durablePool)).toBeGreaterThan(before)
})
