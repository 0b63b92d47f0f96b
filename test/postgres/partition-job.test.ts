import { beforeEach, describe, expect, test } from 'vitest'
import { firstIdAt } from '../../src/core/ids.ts'
import { checkPartitions } from '../../src/doctor/check-database.ts'
import { createPartitionJob } from '../../src/postgres/partition-job.ts'
import {
  cutPartition,
  dropPartition,
  listPartitions,
  type PartitionedTable,
} from '../../src/postgres/partitions.ts'
import { useDatabase, withOpenTransaction } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'

const db = useDatabase(8)

const WIDTH = 10
const clock = { now: () => Date.UTC(2026, 10, 22, 15) }
const NUMBERED: PartitionedTable = {
  kind: 'number',
  table: 'numbered',
  key: 'seq',
  widthMin: WIDTH,
  perDay: async () => WIDTH,
}
const MONTHLY: PartitionedTable = {
  kind: 'time',
  table: 'monthly',
  key: 'id',
  prefix: 'txn',
  perDay: async () => 10_000_000,
}

const sql = (text: string, values: unknown[] = []) => db.database.durablePool.query(text, values)
const insert = (from: number, to: number) =>
  sql('insert into numbered (seq, note) select n, n from generate_series($1::int, $2::int) n', [
    from,
    to,
  ])
const runJob = (tables: readonly PartitionedTable[] = [NUMBERED]) =>
  createPartitionJob(createTestRuntime(db.database, { clock }), tables).run()
const boundsOf = async (table: string) => {
  const found = await listPartitions(db.database.durablePool, table)
  return found.map(({ name, lower, upper }) => `${name}: ${lower} to ${upper}`)
}

beforeEach(async () => {
  await sql('drop table if exists numbered, monthly')
  await sql(`create table numbered (seq bigint primary key, note text not null,
      constraint numbered_note check (note <> '')) partition by range (seq)`)
  await sql('create index numbered_note_index on numbered (note)')
  await sql(`create table numbered_rest partition of numbered for values from (minvalue) to (maxvalue)
      with (fillfactor=90, autovacuum_vacuum_insert_threshold=1000)`)
  await sql('create unique index numbered_rest_note on numbered_rest (note)')
  await sql('create table monthly (id text collate "C" primary key) partition by range (id)')
  await sql(
    'create table monthly_rest partition of monthly for values from (minvalue) to (maxvalue)',
  )
  await sql(`create or replace function is_disposable(parent text, upper text, is_locked boolean)
      returns boolean language sql as 'select upper::bigint <= 21'`)
})

