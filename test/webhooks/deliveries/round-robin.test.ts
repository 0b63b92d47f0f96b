import { expect, test } from 'vitest'
import { createRoundRobin } from '../../../src/webhooks/deliveries/round-robin.ts'

const pending = (...ids: string[]) => ids.map((id) => ({ id, concurrency: 1, due: true }))

test('in a single page, the endpoints after the one served last come first', () => {
  const roundRobin = createRoundRobin(5)
  const all = pending('a', 'b', 'c', 'd')
  expect(roundRobin.order(all)).toEqual(all)
  expect(roundRobin.advance(all, 'b')).toBe(false)
  expect(roundRobin.after()).toBe('')
  expect(roundRobin.order(all).map(({ id }) => id)).toEqual(['c', 'd', 'a', 'b'])
})

test('pages continue after the last one, and a full round without a claim ends the work', () => {
  const roundRobin = createRoundRobin(2)
  expect(roundRobin.advance(pending('a', 'b'), 'b')).toBe(true)
  expect(roundRobin.after()).toBe('b')
  expect(roundRobin.advance(pending('c', 'd'), undefined)).toBe(true)
  expect(roundRobin.after()).toBe('d')
  // The round had a claim, so there is one more round.
  expect(roundRobin.advance([], undefined)).toBe(true)
  expect(roundRobin.after()).toBe('')
  expect(roundRobin.advance(pending('a', 'b'), undefined)).toBe(true)
  expect(roundRobin.advance(pending('c'), undefined)).toBe(false)
  expect(roundRobin.after()).toBe('')
})

test('a first round without a claim ends the work', () => {
  const roundRobin = createRoundRobin(3)
  expect(roundRobin.advance(pending('a', 'b', 'c'), undefined)).toBe(true)
  expect(roundRobin.after()).toBe('c')
  expect(roundRobin.advance(pending('d'), undefined)).toBe(false)
})
