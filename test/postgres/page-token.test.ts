import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Fault } from '../../src/core/errors.ts'
import { cutPage, readPage } from '../../src/postgres/page-token.ts'

interface Row {
  readonly at: number
  readonly id: string
}

const keyOf = (row: Row) => [`${row.at}`, row.id]

/** Reads a sorted list page by page, like a store. */
function pagesOf(rows: readonly Row[], pageSize: number): Row[][] {
  const pages: Row[][] = []
  let token = ''
  do {
    const page = readPage(pageSize, token, 2)
    const after = page.after && ([Number(page.after[0]), page.after[1]] as const)
    const start = after
      ? rows.findIndex((row) => row.at === after[0] && row.id === after[1]) + 1
      : 0
    const cut = cutPage(rows.slice(start, start + page.limit + 1), page, keyOf)
    pages.push([...cut.rows])
    token = cut.nextPageToken
  } while (token !== '' && pages.length < 1_000)
  return pages
}

test('pages add up to the list, and all but the last have the requested size', () => {
  const rows = fc.uniqueArray(fc.record({ at: fc.nat(), id: fc.string() }), {
    selector: (row) => JSON.stringify(row),
    maxLength: 60,
  })
  fc.assert(
    fc.property(rows, fc.integer({ min: 1, max: 20 }), (list, pageSize) => {
      fc.pre(list.every((row) => !row.id.includes('\0')))
      const pages = pagesOf(list, pageSize)
      expect(pages.flat()).toEqual(list)
      expect(pages).toHaveLength(Math.max(1, Math.ceil(list.length / pageSize)))
    }),
  )
})

test('an invalid token is reported with the name of its field in the request', () => {
  const fieldOf = (read: () => unknown) => {
    try {
      return read()
    } catch (error) {
      return (error as Fault).fields.map(({ field }) => field)
    }
  }
  expect(fieldOf(() => readPage(0, 'x', 1))).toEqual(['pageToken'])
  expect(fieldOf(() => readPage(0, 'x', 1, 'page_token'))).toEqual(['page_token'])
})

const tokenOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

test.each([
  ['too few parts', tokenOf(['1'])],
  ['a part with U+0000', tokenOf(['1', 'a\0'])],
])('a token of %s is refused', (_what, token) => {
  expect(() => readPage(10, token, 2)).toThrow(Fault)
})

test('any invalid text throws validation_failed', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.base64String(), fc.json().map(tokenOf)), (token) => {
      try {
        const { after } = readPage(10, token, 2)
        expect(after === undefined || after.length === 2).toBe(true)
      } catch (error) {
        expect(error).toMatchObject({ reason: 'validation_failed' })
      }
    }),
  )
})
