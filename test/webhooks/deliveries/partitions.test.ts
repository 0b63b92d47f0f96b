import type { Pool } from 'pg'
import { expect, test } from 'vitest'
import { createPendingFrom } from '../../../src/webhooks/deliveries/backlog.ts'
import {
  claimDeliveries,
  listPendingEndpoints,
  releaseClaims,
} from '../../../src/webhooks/deliveries/claim-deliveries.ts'
import { completeAttempts } from '../../../src/webhooks/deliveries/record-attempt.ts'
import type { PlanNode } from '../../postgres/explained-database.ts'
import { explain } from '../../support/explained-client.ts'
import { useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const PARTITIONS = 10
const WIDTH = 2_000
const ENDPOINTS = 20
const PENDING = 100

/** Ten partitions of deliveries; the latest hundred are pending, and of one endpoint one old one. */
async function seed(from: bigint, oldPending: boolean): Promise<void> {
  const { durablePool } = harness.database
  await durablePool.query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
        after_position, created_at)
      select 'ep_' || n, $1, true, 'https://example.com', '{}', '', 10, 0, now()
      from generate_series(1, ${ENDPOINTS}) n`,
    [await harness.business()],
  )
  await durablePool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
        created_at, completed_at, started_at, latency_ms, status, response_body, error)
      select 'dlv_' || lpad(n::text, 26, '0'), 'ep_' || 1 + n % ${ENDPOINTS}, $1 + n,
        case when pending then 'PENDING' else 'DELIVERED' end, 1, now(), 1, now(),
        case when not pending then now() end, now(), 5, 204, '', ''
      from generate_series(1, ${PARTITIONS * WIDTH}) n
        cross join lateral (select n > ${PARTITIONS * WIDTH - PENDING} or n = 1 and $2 as pending) p`,
    [from, oldPending],
  )
  await durablePool.query('vacuum analyze webhook_delivery')
}

const opened = (nodes: readonly PlanNode[]) =>
  nodes
    .filter((node) => node['Relation Name']?.startsWith('webhook_delivery'))
    .filter((node) => node['Actual Loops'] > 0)

/** After this many calls a prepared statement has its final, generic plan. */
const REPEATS = 7

/** Claims a delivery of each endpoint; half of them fail and are due again, the others are released. */
async function takeTurn(pool: Pool, nowMs: number, pendingFrom: bigint): Promise<number> {
  const terms = { nowMs, pendingFrom }
  const page = await listPendingEndpoints(pool, { ...terms, after: '', limit: 256 })
  const allotments = page.map(({ id }) => ({ endpointId: id, share: 1 }))
  // Their events do not exist, so they are returned as lost.
  const { lost } = await claimDeliveries(pool, allotments, { ...terms, leaseMs: 60_000 })
  const half = lost.length / 2
  const failed = { error: 'x', state: 'PENDING' as const, atMs: nowMs, startedAtMs: nowMs }
  const response = { latencyMs: 5, status: 500, responseBody: '' }
  await completeAttempts(
    pool,
    lost.slice(0, half).map((claim) => ({ ...claim, ...failed, ...response })),
  )
  await releaseClaims(pool, lost.slice(half))
  return lost.length
}

test.each([
  ['the last alone', false, 1],
  ['the first and the last', true, PARTITIONS],
])(
  'over ten partitions, claiming and completing look up keys in those with pending deliveries: %s',
  async (_name, oldPending, partitions) => {
    const { durablePool } = harness.database
    await harness.cut()
    const from = (await harness.lastPosition()) + 1n
    for (let i = 1; i < PARTITIONS; i++) await harness.cut(BigInt(i * WIDTH))
    await seed(from, oldPending)
    const pendingFrom = await createPendingFrom(durablePool, 0)(Date.now())
    expect(pendingFrom).toBe(oldPending ? from : from + BigInt((PARTITIONS - 1) * WIDTH))
    const nowMs = Date.now()
    const nodes = await explain(harness.url, async (one) => {
      for (let i = 0; i < REPEATS; i++)
        expect(await takeTurn(one, nowMs + i, pendingFrom)).toBe(ENDPOINTS)
    })
    const scans = opened(nodes).filter((node) => node['Node Type'] !== 'ModifyTable')
    expect(scans.filter((node) => !/^Index/.test(node['Node Type']))).toEqual([])
    expect(new Set(scans.map((node) => node['Relation Name'])).size).toBe(partitions)
  },
)
