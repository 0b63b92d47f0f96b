import fc from 'fast-check'
import { expect, test } from 'vitest'
import { generator } from '../support/random.ts'
import { type Placement, simulateCells } from './cells.ts'
import { createBusinesses, demandAt, HOURS_PER_DAY } from './demand.ts'

const PLACEMENTS = ['hash', 'two', 'moves'] satisfies Placement[]

const market = (seed: number, businesses: number) =>
  createBusinesses({ random: generator(seed), businesses, perSecond: 1_000, skew: 0.9 })

const run = (seed: number, placement: Placement, businesses = market(seed, 300)) => {
  const options = { random: generator(seed), businesses, cells: 6, capacity: 400, days: 4 }
  return simulateCells({ ...options, placement })
}

test('the demand of the first day is what was asked for, apart from bursts and growth', () => {
  const businesses = market(1, 2_000).map((business) => ({ ...business, burst: 1 }))
  const hours = Array.from({ length: HOURS_PER_DAY }, (_, hour) => hour)
  const total = hours.reduce(
    (sum, hour) => sum + businesses.reduce((all, each) => all + demandAt(each, hour), 0),
    0,
  )
  expect(total / HOURS_PER_DAY / 1_000).toBeCloseTo(1, 1)
})

test('each business is on one cell, whatever the placement, and a seed repeats it', () => {
  fc.assert(
    fc.property(fc.nat(10_000), fc.constantFrom(...PLACEMENTS), (seed, placement) => {
      const report = run(seed, placement)
      expect(report.cellOf).toHaveLength(300)
      expect(report.cellOf.every((cell) => cell >= 0 && cell < 6)).toBe(true)
      expect(report.imbalance).toBeGreaterThanOrEqual(1)
      expect(run(seed, placement)).toEqual(report)
    }),
    { numRuns: 10 },
  )
})

test('a directory spreads businesses more evenly than a hash, and moves make it more even still', () => {
  const seeds = Array.from({ length: 12 }, (_, seed) => seed)
  const imbalanceOf = (placement: Placement) =>
    seeds.reduce((sum, seed) => sum + run(seed, placement).imbalance, 0) / seeds.length
  const [hash, two, moves] = PLACEMENTS.map(imbalanceOf) as [number, number, number]
  expect(two).toBeLessThan(hash)
  expect(moves).toBeLessThan(two)
})

test('moves are few, and none are made between cells that are even', () => {
  expect(run(3, 'moves').movesPerNight).toBeLessThanOrEqual(20)
  const even = market(3, 300).map((business) => ({
    ...business,
    perSecond: 1,
    burst: 1,
    monthlyGrowth: 1,
  }))
  const placed = simulateCells({
    random: () => 0,
    businesses: even.slice(0, 1),
    cells: 1,
    capacity: 400,
    days: 2,
    placement: 'moves',
  })
  expect(placed).toMatchObject({ movesPerNight: 0, imbalance: 1 })
})
