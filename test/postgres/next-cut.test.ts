import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { firstIdAt, newId } from '../../src/core/ids.ts'
import { nextCut, secondsAhead } from '../../src/postgres/next-cut.ts'
import type { NumberedTable, TableState, TimedTable } from '../../src/postgres/partitions.ts'

const NOW_MS = Date.UTC(2026, 10, 22, 15)
const DAY_SECONDS = 86_400

const NUMBERED: NumberedTable = {
  kind: 'number',
  table: 'outbox',
  key: 'seq',
  widthMin: 100,
  perDay: async () => 0,
}
const TIMED: TimedTable = {
  kind: 'time',
  table: 'transaction',
  key: 'id',
  prefix: 'txn',
  perDay: async () => 0,
}
const NEW: TableState = {
  restFrom: undefined,
  firstKey: undefined,
  lastKey: undefined,
  perDay: 0,
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

describe('a timed table', () => {
  const start = (month: number) => firstIdAt('txn', Date.UTC(2026, month))
  const MONTHLY = { ...NEW, perDay: 8_200_000 }
  const QUARTERLY = { ...NEW, perDay: 2_700_000 }
  const YEARLY = { ...NEW, perDay: 680_000 }

  test('is cut until the end of the next month, at the end of a period', () => {
    const cutsOf = (first: TableState) => {
      const cuts = []
      let state = first
      for (let cut = nextCut(TIMED, state); cut; cut = nextCut(TIMED, state)) {
        cuts.push(cut)
        state = { ...state, restFrom: cut.boundary }
      }
      return cuts
    }
    expect(cutsOf(MONTHLY)).toEqual([
      { boundary: start(11), suffix: '2026_11' },
      { boundary: start(12), suffix: '2026_12' },
    ])
    expect(cutsOf(QUARTERLY)).toEqual([{ boundary: start(12), suffix: '2026_12' }])
    expect(cutsOf(YEARLY)).toEqual([{ boundary: start(12), suffix: '2026_12' }])
    const nowMs = Date.UTC(2026, 11, 1)
    expect(cutsOf({ ...QUARTERLY, nowMs, restFrom: start(12) })).toEqual([
      { boundary: start(15), suffix: '2027_03' },
    ])
    expect(cutsOf({ ...YEARLY, nowMs, restFrom: start(12) })).toEqual([
      { boundary: start(24), suffix: '2027_12' },
    ])
  })

  test('has a longer period only while a partition stays below 250 million rows', () => {
    const periodAt = (perDay: number) => {
      const nowMs = Date.UTC(2026, 11, 1)
      const cut = nextCut(TIMED, { ...NEW, nowMs, perDay, restFrom: start(12) })
      return [1, 3, 12].find((months) => start(12 + months) === cut?.boundary)
    }
    expect([683_000, 684_000, 2_732_000, 2_733_000].map(periodAt)).toEqual([12, 3, 3, 1])
  })

  test('after a long stop is cut at the end of the present period', () => {
    const cut = { boundary: start(11), suffix: '2026_11' }
    expect(nextCut(TIMED, { ...MONTHLY, restFrom: start(8) })).toEqual(cut)
  })

  test('has the time until its last boundary ahead', () => {
    const [first, last] = [newId('txn', NOW_MS - 10 * DAY_SECONDS * 1_000), newId('txn', NOW_MS)]
    const state = { ...NEW, firstKey: first, lastKey: last }
    const until = (month: number) => (Date.UTC(2026, month) - NOW_MS) / 1_000
    expect(secondsAhead(TIMED, { ...state, restFrom: start(11) })).toBe(until(11))
    expect(secondsAhead(TIMED, { ...state, restFrom: start(12) })).toBe(until(12))
    expect(secondsAhead(TIMED, { ...state, restFrom: start(24) })).toBe(until(24))
    expect(secondsAhead(TIMED, { ...state, restFrom: start(10) })).toBe(0)
    expect(secondsAhead(TIMED, state)).toBe(0)
    expect(secondsAhead(TIMED, { ...state, firstKey: last })).toBe(Number.POSITIVE_INFINITY)
  })
})
