import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { registerSampledGauges } from '../../src/core/sampled-gauges.ts'
import { waitFor } from '../support/wait-for.ts'

/** Two gauges of one sample, and what the next sample is. */
function scene(times: { periodMs?: number; timeoutMs?: number }) {
  const registry = new Registry()
  let next: () => Promise<number> = async () => 1
  let reads = 0
  const read = (): Promise<number> => {
    reads += 1
    return next()
  }
  registerSampledGauges(
    registry,
    read,
    [
      { name: 'plain', help: 'Plain.', measure: (value) => value },
      {
        name: 'labelled',
        help: 'Labelled.',
        labelNames: ['of'],
        measure: (value) => [{ labels: { of: 'a' }, value: 2 * value }],
      },
    ],
    times,
  )
  const values = async () =>
    (await registry.metrics()).split('\n').filter((line) => !line.startsWith('#') && line !== '')
  return {
    values,
    reads: () => reads,
    answer(how: () => Promise<number>) {
      next = how
    },
  }
}

test('gauges and scrapes of a period share one sample', async () => {
  const { values, reads } = scene({ periodMs: 60_000 })
  const scrapes = await Promise.all([values(), values(), values()])
  scrapes.push(await values())
  expect(scrapes).toEqual(Array(4).fill(['plain 1', 'labelled{of="a"} 2']))
  expect(reads()).toBe(1)
})

test('a sample that fails leaves no old value, and the next one counts again', async () => {
  const { values, answer } = scene({ periodMs: 1 })
  expect(await values()).toEqual(['plain 1', 'labelled{of="a"} 2'])
  answer(() => Promise.reject(new Error('the database is gone')))
  await waitFor(async () => expect(await values()).toEqual([]))
  answer(async () => 3)
  await waitFor(async () => expect(await values()).toEqual(['plain 3', 'labelled{of="a"} 6']))
})

test('a scrape does not wait for a sample that takes long, nor begin another one', async () => {
  const { values, answer, reads } = scene({ periodMs: 1, timeoutMs: 20 })
  const slow = Promise.withResolvers<number>()
  answer(() => slow.promise)
  expect(await values()).toEqual([])
  expect(await values()).toEqual([])
  expect(reads()).toBe(1)
  slow.resolve(4)
  answer(async () => 5)
  await waitFor(async () => expect(await values()).toEqual(['plain 5', 'labelled{of="a"} 10']))
})
