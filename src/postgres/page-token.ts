import { type Fault, invalidFields } from '../core/errors.ts'

/** The page size if the caller does not set one. */
const PAGE_SIZE_DEFAULT = 50

/** The requested page of a list. */
export interface Page {
  readonly limit: number
  /** The sort key of the last row of the previous page; undefined on the first page. */
  readonly after: readonly string[] | undefined
}

/** The field's name: `page_token` in the API for third parties, which uses snake case. */
export type PageTokenField = 'pageToken' | 'page_token'

/**
 * Reads the paging fields of a request.
 *
 * @param keys how many parts the sort key has, at least one
 * @param field the name of the token in the JSON form of the request
 * @throws Fault validation_failed if this service did not create the token for such a list
 */
export function readPage(
  pageSize: number,
  pageToken: string,
  keys: number,
  field?: PageTokenField,
): Page {
  const limit = pageSize === 0 ? PAGE_SIZE_DEFAULT : pageSize
  if (pageToken === '') return { limit, after: undefined }
  const after = partsOf(pageToken)
  if (after.length !== keys) throw invalidPageToken(field)
  return { limit, after }
}

/** The parts of a token of this service; empty if the token is not one. */
export function partsOf(token: string): readonly string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(token, 'base64url').toString())
    const isText = (part: unknown) => typeof part === 'string' && !part.includes('\0')
    return Array.isArray(parts) && parts.every(isText) ? parts : []
  } catch {
    return []
  }
}

/** The fault of a token that this service did not create for such a list. */
export function invalidPageToken(field: PageTokenField = 'pageToken'): Fault {
  return invalidFields([{ field, message: 'is not a token of this list' }])
}

/**
 * Cuts rows to a page. The statement must select one row more than the page size, which shows whether
 * another page follows.
 */
export function cutPage<Row>(
  rows: readonly Row[],
  page: Page,
  keyOf: (row: Row) => readonly string[],
): { readonly rows: readonly Row[]; readonly nextPageToken: string } {
  const last = rows[page.limit - 1]
  if (rows.length <= page.limit || last === undefined) return { rows, nextPageToken: '' }
  return { rows: rows.slice(0, page.limit), nextPageToken: pageTokenOf(keyOf(last)) }
}

/** @param key the sort key of the last row of a page */
export function pageTokenOf(key: readonly string[]): string {
  return Buffer.from(JSON.stringify(key)).toString('base64url')
}

/**
 * Cuts the rows of a bounded scan to a page. Such a scan reads at most a fixed number of rows, however few of them match, so
 * a page may be short although more pages follow (AIP-158). The statement of a scan has two parts: `page`, the matching
 * rows; and `edge`, the last scanned key if the scan ended at its limit.
 *
 * @param edge the last scanned sort key; empty if no rows remain
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
