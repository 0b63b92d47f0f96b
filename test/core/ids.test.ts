import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createRequestIds, firstIdAt, newId, newReference } from '../../src/core/ids.ts'

describe('identifiers', () => {
  test('have the prefix and 26 unambiguous characters', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_102_444_800_000 }), (nowMs) => {
        expect(newId('txn', nowMs)).toMatch(/^txn_[0-9a-hjkmnp-tv-z]{26}$/)
      }),
    )
  })

  test('sort by any time, also before 1970 and between two milliseconds', () => {
    const made = fc.integer({ min: 0, max: 4_102_444_800_000 })
    const time = fc.oneof(fc.double({ min: -1e15, max: 4e12, noNaN: true }), fc.integer(), made)
    fc.assert(
      fc.property(made, time, (nowMs, atMs) => {
        expect(newId('x', nowMs) > firstIdAt('x', atMs)).toBe(nowMs >= Math.floor(atMs))
      }),
    )
  })

  test('are unique, also within one millisecond', () => {
    const ids = new Set(Array.from({ length: 50_000 }, () => newId('x', 1)))
    expect(ids.size).toBe(50_000)
  })
})

describe('references', () => {
  test('are R- and 20 characters without look-alikes', () => {
    const references = Array.from({ length: 20_000 }, newReference)
    expect(references.filter((each) => !/^R-[34679ACDEFGHJKMNPQRTWXY]{20}$/.test(each))).toEqual([])
    expect(new Set(references).size).toBe(20_000)
  })

  test('use all characters about equally often', () => {
    const counts = new Map<string, number>()
    const text = Array.from({ length: 11_500 }, () => newReference().slice(2)).join('')
    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
    expect(counts.size).toBe(23)
    // 10,000 are expected of each; the standard deviation is below 100.
    for (const count of counts.values()) expect(Math.abs(count - 10_000)).toBeLessThan(700)
  })
})

test('request ids are unique across instances, and sort by creation within one', () => {
  const [one, other] = [createRequestIds(), createRequestIds()]
  const ids = Array.from({ length: 2_000 }, () => one())
  expect(ids).toEqual([...ids].sort())
  expect(new Set([...ids, ...Array.from({ length: 2_000 }, other)]).size).toBe(4_000)
  expect(ids.filter((id) => !/^req_[0-9a-z]{24}$/.test(id))).toEqual([])
})
