import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  bigintArray,
  booleanArray,
  byteaArray,
  integerArray,
  textArray,
  timestampArray,
} from '../../src/postgres/binary-arrays.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase(4)

/** How PostgreSQL reads an array parameter. */
async function read<T>(type: string, parameter: Buffer, shown = 'v'): Promise<T[]> {
  const { rows } = await db.database.durablePool.query(
    `select ${shown} as v from unnest($1::${type}[]) with ordinality as a(v, at) order by at`,
    [parameter],
  )
  return rows.map((row) => row.v)
}

const RUNS = { numRuns: 60 }
const list = <T>(values: fc.Arbitrary<T>) => fc.array(values, { maxLength: 40 })

// PostgreSQL rejects U+0000, and UTF-8 cannot encode lone surrogates.
const texts = fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', '').toWellFormed())

test('texts round-trip, with nulls, empty texts and every script', () =>
  fc.assert(
    fc.asyncProperty(list(fc.option(texts)), async (values) => {
      expect(await read('text', textArray(values))).toEqual(values)
    }),
    RUNS,
  ))

test('a lone surrogate arrives as U+FFFD, and shifts nothing after it', async () => {
  expect(await read('text', textArray(['a\ud800', 'b', '\udc00c']))).toEqual(['a�', 'b', '�c'])
})

test('bytes round-trip, with nulls', () =>
  fc.assert(
    fc.asyncProperty(list(fc.option(fc.uint8Array())), async (values) => {
      const found = await read<Buffer | null>('bytea', byteaArray(values))
      expect(found.map((each) => each && [...each])).toEqual(
        values.map((each) => each && [...each]),
      )
    }),
    RUNS,
  ))

test('booleans round-trip, with nulls', () =>
  fc.assert(
    fc.asyncProperty(list(fc.option(fc.boolean())), async (values) => {
      expect(await read('boolean', booleanArray(values))).toEqual(values)
    }),
    RUNS,
  ))

test('64-bit integers round-trip', () =>
  fc.assert(
    fc.asyncProperty(
      list(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
      async (values) => {
        expect(await read('bigint', bigintArray(values))).toEqual(values.map(String))
      },
    ),
    RUNS,
  ))

test('32-bit integers round-trip', () =>
  fc.assert(
    fc.asyncProperty(list(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })), async (values) => {
      expect(await read('integer', integerArray(values))).toEqual(values)
    }),
    RUNS,
  ))

test('times round-trip to the millisecond, also before 1970 and 2000', () =>
  fc.assert(
    fc.asyncProperty(
      list(fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 })),
      async (values) => {
        const shown = '(extract(epoch from v) * 1000)::bigint'
        expect(await read('timestamptz', timestampArray(values), shown)).toEqual(values.map(String))
      },
    ),
    RUNS,
  ))

test('arrays of the same length unnest to rows, whatever they contain', async () => {
  const rows = 5_000
  const numbers = Array.from({ length: rows }, (_, index) => index)
  const { rows: found } = await db.database.durablePool.query(
    `select count(*)::int as count from unnest($1::text[], $2::bigint[], $3::bytea[]) as r(t, n, b)
      where t = 'é' || n and b = decode(lpad(to_hex(n), 8, '0'), 'hex')`,
    [
      textArray(numbers.map((n) => `é${n}`)),
      bigintArray(numbers.map(BigInt)),
      byteaArray(
        numbers.map((n) => {
          const bytes = Buffer.alloc(4)
          bytes.writeInt32BE(n)
          return bytes
        }),
      ),
    ],
  )
  expect(found[0].count).toBe(rows)
})
