import { expect, test } from 'vitest'
import { cutScan, readPage } from '../../src/postgres/page-token.ts'
import { useDatabase } from '../support/database.ts'

const ROWS = 100
const ROWS_MAX = 10

const db = useDatabase(2)

/** Pages of the numbers from 1 to 100 that pass a filter. */
async function pagesOf(order: 'asc' | 'desc', filter: string, pageSize: number) {
  const pages: number[][] = []
  let pageToken = ''
  do {
    const page = readPage(pageSize, pageToken, 1)
    const after = page.after?.[0] ?? (order === 'asc' ? '0' : `${ROWS + 1}`)
    const scanned = `from generate_series(1, ${ROWS}) number
      where number ${order === 'asc' ? '>' : '<'} $1::int order by number ${order}`
    const { rows } = await db.database.durablePool.query<{
      number: number
      read_up_to: number | null
    }>(
      `with page as materialized (
          select * from (select number ${scanned} limit ${ROWS_MAX}) candidate
          where ${filter} order by number ${order} limit $2
        ), edge as (
          select case when (select count(*) from page) < $2 then (
            select number ${scanned} offset ${ROWS_MAX - 1} limit 1
          ) end as read_up_to
        )
        select number, read_up_to from edge left join page on true order by number ${order}`,
      [after, page.limit + 1],
    )
    const found = rows.flatMap(({ number }) => (number === null ? [] : [number]))
    const edge = rows[0]?.read_up_to ? [`${rows[0].read_up_to}`] : undefined
    const cut = cutScan(found, page, (number) => [`${number}`], edge)
    pages.push([...cut.rows])
    pageToken = cut.nextPageToken
  } while (pageToken !== '')
  return pages
}

const numbers = Array.from({ length: ROWS }, (_, i) => i + 1)
const FILTERS: readonly [string, (number: number) => boolean][] = [
  ['true', () => true],
  ['false', () => false],
  ['number % 7 = 0', (number) => number % 7 === 0],
  ['number = 1', (number) => number === 1],
  ['number = 100', (number) => number === 100],
  ['number between 40 and 45', (number) => number >= 40 && number <= 45],
]

test.each(['asc', 'desc'] as const)(
  'pages together are everything that the filter lets through, once, in order (%s)',
  async (order) => {
    for (const [filter, matches] of FILTERS) {
      for (const pageSize of [1, 3, 9, 10, 11, 99, 100, 200]) {
        const pages = await pagesOf(order, filter, pageSize)
        const matching = numbers.filter(matches)
        const expected = order === 'asc' ? matching : matching.reverse()
        expect([filter, pageSize, pages.flat()]).toEqual([filter, pageSize, expected])
        expect(Math.max(...pages.map((page) => page.length))).toBeLessThanOrEqual(pageSize)
      }
    }
  },
)

test('a page ends at the scan bound, and reports that more follow', async () => {
  const pages = await pagesOf('asc', 'number > 95', 50)
  expect(pages).toHaveLength(ROWS / ROWS_MAX + 1)
  expect(pages.slice(0, 9).flat()).toEqual([])
})
