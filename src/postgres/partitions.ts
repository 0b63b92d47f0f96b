import { escapeIdentifier, type Pool } from 'pg'
import { inTransaction } from './in-transaction.ts'

/**
 * A table that grows without end. It is partitioned by range of one column.
 *
 * The migration creates such a table with one partition, `<table>_rest`, which accepts every key. A job
 * (`partition-job.ts`) cuts it ahead of time: `cut_partition` renames it to a partition that ends at a boundary, and
 * creates a new `<table>_rest` from there on. So no insert ever fails because a partition is missing: if the job is late,
 * `<table>_rest` has rows, and the cut reads them first. Retention drops whole partitions with
 * `drop_partition`, which refuses partitions that `is_disposable` (in the migration) does not allow.
 *
 * Both functions run with the rights of the owner of the tables, accept only the tables of
 * `is_disposable`, and give up after a short wait for a lock, because payments queue behind the wait.
 *
 * To partition another table: declare it `partition by range` in the migration, create its `<table>_rest`
 * with its storage parameters and with the unique indexes that lack the key (each cut copies both),
 * give it a line in `is_disposable`, and add it to `app/tables.ts`.
 */
export type PartitionedTable = NumberedTable | TimedTable

/** A table whose key is an increasing number. A partition has about the rows of one or more days. */
export interface NumberedTable {
  readonly kind: 'number'
  readonly table: string
  readonly key: string
  /** How many numbers were used in the last day. */
  readonly perDay: () => Promise<number>
  /** The highest number that a row may have; absent: read from the table, by an index on the number. */
  readonly lastKey?: () => Promise<bigint>
  /** The number of days in a partition; absent: one. */
  readonly days?: number
  /** The fewest numbers in a partition; absent: 100,000. */
  readonly widthMin?: number
}

/**
 * A table whose key is an identifier that begins with the time. A partition covers a year, or, at a higher rate, three
 * months or one. Its name ends with its last month.
 */
export interface TimedTable {
  readonly kind: 'time'
  readonly table: string
  readonly key: string
  /** The prefix of the identifiers: "txn". */
  readonly prefix: string
  /** About how many rows were added in the last day; may be somewhat higher. */
  readonly perDay: () => Promise<number>
}

/** The bounds and the growth of a partitioned table. */
export interface TableState {
  /** The first key of the open-ended partition; undefined: the table was never cut. */
  readonly restFrom: string | undefined
  /** The first and the last key of the table; undefined: the table is empty. */
  readonly firstKey: string | undefined
  readonly lastKey: string | undefined
  /** How many numbers are used, or rows added, in a day. */
  readonly perDay: number
  readonly nowMs: number
}

/** The boundary at which the open-ended partition ends, and the suffix of its new name. */
export interface Cut {
  readonly boundary: string
  readonly suffix: string
}

/** The pause after an attempt that did not get its locks. Inserts wait during each attempt. */
export const LOCKED_MS = 10_000

/** The partitions of a table in the order of their keys. The upper bound is exclusive; the last has none. */
export async function listPartitions(pool: Pool, table: string) {
  const { rows } = await pool.query<{ name: string; lower: string | null; upper: string | null }>({
    name: 'partition-list',
    text: `select p.name, p.lower, p.upper from list_partitions($1) p
      order by p.upper is null, length(p.upper), p.upper collate "C"`,
    values: [table],
  })
  return rows.map(({ name, lower, upper }) => ({
    name,
    lower: lower ?? undefined,
    upper: upper ?? undefined,
  }))
}

export async function readTableState(
  pool: Pool,
  table: PartitionedTable,
  nowMs: number,
): Promise<TableState> {
  const [name, key] = [escapeIdentifier(table.table), escapeIdentifier(table.key)]
  const lastKey = table.kind === 'number' ? await table.lastKey?.() : undefined
  const end = (order: string) =>
    lastKey === undefined ? `(select ${key} from ${name} order by ${key} ${order} limit 1)` : 'null'
  const { rows } = await pool.query<{
    rest_from: string | null
    first_key: string | null
    last_key: string | null
  }>(
    `select (select lower from list_partitions($1) where upper is null) as rest_from,
      ${end('asc')} as first_key, ${end('desc')} as last_key`,
    [table.table],
  )
  const [row] = rows
  return {
    restFrom: row?.rest_from ?? undefined,
    firstKey: row?.first_key ?? undefined,
    lastKey: lastKey?.toString() ?? row?.last_key ?? undefined,
    perDay: await table.perDay(),
    nowMs,
  }
}

/**
 * Ends the open-ended partition of a table at a boundary. If the partition has rows, it is read while inserts wait, which
 * takes about a second for some million rows.
 *
 * @returns false if another instance is cutting the table, or the cut already exists
 * @throws DatabaseError 55P03 if the locks were not available in time
 */
export async function cutPartition(pool: Pool, table: string, cut: Cut): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    // Payments wait for the locks of this transaction, also if its instance falls silent before the commit.
    await client.query(
      "set local statement_timeout = '10min'; set local idle_in_transaction_session_timeout = '5s'",
    )
    const { rows } = await client.query<{ done: boolean }>(
      'select cut_partition($1, $2, $3) as done',
      [table, cut.boundary, cut.suffix],
    )
    return rows[0]?.done ?? false
  })
}

/**
 * Drops a partition of a table.
 *
 * @returns false if the partition is still needed
 * @throws DatabaseError 55P03 if the locks were not available in time, or another instance is cutting or dropping a partition
 */
export async function dropPartition(pool: Pool, table: string, name: string): Promise<boolean> {
  const { rows } = await pool.query<{ done: boolean }>('select drop_partition($1, $2) as done', [
    table,
    name,
  ])
  return rows[0]?.done ?? false
}

/** Whether a partition could not be cut or dropped because its locks were not available. */
export function isLocked(error: unknown): boolean {
  return ['55P03', '40P01'].includes((error as { code?: string }).code ?? '')
}
