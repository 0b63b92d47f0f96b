import { cutPage, type Page, pageTokenOf } from './page-token.ts'

/** A scan in index order whose rows pass a filter. */
interface Scan {
  /** The table and its alias, and what each of its rows joins exactly once. */
  readonly from: string
  /** The table and its alias alone, if `from` joins others. */
  readonly table?: string
  readonly columns: string
  /** SQL: the sort column, which is one of the columns. */
  readonly key: string
  readonly order: 'asc' | 'desc'
  /** SQL: the range of the index to scan. */
  readonly range: string
  /** SQL: which of the scanned rows match. */
  readonly filter: string
  /** SQL: the maximum number of matching rows. */
  readonly limit: string
  /** The maximum number of rows to scan. */
  readonly rowsMax: number
}

/**
 * Two subqueries for `with`: `page`, the matching rows; and `edge`, one row whose `read_up_to` is the last
 * scanned key if the scan ended at `rowsMax`, else null. However few rows match, a page scans at most
 * `rowsMax` rows: it may then be short although more pages follow (AIP-158).
 */
export function boundedScan(scan: Scan): string {
  const { from, table = from, columns, key, order, range, filter, limit, rowsMax } = scan
  // The inner limit bounds the scan before the filter; the outer one ends it when the page is full.
  return `page as materialized (
      select * from (
        select ${columns} from ${from} where ${range} order by ${key} ${order} limit ${rowsMax}
      ) candidate where ${filter} order by ${key} ${order} limit ${limit}
    ), edge as (
      select case when (select count(*) from page) < ${limit} then (
        select ${key} from ${table} where ${range} order by ${key} ${order}
        offset ${rowsMax - 1} limit 1
      ) end as read_up_to
    )`
}

/**
 * Cuts the rows of a bounded scan to a page.
 *
 * @param edge the last scanned sort key; empty when nothing is left
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
