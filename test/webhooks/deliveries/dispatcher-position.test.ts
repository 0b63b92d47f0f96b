import type { Pool } from 'pg'
import { expect, test } from 'vitest'
import {
  deleteSupersededPositions,
  dispatchedUpTo,
} from '../../../src/webhooks/deliveries/backlog.ts'
import { dispatchEvents } from '../../../src/webhooks/dispatch.ts'
import { nodesOf } from '../../postgres/explained-database.ts'
import { useDatabase } from '../../support/database.ts'
import { sequence, writeEvents } from '../../support/events.ts'
import { explain } from '../../support/explained-client.ts'

const TICKS = 2_000

/** Pages that the index may gain meanwhile. */
const BUFFERS_MARGIN = 4

const db = useDatabase()

/** Dispatches one event. */
const tick = (pool: Pool) =>
  dispatchEvents(pool, {
    ...{ idPrefix: 'dlv_0000000000', nowMs: Date.now(), eventsMax: 1, leaseMs: 60_000 },
    ...{ allotments: [], pausedBeforeMs: 0, recentFrom: 0n },
  })

/** @returns the most pages that a part of the statement reads to find or move the position */
async function buffersOfTick(): Promise<number> {
  const plans = await explain(db.url, async (pool) => {
    expect(await tick(pool)).toMatchObject({ events: 1 })
  })
  const buffers = plans
    .flatMap((plan) => [...nodesOf(plan)])
    .filter((node) => node['Relation Name'] === 'webhook_dispatcher')
    .map((node) => node['Shared Hit Blocks'] + node['Shared Read Blocks'])
  // Without both parts, reading and moving, it would prove nothing.
  expect(buffers.length).toBeGreaterThanOrEqual(2)
  return Math.max(...buffers)
}

test('a snapshot that stays open does not make the position of the dispatcher more expensive', async () => {
  const { durablePool, relaxedPool } = db.database
  await writeEvents(durablePool, TICKS + 3)
  await sequence(durablePool)
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
