import { beforeAll, expect, test } from 'vitest'
import { listEntries } from '../../src/settlement/list-entries.ts'
import { useDatabase } from '../support/database.ts'
import { writeEvents } from '../support/events.ts'

const EVENTS = 3_000
const TICK = 500

const db = useDatabase(2)
const businessId = 'biz_snapshots'

/** Each event is worth one kobo, and each tick logs its events at one time. */
beforeAll(async () => {
  const { durablePool } = db.database
  await durablePool.query(
    `insert into business (id, name, alias, created_at) values ($1, 'A', 'A', now())`,
    [businessId],
  )
  for (let i = 0; i < EVENTS / TICK; i++) {
    await writeEvents(durablePool, TICK, { businessId, kind: 'PAYMENT_NOTIFICATION' })
    await durablePool.query('select sequence_events($1)', [TICK + 1])
  }
})

test('of the balances after each tick, the newest and the last before each multiple of 1,024 events are kept', async () => {
  const { rows } = await db.database.durablePool.query(
    `select s.last_sequence::int as sequence, s.pending_minor = (
        select sum(pending_minor) from money_event e
        where e.business_id = s.business_id and e.live = s.live
          and e.business_sequence <= s.last_sequence) as is_correct
      from event_business_counter s where business_id = $1 order by 1`,
    [businessId],
  )
  expect(rows).toEqual([
    { sequence: 1_000, is_correct: true },
    { sequence: 2_000, is_correct: true },
    { sequence: 3_000, is_correct: true },
  ])
  await expect(
    db.database.durablePool.query('update event_business_counter set pending_minor = 0'),
  ).rejects.toThrow('never changed')
})

test('a period opens at the sum of all earlier entries, wherever it starts', async () => {
  const { durablePool } = db.database
  for (const tick of [0, 1, 4]) {
    const before = tick * TICK
    const { rows } = await durablePool.query<{ at_ms: number }>(
      `select (extract(epoch from logged_at) * 1000)::float8 as at_ms from event_log
        where business_id = $1 and business_sequence = $2`,
      [businessId, before + 1],
    )
    const page = await listEntries(db.database, {
      businessId,
      live: true,
      fromMs: rows[0]!.at_ms,
      toMs: undefined,
      pageSize: 10,
      pageToken: '',
    })
    expect(page.opening.pendingMinor).toBe(BigInt(before))
    expect(page.entries.map(({ sequence }) => Number(sequence))).toEqual(
      Array.from({ length: 10 }, (_, i) => before + i + 1),
    )
    expect(page.closing.pendingMinor).toBe(BigInt(before + 10))
  }
})

test('a statement skips a long run of events that moved no money', async () => {
  const { durablePool } = db.database
  await writeEvents(durablePool, EVENTS, { businessId })
  await writeEvents(durablePool, 1, { businessId, kind: 'PAYMENT_NOTIFICATION' })
  await durablePool.query('select sequence_events(100000)')
  const found: number[] = []
  let pageToken = ''
  let pages = 0
  do {
    const request = { businessId, live: true, fromMs: undefined, toMs: undefined, pageSize: 1_000 }
    const page = await listEntries(db.database, { ...request, pageToken })
    found.push(...page.entries.map(({ sequence }) => Number(sequence)))
    expect(page.closing.pendingMinor).toBe(BigInt(found.length))
    pageToken = page.nextPageToken
    pages += 1
  } while (pageToken !== '')
  expect(found).toEqual([...Array.from({ length: EVENTS }, (_, i) => i + 1), 2 * EVENTS + 1])
  expect(pages).toBeLessThanOrEqual(8)
})