describe('the job', () => {
  test('makes partitions of a numbered table ahead of its rows', async () => {
    expect(await runJob()).toEqual({ cuts: 3, locked: [] })
    expect(await runJob()).toEqual({ cuts: 0, locked: [] })
    await insert(1, 11)
    expect(await runJob()).toEqual({ cuts: 1, locked: [] })
    expect(await boundsOf('numbered')).toEqual([
      'numbered_0: undefined to 10',
      'numbered_10: 10 to 20',
      'numbered_20: 20 to 30',
      'numbered_30: 30 to 40',
      'numbered_rest: 40 to undefined',
    ])
    const { rows } = await sql(
      'select tableoid::regclass::text as part, count(*)::int from numbered group by 1 order by 1',
    )
    expect(rows).toEqual([
      { part: 'numbered_0', count: 9 },
      { part: 'numbered_10', count: 2 },
    ])
  })

  test('cuts past the rows that it was late for, and loses none', async () => {
    await insert(1, 25)
    await runJob()
    expect((await boundsOf('numbered'))[0]).toBe('numbered_0: undefined to 35')
    await insert(26, 200)
    await runJob()
    const bounds = await boundsOf('numbered')
    expect(bounds.at(-3)).toBe(`${bounds.at(-3)!.split(':')[0]}: 210 to 220`)
    const { rows } = await sql('select count(*)::int, sum(seq)::int from numbered')
    expect(rows).toEqual([{ count: 200, sum: 20_100 }])
  })

  test('makes monthly partitions by the time in identifiers', async () => {
    const [november, december, january] = [10, 11, 12].map((month) =>
      firstIdAt('txn', Date.UTC(2026, month)),
    )
    await sql('insert into monthly values ($1), ($2)', [`${november}a`, `${december}a`])
    await expect(
      cutPartition(db.database.durablePool, 'monthly', {
        boundary: december!,
        suffix: '2026_11',
      }),
    ).rejects.toThrow(/is violated by some row/)
    await sql('delete from monthly where id >= $1', [december])
    expect(await runJob([MONTHLY])).toEqual({ cuts: 2, locked: [] })
    await sql('insert into monthly values ($1), ($2)', [`${december}a`, `${january}a`])
    expect(await boundsOf('monthly')).toEqual([
      `monthly_2026_11: undefined to ${december}`,
      `monthly_2026_12: ${december} to ${january}`,
      `monthly_rest: ${january} to undefined`,
    ])
    const { rows } = await sql(
      'select tableoid::regclass::text as part, count(*)::int from monthly group by 1 order by 1',
    )
    expect(rows.map(({ count }) => count)).toEqual([1, 1, 1])
  })

  test('of two instances at once, each cut is made once', async () => {
    const runs = await Promise.all(Array.from({ length: 6 }, () => runJob()))
    const cuts = runs.reduce((sum, run) => sum + run.cuts, 0)
    const last = await runJob()
    expect(cuts + last.cuts).toBe(3)
    expect(await boundsOf('numbered')).toHaveLength(4)
  })

  test('gives up while a transaction holds the table, and is late only then', async () => {
    const late = async () =>
      (await checkPartitions(db.database.durablePool, [NUMBERED], clock.now())).map(
        ({ found }) => found,
      )
    await insert(1, 15)
    await withOpenTransaction(db.database.durablePool, async (holder) => {
      await holder.query('select from numbered limit 1')
      expect(await runJob()).toEqual({ cuts: 0, locked: ['numbered'] })
      await insert(16, 20)
      expect(await late()).toEqual(['partitions are not made ahead: numbered (0 hours left)'])
    })
    await runJob()
    expect(await late()).toEqual(['partitions are made ahead'])
  })
})

describe('a new partition', () => {
  test('has the indexes, checks and storage parameters of the one before', async () => {
    await runJob()
    const definitions = async (table: string) => {
      const { rows } = await sql(
        `select c.reloptions, c.relacl, (select array_agg(i.indisunique || ' ' || i.indkey::text order by 1)
            from pg_index i where i.indrelid = c.oid) as indexes,
            (select count(*)::int from pg_constraint where conrelid = c.oid and contype = 'c') as checks
          from pg_class c where c.relname = $1`,
        [table],
      )
      return rows[0]
    }
    const first = await definitions('numbered_0')
    expect(first.indexes).toHaveLength(3)
    expect(first.reloptions).toHaveLength(2)
    expect(await definitions('numbered_rest')).toEqual(first)
    await insert(1, 1)
    await expect(
      insert(2, 2).then(() => sql("insert into numbered values (3, '2')")),
    ).rejects.toThrow(/duplicate key/)
  })
})

describe('the functions of the database', () => {
  test('report that another instance cuts or drops a partition, rather than that its rows are needed', async () => {
    await insert(1, 5)
    await runJob()
    const { durablePool } = db.database
    await withOpenTransaction(durablePool, async (other) => {
      await other.query('select pg_advisory_xact_lock(4736352, 1)')
      await expect(dropPartition(durablePool, 'numbered', 'numbered_0')).rejects.toMatchObject({
        code: '55P03',
      })
    })
    expect(await dropPartition(durablePool, 'numbered', 'numbered_0')).toBe(true)
  })

  test('refuse other tables and odd names', async () => {
    const { durablePool } = db.database
    await sql(`create or replace function is_disposable(parent text, upper text, is_locked boolean)
        returns boolean language plpgsql as $$ begin
          if parent <> 'numbered' then raise exception 'not a table whose partitions are cut'; end if;
          return false; end $$`)
    const cut = { boundary: '100', suffix: '0' }
    await expect(cutPartition(durablePool, 'business', cut)).rejects.toThrow(/not a table/)
    await expect(dropPartition(durablePool, 'business', 'business')).rejects.toThrow(/not a table/)
    await expect(cutPartition(durablePool, 'numbered', { ...cut, suffix: 'rest' })).rejects.toThrow(
      /not the suffix/,
    )
  })
})
