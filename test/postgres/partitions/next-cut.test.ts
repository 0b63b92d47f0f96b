import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { firstIdAt, newId } from '../../../src/core/ids.ts'
import {
  nextCut,
  secondsAhead,
  type TableState,
} from '../../../src/postgres/partitions/next-cut.ts'
import type {
  MonthlyTable,
  NumberedTable,
} from '../../../src/postgres/partitions/partitioned-table.ts'

const NOW_MS = Date.UTC(2026, 10, 22, 15)
const DAY_SECONDS = 86_400

const NUMBERED: NumberedTable = {
  ...{ kind: 'number', table: 'outbox', key: 'seq', widthMin: 100 },
  perDay: async () => 0,
}
const MONTHLY: MonthlyTable = { kind: 'month', table: 'transaction', key: 'id', prefix: 'txn' }
const NEW: TableState = {
  ...{ restFrom: undefined, firstKey: undefined, lastKey: undefined, perDay: 0 },
  nowMs: NOW_MS,
}

describe('a numbered table', () => {
  test('is cut until two days are ahead, each partition as wide as a day and the minimum', () => {
    const rates = fc.record({ last: fc.nat(10 ** 9), perDay: fc.nat(10 ** 7) })
    fc.assert(
      fc.property(rates, ({ last, perDay }) => {
        const width = Math.max(100, perDay)
        let state: TableState = { ...NEW, firstKey: '1', lastKey: `${last}`, perDay }
        const lowers: string[] = []
        for (let cut = nextCut(NUMBERED, state); cut; cut = nextCut(NUMBERED, state)) {
          expect(Number(cut.boundary)).toBeGreaterThanOrEqual(Number(state.restFrom ?? 0) + width)
          lowers.push(cut.suffix)
          state = { ...state, restFrom: cut.boundary }
        }
        expect(new Set(lowers).size).toBe(lowers.length)
        expect(lowers.length).toBeLessThanOrEqual(4)
        expect(Number(state.restFrom) - last).toBeGreaterThan(2 * width)
        expect(Number(state.restFrom) - last).toBeLessThanOrEqual(4 * width)
        expect(secondsAhead(NUMBERED, state)).toBeGreaterThan(2 * DAY_SECONDS)
      }),
    )
  })

  test('has nothing ahead once its last row is in the open-ended partition', () => {
    const state = { ...NEW, firstKey: '1', lastKey: '250', perDay: 100 }
    expect(secondsAhead(NUMBERED, { ...state, restFrom: '300' })).toBe(DAY_SECONDS / 2)
    expect(secondsAhead(NUMBERED, { ...state, restFrom: '200' })).toBe(0)
    expect(secondsAhead(NUMBERED, state)).toBe(0)
    expect(secondsAhead(NUMBERED, { ...state, lastKey: '50' })).toBe(DAY_SECONDS / 2)
    expect(secondsAhead(NUMBERED, NEW)).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('a monthly table', () => {
  const start = (month: number) => firstIdAt('txn', Date.UTC(2026, month))

  test('is cut at the end of this month and of the next', () => {
    const first = nextCut(MONTHLY, NEW)
    expect(first).toEqual({ boundary: start(11), suffix: '2026_11' })
    const second = nextCut(MONTHLY, { ...NEW, restFrom: start(11) })
    expect(second).toEqual({ boundary: start(12), suffix: '2026_12' })
    expect(nextCut(MONTHLY, { ...NEW, restFrom: start(12) })).toBeUndefined()
  })

  test('after a long stop is cut at the end of the present month', () => {
    expect(nextCut(MONTHLY, { ...NEW, restFrom: start(8) })).toEqual({
      ...{ boundary: start(11), suffix: '2026_11' },
    })
  })

  test('has the time until its last boundary ahead', () => {
    const [first, last] = [newId('txn', NOW_MS - 10 * DAY_SECONDS * 1_000), newId('txn', NOW_MS)]
    const state = { ...NEW, firstKey: first, lastKey: last }
    const until = (month: number) => (Date.UTC(2026, month) - NOW_MS) / 1_000
    expect(secondsAhead(MONTHLY, { ...state, restFrom: start(11) })).toBe(until(11))
    expect(secondsAhead(MONTHLY, { ...state, restFrom: start(12) })).toBe(until(12))
    expect(secondsAhead(MONTHLY, { ...state, restFrom: start(10) })).toBe(0)
    expect(secondsAhead(MONTHLY, state)).toBe(0)
    expect(secondsAhead(MONTHLY, { ...state, firstKey: last })).toBe(Number.POSITIVE_INFINITY)
  })
})
