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

/** Expects that the server reads lists of such values as they were written. */
const roundTrip = <T>(values: fc.Arbitrary<T>, readBack: (values: T[]) => Promise<T[]>) =>
  fc.assert(
    fc.asyncProperty(fc.array(values, { maxLength: 40 }), async (list) => {
      expect(await readBack(list)).toEqual(list)
    }),
    { numRuns: 60 },
  )

// PostgreSQL rejects U+0000, and UTF-8 cannot encode lone surrogates.
const texts = fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', '').toWellFormed())

test('texts round-trip, with nulls, empty texts and every script', () =>
  roundTrip(fc.option(texts), (values) => read('text', textArray(values))))

test('a lone surrogate arrives as U+FFFD, and shifts nothing after it', async () => {
  expect(await read('text', textArray(['a\ud800', 'b', '\udc00c']))).toEqual(['a�', 'b', '�c'])
})

test('bytes round-trip, with nulls', () =>
  roundTrip(fc.option(fc.uint8Array()), async (values) => {
    const found = await read<Buffer | null>('bytea', byteaArray(values))
    return found.map((each) => each && new Uint8Array(each))
  }))

test('booleans round-trip, with nulls', () =>
  roundTrip(fc.option(fc.boolean()), (values) => read('boolean', booleanArray(values))))

test('64-bit integers round-trip', () =>
  roundTrip(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), async (values) => {
    return (await read<string>('bigint', bigintArray(values))).map(BigInt)
  }))

test('32-bit integers round-trip', () =>
  roundTrip(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), (values) =>
    read('integer', integerArray(values)),
  ))

test('times round-trip to the millisecond, also before 1970 and 2000', () =>
  roundTrip(fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 }), async (values) => {
    const shown = '(extract(epoch from v) * 1000)::bigint'
    return (await read<string>('timestamptz', timestampArray(values), shown)).map(Number)
  }))
