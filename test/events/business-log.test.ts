import { expect, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { readAllEvents, readBusinessLog } from '../../src/events/read-log.ts'
import { raiseFloor } from '../../src/events/retention.ts'
import { useDatabase } from '../support/database.ts'
import { publishEvents, sequence, writeEvents } from '../support/events.ts'

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
  await publishEvents(durablePool, 1, { businessId, kind: PAID })
  expect(await readAll(businessId, [PAID], 10)).toEqual({ found: [2_501n], pages: 3 })
})

test('lists the events of all businesses, of those that the caller may see, or of some kinds, both ways', async () => {
  const { durablePool } = db.database
  const before = (await readLogState(durablePool)).end.position
  const kinds = [PAID, 'ACCOUNT_CREATED', PAID, 'ACCOUNT_CLOSED']
  for (let n = 0; n < 24; n++) {
    const businessId = ['', 'biz_all_1', 'biz_all_2'][n % 3]!
    await writeEvents(durablePool, 1, { businessId, kind: kinds[n % 4]!, live: n % 5 > 0 })
  }
  // More than a page passes over lie between.
  await writeEvents(durablePool, 2_500, { businessId: 'biz_others' })
  await publishEvents(durablePool, 3, { businessId: 'biz_all_1', kind: PAID })
  const { rows } = await durablePool.query(
    `select l.position, l.business_id as "businessId", l.live, o.kind
      from event_log l join outbox o on o.seq = l.outbox_seq where l.position > $1 order by l.position`,
    [before],
  )
  expect(rows).toHaveLength(2_527)
  for (const businessIds of [undefined, ['biz_all_1'], ['biz_all_1', 'biz_all_2'], ['biz_none']]) {
    for (const live of [true, false]) {
      for (const wanted of [[], [PAID], ['ACCOUNT_CREATED', 'ACCOUNT_CLOSED']]) {
        const expected = rows
          .filter((row) => businessIds?.includes(row.businessId) ?? true)
          .filter((row) => row.live === live && (wanted.length === 0 || wanted.includes(row.kind)))
          .map(({ position }) => BigInt(position))
        const query = { businessIds, live, kinds: wanted }
        for (const limit of expected.length < 50 ? [2, 500] : [500]) {
          expect(await readEvery({ ...query, limit, after: before })).toEqual(expected)
          const down = await readEvery({ ...query, limit, before: 0n })
          expect(down.filter((position) => position > before)).toEqual(expected.toReversed())
        }
      }
    }
  }
})

/** The positions on all pages of the log of all businesses. */
async function readEvery(query: Parameters<typeof readAllEvents>[1]): Promise<bigint[]> {
  const found: bigint[] = []
  for (let at = query.before ?? query.after; ; ) {
    const place = query.before === undefined ? { after: at } : { before: at }
    const page = await readAllEvents(db.database.durablePool, {
      ...query,
      ...place,
    } as typeof query)
    expect(page.entries.length).toBeLessThanOrEqual(query.limit)
    found.push(...page.entries.map(({ position }) => position))
    if (!page.hasMore) return found
    expect(page.nextAfter).not.toBe(at)
    at = page.nextAfter
  }
}

test('the log of all businesses ends where its events have expired', async () => {
  const { durablePool } = db.database
  const { end } = await readLogState(durablePool)
  await raiseFloor(durablePool, end.position - 2n)
  const query = { businessIds: undefined, live: true, kinds: [], limit: 10 }
  const last = [end.position - 1n, end.position]
  expect(await readEvery({ ...query, after: 0n })).toEqual(last)
  expect(await readEvery({ ...query, before: 0n })).toEqual(last.toReversed())
  // A reader that is at the end stays there.
  const { nextAfter, hasMore } = await readAllEvents(durablePool, { ...query, after: end.position })
  expect([nextAfter, hasMore]).toEqual([end.position, false])
})
