import { cutPage, type Page, pageTokenOf } from './page-token.ts'

/** Rows that are read in the order of an index, and of which a filter lets some through. */
interface Scan {
  /** The table and its alias. */
  readonly from: string
  readonly columns: string
  /** SQL: the column that rows are in the order of; it is among the columns. */
  readonly key: string
  readonly order: 'asc' | 'desc'
  /** SQL: the part of the index that is read. */
  readonly range: string
  /** SQL: which of the rows read are wanted. */
  readonly filter: string
  /** SQL: how many are wanted. */
  readonly limit: string
  /** How many are read at the most. */
  readonly rowsMax: number
}

/**
 * Two subqueries for `with`: `page`, the wanted rows; and `edge`, one row that says in `read_up_to`
 * the last key that was read when that was the bound and not the page's size, else null. However few
 * rows are wanted, and however much there is, a page costs no more than the bound: it is then a short
 * one, after which more follow (AIP-158).
 */
export function boundedScan(scan: Scan): string {
  const { from, columns, key, order, range, filter, limit, rowsMax } = scan
  // The inner limit keeps the filter outside, and the outer one ends the reading when it is met.
  return `page as materialized (
      select * from (
        select ${columns} from ${from} where ${range} order by ${key} ${order} limit ${rowsMax}
      ) candidate where ${filter} order by ${key} ${order} limit ${limit}
    ), edge as (
      select case when (select count(*) from page) < ${limit} then (
        select ${key} from ${from} where ${range} order by ${key} ${order}
        offset ${rowsMax - 1} limit 1
      ) end as read_up_to
    )`
}

/**
 * Cuts the rows of a bounded scan to a page.
 *
 * @param edge the sort key that was read up to; undefined when nothing is left
 */
export function cutScan<Row>(
  rows: readonly Row[],
  page: Page,
  keyOf: (row: Row) => readonly string[],
  edge: readonly string[] | '' | null | undefined,
): { readonly rows: readonly Row[]; readonly nextPageToken: string } {
  const cut = cutPage(rows, page, keyOf)
  if (cut.nextPageToken !== '' || !edge) return cut
  return { rows, nextPageToken: pageTokenOf(edge) }
}
