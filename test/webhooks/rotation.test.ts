import { expect, test } from 'vitest'
import { createRotation } from '../../src/webhooks/rotation.ts'

test('the next walk begins after the endpoint that was served last', () => {
  const rotation = createRotation(3)
  expect(rotation.after()).toBe('')
  rotation.served('b')
  expect(rotation.after()).toBe('b')
})

test('walks go on from where the last ended, and a whole round without a claim ends the work', () => {
  const rotation = createRotation(2)
  rotation.served('a')
  expect(rotation.unserved(['b', 'c'])).toBe(true)
  expect(rotation.after()).toBe('c')
  // The end of the round in which there was a claim: one more round.
  expect(rotation.unserved([])).toBe(true)
  expect(rotation.after()).toBe('')
  expect(rotation.unserved(['a', 'b'])).toBe(true)
  expect(rotation.unserved(['c'])).toBe(false)
  expect(rotation.after()).toBe('')
})
