import { expect, test } from 'vitest'
import { shareResult } from '../../src/core/concurrency.ts'

/** A result that counts how often it was computed, and a clock. */
function createScene(ageMs = 0) {
  const scene = { nowMs: 0, computed: 0, fails: false }
  const compute = async () => {
    const atMs = scene.nowMs - ageMs
    scene.computed += 1
    if (scene.fails) throw new Error('cannot')
    return { value: scene.computed, atMs }
  }
  const read = shareResult(compute, 1_000, () => scene.nowMs)
  return { scene, read: async () => (await read()).value }
}

test('concurrent callers, and those within the period, share one result', async () => {
  const { scene, read } = createScene()
  expect(await Promise.all([read(), read(), read()])).toEqual([1, 1, 1])
  scene.nowMs = 999
  expect(await read()).toBe(1)
  scene.nowMs = 1_000
  expect(await read()).toBe(2)
})

test('a failure is shared as well', async () => {
  const { scene, read } = createScene()
  scene.fails = true
  await expect(read()).rejects.toThrow('cannot')
  scene.fails = false
  await expect(read()).rejects.toThrow('cannot')
  scene.nowMs = 1_000
  expect(await read()).toBe(2)
})

test('a result of an earlier time is shared for the rest of its period', async () => {
  const { scene, read } = createScene(800)
  expect(await read()).toBe(1)
  scene.nowMs = 199
  expect(await read()).toBe(1)
  scene.nowMs = 200
  expect(await read()).toBe(2)
})
