import { expect, test } from 'vitest'
import { readBusinessLog } from '../../src/events/read-log.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'

const db = useDatabase()

const PAID = 'PAYMENT_NOTIFICATION'

/** Reads all pages. @returns the sequences, and how many pages there were */
async function readAll(businessId: string, kinds: readonly string[], limit: number) {
  const found: bigint[] = []
  let after = 0n
  for (let pages = 1; ; pages++) {
    const query = { businessId, live: true, after, kinds, limit }
    const { entries, hasMore, nextAfter } = await readBusinessLog(db.database.durablePool, query)
    found.push(...entries.map((entry) => entry.businessSequence))
    expect(entries.length).toBeLessThanOrEqual(limit)
    if (!hasMore) return { found, pages }
    expect(nextAfter).toBeGreaterThan(after)
    after = nextAfter
  }
}

test('lists the events of some kinds, and says whether more follow', async () => {
  const { durablePool } = db.database
  const businessId = 'biz_kinds'
  for (const kind of [PAID, 'ACCOUNT_CREATED', PAID, 'ACCOUNT_CLOSED', PAID]) {
    await writeEvents(durablePool, 1, { businessId, kind })
  }
  await sequence(durablePool)
  expect(await readAll(businessId, [PAID], 100)).toEqual({ found: [1n, 3n, 5n], pages: 1 })
  expect(await readAll(businessId, [PAID], 2)).toEqual({ found: [1n, 3n, 5n], pages: 2 })
  expect(await readAll(businessId, [PAID, 'ACCOUNT_CLOSED'], 4)).toEqual({
    found: [1n, 3n, 4n, 5n],
    pages: 1,
  })
  expect(await readAll(businessId, [], 5)).toEqual({ found: [1n, 2n, 3n, 4n, 5n], pages: 1 })
  expect(await readAll(businessId, ['ENDPOINT_TEST'], 1)).toEqual({ found: [], pages: 1 })
})

test('lists the newest first, from any sequence down', async () => {
  const { durablePool } = db.database
  const businessId = 'biz_newest'
  for (const kind of [PAID, 'ACCOUNT_CREATED', PAID, 'ACCOUNT_CLOSED', PAID]) {
    await writeEvents(durablePool, 1, { businessId, kind })
  }
  await sequence(durablePool)
  const read = async (before: bigint, kinds: readonly string[], limit: number) => {
    const query = { businessId, live: true, before, kinds, limit }
    const { entries, ...page } = await readBusinessLog(durablePool, query)
    return { found: entries.map((entry) => entry.businessSequence), ...page }
  }
  expect(await read(0n, [], 2)).toEqual({ found: [5n, 4n], hasMore: true, nextAfter: 4n })
  expect(await read(4n, [], 10)).toEqual({ found: [3n, 2n, 1n], hasMore: false, nextAfter: 1n })
  expect(await read(5n, [PAID], 1)).toEqual({ found: [3n], hasMore: true, nextAfter: 3n })
  expect(await read(1n, [], 10)).toEqual({ found: [], hasMore: false, nextAfter: 1n })
})

test('passes over a bounded number of events in a page, and finds what follows them', async () => {
  const { durablePool } = db.database
  const businessId = 'biz_rare'
  await writeEvents(durablePool, 2_500, { businessId })
  await writeEvents(durablePool, 1, { businessId, kind: PAID })
  await sequence(durablePool)
  expect(await readAll(businessId, [PAID], 10)).toEqual({ found: [2_501n], pages: 3 })
})
