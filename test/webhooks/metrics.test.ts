import { expect, test } from 'vitest'
import { newId } from '../../src/core/ids.ts'
import { type PendingDeliveries, readPending } from '../../src/webhooks/backlog-metrics.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { addBusiness } from './fixture.ts'

const db = useDatabase()

interface TestEndpoint {
  readonly live?: boolean
  readonly failing?: boolean
  readonly disabled?: boolean
  /** Its pending deliveries: for how many seconds each has existed and has been due; negative: it will be. */
  readonly pending: readonly (readonly [ageSeconds: number, dueSeconds: number])[]
}

let position = 0

async function addEndpoint(endpoint: TestEndpoint): Promise<void> {
  const { live = true, failing = false, disabled = false, pending } = endpoint
  const { durablePool } = db.database
  const businessId = await addBusiness(db.database)
  const id = newId('ep', Date.now())
  await tamper(
    durablePool,
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency, after_position,
        created_at, failing_since, disabled_at, disabled_reason)
      values ($1, $2, $3, 'https://example.com/', '{}', '', 10, 0, now(),
        case when $4 then now() end, case when $5 then now() end, case when $5 then 'FAILING' end)`,
    [id, businessId, live, failing, disabled],
  )
  for (const [ageSeconds, dueSeconds] of pending) {
    position += 1
    await tamper(
      durablePool,
      `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims, created_at)
        values ($1, $2, $3, 'PENDING', 0, now() - make_interval(secs => $5), 0, now() - make_interval(secs => $4))`,
      [newId('dlv', Date.now()), id, position, ageSeconds, dueSeconds],
    )
  }
}

const rounded = (rows: readonly PendingDeliveries[]) =>
  rows
    .map(({ oldestSeconds, dueSeconds, ...rest }) => ({
      ...rest,
      // Inserted a moment ago.
      oldest: Math.round(oldestSeconds / 100),
      due: Math.round(dueSeconds / 100),
    }))
    .toSorted((a, b) => a.state.localeCompare(b.state) || Number(a.live) - Number(b.live))

test('pending deliveries are counted by the state of their endpoints, and their ages found', async () => {
  const { durablePool } = db.database
  expect(await readPending(durablePool, 0n)).toEqual([])
  await addEndpoint({
    pending: [
      [1_000, 500],
      [300, -600],
    ],
  })
  await addEndpoint({ pending: [[4_000, 200]] })
  await addEndpoint({ live: false, pending: [[100, 100]] })
  await addEndpoint({ failing: true, pending: [[90_000, -3_000]] })
  await addEndpoint({ disabled: true, pending: [[200_000, 100_000]] })
  const all = [
    { state: 'disabled', live: true, deliveries: 1, oldest: 2_000, due: 1_000 },
    { state: 'enabled', live: false, deliveries: 1, oldest: 1, due: 1 },
    { state: 'enabled', live: true, deliveries: 3, oldest: 40, due: 5 },
    { state: 'failing', live: true, deliveries: 1, oldest: 900, due: 0 },
  ]
  expect(rounded(await readPending(durablePool, 0n))).toEqual(all)
  // Each of the five endpoints has its share, those that are due first.
  const bounded = await readPending(durablePool, 0n, { endpointsMax: 10, deliveriesMax: 5 })
  expect(rounded(bounded)).toEqual(
    all.map((row) => (row.deliveries === 3 ? { ...row, deliveries: 2 } : row)),
  )
  const first = await readPending(durablePool, 0n, { endpointsMax: 1, deliveriesMax: 5 })
  expect(rounded(first)).toEqual([
    { state: 'enabled', live: true, deliveries: 2, oldest: 10, due: 5 },
  ])
  // An attempt of the first one is in progress, that of the third was cut.
  const lease = (at: number, seconds: number) =>
    tamper(
      durablePool,
      'update webhook_delivery set leased_until = now() + make_interval(secs => $2) where position = $1',
      [at, seconds],
    )
  await lease(1, 60)
  await lease(3, -60)
  const live = await readPending(durablePool, 0n)
  expect(rounded(live).find(({ state, live }) => state === 'enabled' && live)).toMatchObject({
    deliveries: 3,
    due: 2,
  })
})
