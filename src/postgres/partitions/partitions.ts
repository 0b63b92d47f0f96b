import { escapeIdentifier, type Pool } from 'pg'
import { inTransaction } from '../in-transaction.ts'
import type { Cut, TableState } from './next-cut.ts'
import type { PartitionedTable } from './partitioned-table.ts'

/** The pause before another attempt after one that did not get its locks. Inserts wait for each attempt. */
export const LOCKED_MS = 10_000

/** A partition, from one key to before another; undefined: without a bound. */
export interface Partition {
  readonly name: string
  readonly lower: string | undefined
  readonly upper: string | undefined
}

/** The partitions of a table in the order of their keys; the last has no upper bound. */
export async function listPartitions(pool: Pool, table: string): Promise<readonly Partition[]> {
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
 * Ends the open-ended partition of a table at a boundary. A partition with rows is read first, about a second
 * for some million rows, while inserts wait.
 *
 * @returns false: another instance is at it, or it was done
 * @throws DatabaseError 55P03 if it did not get its locks
 */
export async function cutPartition(pool: Pool, table: string, cut: Cut): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    await client.query("set local statement_timeout = '10min'")
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
 * @returns false: it is still needed
 * @throws DatabaseError 55P03 if it did not get its locks, also while another instance cuts or drops one
 */
export async function dropPartition(pool: Pool, table: string, name: string): Promise<boolean> {
  const { rows } = await pool.query<{ done: boolean }>('select drop_partition($1, $2) as done', [
    table,
    name,
  ])
  return rows[0]?.done ?? false
}

/** Whether a partition could not be cut or dropped because others used the table. */
export function isLocked(error: unknown): boolean {
  return ['55P03', '40P01'].includes((error as { code?: string }).code ?? '')
}
