/**
 * How tables that grow without end are partitioned, by range of one column.
 *
 * The migration creates such a table with one partition, `<table>_rest`, which takes every key. A job
 * (`job.ts`) cuts it ahead of time: `cut_partition` renames it to a partition that ends at a boundary, and
 * makes a new `<table>_rest` from there on. So no insert ever fails for want of a partition: if the job is
 * late, the rest has rows, and the cut reads them first. Retention drops whole partitions with
 * `drop_partition`, which refuses what `is_disposable` (in the migration) does not allow.
 *
 * Both functions run with the rights of the owner of the tables, accept only the tables of
 * `is_disposable`, and give up after a short wait for a lock: payments queue behind it.
 *
 * To partition another table: declare it `partition by range` in the migration, create its `<table>_rest`
 * with its storage parameters and with the unique indexes that lack the key (both are copied by each cut),
 * give it a line in `is_disposable`, and add it to `app/partitioned-tables.ts`.
 */
export type PartitionedTable = NumberedTable | TimedTable

/** A table whose key is a number that increases. A partition has about the rows of some days. */
export interface NumberedTable {
  readonly kind: 'number'
  readonly table: string
  readonly key: string
  /** The numbers that were used in the last day. */
  readonly perDay: () => Promise<number>
  /** The last number that a row may have; absent: read from the table, by an index that begins with it. */
  readonly lastKey?: () => Promise<bigint>
  /** The days whose rows a partition takes; absent: one. */
  readonly days?: number
  /** The fewest numbers of a partition; absent: 100,000. */
  readonly widthMin?: number
}

/**
 * A table whose key is an identifier that begins with the time. A partition has a year; at a higher rate, three
 * months or one. Its name ends with its last month.
 */
export interface TimedTable {
  readonly kind: 'time'
  readonly table: string
  readonly key: string
  /** The prefix of the identifiers: "txn". */
  readonly prefix: string
  /** The rows that were added in the last day, or somewhat more. */
  readonly perDay: () => Promise<number>
}
