import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { useDatabase } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'

const WRITERS = 4
const BUSINESSES = ['biz_a', 'biz_b', 'biz_c']

const db = useDatabase()
const elsewhere = useDatabase(1)
let writers: pg.Client[] = []
let tickers: pg.Client[] = []
let idlers: pg.Client[] = []

beforeAll(async () => {
  const connect = async (url: string) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    return client
  }
  writers = await Promise.all(Array.from({ length: WRITERS }, () => connect(db.url)))
  tickers = await Promise.all(Array.from({ length: 2 }, () => connect(db.url)))
  idlers = await Promise.all([connect(elsewhere.url), connect(db.url)])
  await idlers[0]!.query('create table idle (id int)')
  // A long read transaction in this database.
  await idlers[1]!.query('begin isolation level repeatable read; select count(*) from outbox')
})

afterAll(async () => {
  await Promise.all([...writers, ...tickers, ...idlers].map((client) => client.end()))
})

/** A step of a schedule: the next action of a writer, ticks, or a new epoch. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('insert' as const),
      writer: fc.nat(WRITERS - 1),
      business: fc.nat(BUSINESSES.length - 1),
      live: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('commit' as const), writer: fc.nat(WRITERS - 1) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('rollback' as const), writer: fc.nat(WRITERS - 1) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('tick' as const),
      ticker: fc.nat(1),
      rows: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('race' as const),
      rows: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'bump' as const }) },
)

const schedule = fc.array(step, { minLength: 5, maxLength: 40 })

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

interface Written {
  readonly id: string
  readonly writer: number
  readonly insertedAt: number
  committedAt: number | undefined
}

let names = 0

/** @returns whether there may be more events to number */
async function tick(client: pg.Client, rows: number): Promise<boolean> {
  const result = await client.query('select more from sequence_events($1)', [rows])
  return result.rows[0].more
}

/**
 * Runs a schedule.
 *
 * @param idle whether a writer in another database of the server stays open all the time. It is then
 * the oldest transaction in progress of every snapshot; otherwise one of the schedule is
 * @returns the committed events, with the steps of insert and commit
 */
async function run(idle: boolean, steps: readonly Step[]): Promise<Written[]> {
  const idler = idlers[0]!
  await idler.query('rollback')
  if (idle) await idler.query('begin; insert into idle values (1)')
  const open: (Written[] | undefined)[] = Array.from({ length: WRITERS }, () => undefined)
  const committed: Written[] = []
  const end = async (writer: number, verb: 'commit' | 'rollback', at: number) => {
    const events = open[writer]
    if (events === undefined) return
    await writers[writer]!.query(verb)
    open[writer] = undefined
    if (verb === 'rollback') return
    for (const event of events) committed.push({ ...event, committedAt: at })
  }
  for (const [at, next] of steps.entries()) {
    if (next.kind === 'insert') {
      const client = writers[next.writer]!
      if (open[next.writer] === undefined) await client.query('begin')
      names += 1
      const { writer } = next
      const event = { id: `evt_${names}`, writer, insertedAt: at, committedAt: undefined }
      open[next.writer] = [...(open[next.writer] ?? []), event]
      await client.query(
        `insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
          values ($1, $2, $3, 'TEST', now(), '')`,
        [event.id, BUSINESSES[next.business], next.live],
      )
    } else if (next.kind === 'tick') await tick(tickers[next.ticker]!, next.rows)
    else if (next.kind === 'race') {
      await Promise.all(tickers.map((ticker) => tick(ticker, next.rows)))
    } else if (next.kind === 'bump') {
      // It would wait for open writers.
      for (let writer = 0; writer < WRITERS; writer++) await end(writer, 'commit', at)
      await bumpEpoch(db.database.durablePool, SYSTEM)
    } else await end(next.writer, next.kind, at)
  }
  for (let writer = 0; writer < WRITERS; writer++) await end(writer, 'commit', steps.length)
  while (await tick(tickers[0]!, 100));
  return committed
}

/** The oldest transaction in progress at a tick commits after it, and after a younger one. */
const OLDEST_COMMITS_LAST: Step[] = [
  { kind: 'insert', writer: 0, business: 0, live: true },
  { kind: 'insert', writer: 1, business: 0, live: true },
  { kind: 'commit', writer: 1 },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'commit', writer: 0 },
  { kind: 'tick', ticker: 0, rows: 4 },
]

/** Transactions that a tick's snapshot ends before, as none after them has ended, commit after the next tick. */
const BEGUN_BEYOND_A_SNAPSHOT: Step[] = [
  { kind: 'insert', writer: 3, business: 0, live: true },
  { kind: 'commit', writer: 3 },
  { kind: 'insert', writer: 0, business: 0, live: true },
  { kind: 'insert', writer: 1, business: 0, live: true },
  { kind: 'insert', writer: 2, business: 0, live: true },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'commit', writer: 0 },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'commit', writer: 1 },
  { kind: 'commit', writer: 2 },
  { kind: 'tick', ticker: 0, rows: 4 },
]

/** A bump after a late writer that was numbered, and one after a late writer that was not. */
const BUMPED: Step[] = [
  { kind: 'insert', writer: 0, business: 0, live: true },
  { kind: 'insert', writer: 1, business: 0, live: true },
  { kind: 'commit', writer: 1 },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'commit', writer: 0 },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'bump' },
  { kind: 'insert', writer: 0, business: 0, live: true },
  { kind: 'insert', writer: 0, business: 0, live: true },
  { kind: 'insert', writer: 1, business: 0, live: true },
  { kind: 'commit', writer: 1 },
  { kind: 'tick', ticker: 0, rows: 4 },
  { kind: 'bump' },
  { kind: 'tick', ticker: 0, rows: 1 },
]

test('random schedules never leave a gap, number an event twice or put an effect before its cause', async () => {
  let last = 0
  const sequences = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(fc.boolean(), schedule, async (idle, steps) => {
      const committed = await run(idle, steps)
      const { rows } = await db.database.durablePool.query(
        `select position::int, event_id, business_id, live, business_sequence::int from event_log
          where position > $1 order by position`,
        [last],
      )
      const positions = new Map<string, number>()
      for (const row of rows) {
        last += 1
        expect(row.position, 'positions are dense').toBe(last)
        const counts = `${row.business_id} ${row.live}`
        const sequence = (sequences.get(counts) ?? 0) + 1
        expect(row.business_sequence, 'a mode of a business has no gap').toBe(sequence)
        sequences.set(counts, sequence)
        positions.set(row.event_id, row.position)
      }
      expect(
        rows.map((row) => row.event_id).sort(),
        'every committed event is in the log once',
      ).toEqual(committed.map((event) => event.id).sort())
      for (const effect of committed) {
        for (const cause of committed) {
          const isEarlier = cause.writer === effect.writer && cause.insertedAt < effect.insertedAt
          if (cause.committedAt! < effect.insertedAt || isEarlier) {
            expect(positions.get(cause.id)!, 'cause before effect').toBeLessThan(
              positions.get(effect.id)!,
            )
          }
        }
      }
    }),
    {
      numRuns: Number(process.env['SCHEDULES'] ?? 80),
      endOnFailure: true,
      examples: [
        [false, OLDEST_COMMITS_LAST],
        [true, OLDEST_COMMITS_LAST],
        [false, BEGUN_BEYOND_A_SNAPSHOT],
        [false, BUMPED],
      ],
    },
  )
})
