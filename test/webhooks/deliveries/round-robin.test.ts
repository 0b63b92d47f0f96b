import { expect, test } from 'vitest'
import { createRoundRobin } from '../../../src/webhooks/deliveries/round-robin.ts'

const pending = (...ids: string[]) => ids.map((id) => ({ id, concurrency: 1, due: true }))

test('where all fit into one walk, those after the one that was served last come first', () => {
  const rotation = createRoundRobin(5)
  const all = pending('a', 'b', 'c', 'd')
  expect(rotation.inTurn(all)).toEqual(all)
  expect(rotation.ended(all, 'b')).toBe(false)
  expect(rotation.after()).toBe('')
  expect(rotation.inTurn(all).map(({ id }) => id)).toEqual(['c', 'd', 'a', 'b'])
})

test('walks go on from where the last ended, and a whole round without a claim ends the work', () => {
  const rotation = createRoundRobin(2)
  expect(rotation.ended(pending('a', 'b'), 'b')).toBe(true)
  expect(rotation.after()).toBe('b')
  expect(rotation.ended(pending('c', 'd'), undefined)).toBe(true)
  expect(rotation.after()).toBe('d')
  // The end of the round in which there was a claim: one more round.
  expect(rotation.ended([], undefined)).toBe(true)
  expect(rotation.after()).toBe('')
  expect(rotation.ended(pending('a', 'b'), undefined)).toBe(true)
  expect(rotation.ended(pending('c'), undefined)).toBe(false)
  expect(rotation.after()).toBe('')
})
