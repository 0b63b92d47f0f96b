import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type TailEntry, TailWindow } from '../../src/events/tail-window.ts'

const ENTRIES_MAX = 4_096
const BYTES_MAX = 16 * 1024 * 1024

const entry = (position: number, bytes = 1): TailEntry => ({
  position: BigInt(position),
  tag: `t${position}`,
  kind: 'PAYMENT_NOTIFICATION',
  businessId: 'biz_1',
  live: true,
  bytes,
  item: {} as TailEntry['item'],
})
const entries = (first: number, count: number, bytes?: number) =>
  Array.from({ length: count }, (_, index) => entry(first + index, bytes))
const positions = (found: readonly TailEntry[] | undefined) =>
  found?.map(({ position }) => Number(position))
const windowOf = (...batches: readonly (readonly TailEntry[])[]) => {
  const window = new TailWindow()
  for (const batch of batches) window.append(batch)
  return window
}
const next = (window: TailWindow, position: number, tag = '', limit = 100) =>
  positions(window.after({ epoch: 1, position: BigInt(position), tag }, limit))

describe('the window of the newest events', () => {
  test('gives the events after a place that it has, in order and at most as many as asked for', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 1_000 }),
        fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: -3, max: 50 }),
        fc.integer({ min: 1, max: 10 }),
        (first, sizes, offset, limit) => {
          const window = new TailWindow()
          let end = first
          for (const size of sizes) {
            window.append(entries(end, size))
            end += size
          }
          const at = first + offset
          const isInside = end > first && at >= first - 1 && at < end
          const expected = Array.from(
            { length: Math.min(limit, end - at - 1) },
            (_, i) => at + 1 + i,
          )
          expect(next(window, at, '', limit)).toEqual(isInside ? expected : undefined)
          expect(window.size).toBe(end - first)
          expect(window.last?.position).toBe(end > first ? BigInt(end - 1) : undefined)
        },
      ),
    )
  })

  test('does not have a place whose event is another one, as after a restore', () => {
    const window = windowOf(entries(10, 3))
    expect(next(window, 11, 't11')).toEqual([12])
    expect(next(window, 11, 't99')).toBeUndefined()
    // The event before the first one is not known: its position decides.
    expect(next(window, 9, 't9')).toEqual([10, 11, 12])
    expect(next(window, 12, 't12')).toEqual([])
    expect(next(window, 13, 't13')).toBeUndefined()
  })

  test('drops the oldest events beyond its number, also within one batch', () => {
    const window = windowOf(entries(1, ENTRIES_MAX))
    expect(window.size).toBe(ENTRIES_MAX)
    window.append(entries(ENTRIES_MAX + 1, 2))
    expect(window.size).toBe(ENTRIES_MAX)
    expect(next(window, 1)).toBeUndefined()
    expect(next(window, 2, '', 1)).toEqual([3])
    expect(windowOf(entries(1, ENTRIES_MAX + 5)).size).toBe(ENTRIES_MAX)
  })

  test('drops the oldest events beyond its bytes, and counts those that are left', () => {
    const window = windowOf(entries(1, 4, BYTES_MAX / 4))
    expect(window.size).toBe(4)
    window.append([entry(5, 1)])
    expect(next(window, 1)).toEqual([2, 3, 4, 5])
    expect(window.size).toBe(4)
    window.append([entry(6, BYTES_MAX / 4 - 1)])
    expect(window.size).toBe(5)
    window.append([entry(7, BYTES_MAX)])
    expect(positions([window.last!])).toEqual([7])
    expect(window.size).toBe(1)
    window.append([entry(8, BYTES_MAX + 1)])
    expect(window.size).toBe(0)
  })

  test('is empty after it was cleared, and counts bytes from there', () => {
    const window = windowOf(entries(1, 3, BYTES_MAX / 4))
    window.clear()
    expect([window.size, window.last, next(window, 0)]).toEqual([0, undefined, undefined])
    window.append(entries(7, 4, BYTES_MAX / 4))
    expect(next(window, 6)).toEqual([7, 8, 9, 10])
  })
})
