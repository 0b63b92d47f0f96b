import { randomBytes } from 'node:crypto'
import type { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { firstIdAt } from '../../src/core/ids.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { bumpEpoch } from '../../src/events/sequencer.ts'
import { cutPartition, dropPartition, listPartitions } from '../../src/postgres/partitions.ts'
import { useDatabase, withOpenTransaction } from '../support/database.ts'
import { cutPartitions, publishEvents, sequence, writeEvents } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase(8)

const LOCKED = '55P03'
const ATTEMPTS_MAX = 20

const sql = async (text: string, values: unknown[] = []) =>
  (await db.database.durablePool.query(text, values)).rows

/** Everything that has a position has expired, and is archived. */
const archive = () =>
  sql(`update event_retention set floor = (select position from sequencer),
    archived = (select position from sequencer)`)

/** Ends the last partition of the outbox so many numbers after the last one. @returns its name */
async function cutOutbox(numbers: bigint): Promise<string> {
  const { durablePool } = db.database
  const lower = (await listPartitions(durablePool, 'outbox')).at(-1)?.lower ?? '0'
  const [{ last }] = await sql('select coalesce(max(seq), 0) as last from outbox')
  const cut = { boundary: `${BigInt(last) + numbers + 1n}`, suffix: lower }
  expect(await cutPartition(durablePool, 'outbox', cut)).toBe(true)
  return `outbox_${lower}`
}

describe('a partition is kept', () => {
  test('if an event is committed while the drop waits for its lock', async () => {
    const { durablePool } = db.database
    await writeEvents(durablePool, 1)
    let dropped: boolean | string = LOCKED
    let late = ''
    for (let attempt = 0; attempt < ATTEMPTS_MAX && dropped === LOCKED; attempt++) {
      const name = await cutOutbox(2n)
      await withOpenTransaction(durablePool, async (writer) => {
        late = (await writeEvents(writer, 1))[0]!
        // The second number of the partition, and the first of the next one.
        await writeEvents(durablePool, 1)
        await publishEvents(durablePool, 1)
        await archive()
        const dropping = dropPartition(durablePool, 'outbox', name).catch(
          ({ code }) => code as string,
        )
        await waitFor(async () => {
          const waiting = `select from pg_locks where relation = 'outbox'::regclass and not granted
            and database = (select oid from pg_database where datname = current_database())`
          const isWaiting = (await writer.query(waiting)).rowCount === 1
          expect(isWaiting || (await Promise.race([dropping, undefined])) !== undefined).toBe(true)
        })
        await writer.query('commit')
        // On a busy machine it gives up before, and the next attempt begins.
        dropped = await dropping
      })
    }
    expect(dropped).toBe(false)
    await sequence(durablePool)
    expect(await sql('select from event_log where event_id = $1', [late])).toHaveLength(1)
  })

  test('while the outbox has the content of any of its events, which are not numbered again', async () => {
    const { durablePool } = db.database
    await writeEvents(durablePool, 1)
    await cutOutbox(0n)
    const name = await cutOutbox(1n)
    await withOpenTransaction(durablePool, async (writer) => {
      await writeEvents(writer, 1)
      // It gets the higher number, in the next partition, and the lower position.
      await publishEvents(durablePool, 1)
      await writer.query('commit')
      await sequence(durablePool)
      await cutPartitions(durablePool)
      await publishEvents(durablePool, 1)
      await archive()
      for (const partition of await listPartitions(durablePool, 'outbox')) {
        expect(await dropPartition(durablePool, 'outbox', partition.name)).toBe(true)
        if (partition.name === name) break
      }
    })
    const [log] = await listPartitions(durablePool, 'event_log')
    expect(log?.upper).toBeDefined()
    expect(await dropPartition(durablePool, 'event_log', log!.name)).toBe(false)
    const before = (await readLogState(durablePool)).end.position
    await bumpEpoch(durablePool, SYSTEM)
    await sequence(durablePool)
    expect((await readLogState(durablePool)).end.position).toBe(before)
  })

  test('if it has the last event of the log, also while the next one has no position yet', async () => {
    const { durablePool } = db.database
    await publishEvents(durablePool, 1)
    await cutPartitions(durablePool)
    await writeEvents(durablePool, 1)
    await archive()
    for (const { name, upper } of await listPartitions(durablePool, 'outbox')) {
      if (upper !== undefined) expect(await dropPartition(durablePool, 'outbox', name)).toBe(true)
    }
    const { end } = await readLogState(durablePool)
    expect(end.tag).not.toBe('')
    for (const { name } of await listPartitions(durablePool, 'event_log')) {
      await dropPartition(durablePool, 'event_log', name)
    }
    expect((await readLogState(durablePool)).end).toEqual(end)
  })

  test.each([
    ['transaction', 'txn'],
    ['ledger_posting', 'txn'],
  ])('if it has payments: %s', async (table, prefix) => {
    const { durablePool } = db.database
    const boundary = firstIdAt(prefix, Date.UTC(2000, 1))
    expect(await cutPartition(durablePool, table, { boundary, suffix: '2000_01' })).toBe(true)
    expect(await dropPartition(durablePool, table, `${table}_2000_01`)).toBe(false)
  })
})

test('a role gets no right on a new partition, and cuts and drops nothing that it may not write', async () => {
  const { durablePool } = db.database
  const role = `reader_${randomBytes(4).toString('hex')}`
  const client = await durablePool.connect()
  try {
    await client.query(`create role ${role}`)
    await client.query(`alter default privileges grant all on tables to ${role}`)
    await client.query(`grant select, delete on outbox to ${role}`)
    const name = await cutOutbox(0n)
    const { rows } = await client.query(
      `select string_agg(privilege, ' ') as rights from unnest('{select,insert,update,delete}'::text[]) privilege
        where has_table_privilege($1, 'outbox_rest', privilege)`,
      [role],
    )
    expect(rows).toEqual([{ rights: null }])
    await client.query(`set session authorization ${role}`)
    await expect(client.query("select drop_partition('outbox', $1)", [name])).rejects.toMatchObject(
      { code: '42501' },
    )
    await expect(
      client.query("select cut_partition('outbox', '1000000', '1')"),
    ).rejects.toMatchObject({ code: '42501' })
  } finally {
    await client.query('reset session authorization')
    await client.query(`drop owned by ${role}`)
    await client.query(`drop role ${role}`)
    client.release()
  }
})

test('an instance that falls silent before it commits a cut keeps payments waiting for seconds', async () => {
  const { durablePool } = db.database
  await writeEvents(durablePool, 1)
  const silent = await durablePool.connect()
  silent.on('error', () => undefined)
  onTestFinished(() => silent.release(true))
  const committing = Promise.withResolvers<void>()
  const still = {
    async connect() {
      const query = (text: string, values?: unknown[]) => {
        if (text !== 'commit') return silent.query(text, values)
        committing.resolve()
        return new Promise(() => undefined)
      }
      return { query, release: () => undefined }
    },
  } as unknown as Pool
  const lower = (await listPartitions(durablePool, 'outbox')).at(-1)?.lower ?? '0'
  const [{ last }] = await sql('select coalesce(max(seq), 0) as last from outbox')
  void cutPartition(still, 'outbox', { boundary: `${BigInt(last) + 100n}`, suffix: lower })
  await committing.promise
  const { rows } = await silent.query('show idle_in_transaction_session_timeout')
  expect(rows).toEqual([{ idle_in_transaction_session_timeout: '5s' }])
  await waitFor(() => writeEvents(durablePool, 1))
})
