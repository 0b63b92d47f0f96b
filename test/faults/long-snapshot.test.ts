import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { type EmbeddedPostgres, startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { readBalance } from '../../src/settlement/get-balance.ts'
import { withOpenTransaction } from '../support/database.ts'
import { writeEvents } from '../support/events.ts'
import { makeFolder } from '../support/folder.ts'

// A server of its own: a tick reads again what was written since the oldest writer of the server began, also
// if that writes to another database.
let folder: string
let server: EmbeddedPostgres
let database: Database

beforeAll(async () => {
  folder = await makeFolder('snapshot')
  server = await startEmbedded({ folder: join(folder, 'postgres'), settings: { fsync: 'off' } })
  database = await openDatabase(server.url, ENTITIES, { connectionsMax: 4 })
  await migrate(database)
})

afterAll(async () => {
  await database?.close()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

const TICKS = Number(process.env['TICKS'] ?? 1_200)
const MEASURED = 50
const BUSINESSES = ['biz_a', 'biz_b', 'biz_c']
const BALANCE = { businessId: 'biz_a', live: true }

/** The pages that one statement reads, and its milliseconds. */
interface Cost {
  readonly pages: number
  readonly ms: number
}

async function costOf(statement: string): Promise<Cost> {
  const { rows } = await database.durablePool.query(
    `explain (analyze, buffers, timing off, format json) ${statement}`,
  )
  const [{ Plan: plan, 'Execution Time': ms }] = rows[0]['QUERY PLAN']
  return { pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], ms }
}

/** One event of each business, and the tick that numbers them. */
async function tick(): Promise<Cost> {
  for (const businessId of BUSINESSES) {
    await writeEvents(database.durablePool, 1, { businessId, kind: 'PAYMENT_NOTIFICATION' })
  }
  return costOf('select from sequence_events(5000)')
}

const median = (costs: readonly Cost[], of: keyof Cost) =>
  costs.map((cost) => cost[of]).sort((a, b) => a - b)[Math.floor(costs.length / 2)]!

test('a tick reads no more pages while a snapshot stays open over a thousand ticks', async () => {
  const { durablePool } = database
  const costs: Cost[] = []
  const state: Cost[] = []
  for (let i = 0; i < MEASURED; i++) await tick()
  await withOpenTransaction(durablePool, async (holder) => {
    // A pool of the service ends such a transaction after a minute.
    await holder.query(`set idle_in_transaction_session_timeout = 0;
      set transaction isolation level repeatable read; select count(*) from sequencer`)
    for (let i = 0; i < TICKS; i++) {
      costs.push(await tick())
      if (i < MEASURED || i >= TICKS - MEASURED) {
        state.push(await costOf('select * from sequencer'))
      }
    }
    const [first, last] = [costs.slice(0, MEASURED), costs.slice(-MEASURED)]
    const text = (of: readonly Cost[]) => `${median(of, 'pages')} pages, ${median(of, 'ms')} ms`
    console.log(`a tick: ${text(first)}; after ${TICKS} ticks: ${text(last)}`)
    const [newest, oldest] = [state.slice(-MEASURED), state.slice(0, MEASURED)]
    console.log(`the state: ${text(oldest)}; after ${TICKS} ticks: ${text(newest)}`)
    // The indexes grow by a level; nothing else does.
    expect(median(last, 'pages')).toBeLessThan(median(first, 'pages') * 1.5)
    expect(median(newest, 'pages')).toBeLessThanOrEqual(median(oldest, 'pages') + 2)
    const events = BigInt(TICKS + MEASURED)
    expect(await readBalance(durablePool, BALANCE)).toMatchObject({ pendingMinor: events })
  })
  const { rows } = await durablePool.query(
    `select (select count(*)::int from sequencer_tick) as ticks,
      (select count(*)::int from event_business_counter) as balances`,
  )
  const kept = BUSINESSES.length * (1 + Math.floor((TICKS + MEASURED) / 1_024))
  expect(rows).toEqual([{ ticks: 1, balances: kept }])
})
