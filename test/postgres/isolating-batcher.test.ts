import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createIsolatingBatcher } from '../../src/postgres/batcher.ts'

const BOUNDS = { itemsMax: 256, batchesMax: 1, queueMax: 1_000 }

const settled = (calls: Promise<number>[]) =>
  Promise.all(calls.map((call) => call.catch((error: Error) => error.message)))

test('only bad calls fail, whichever they are and whatever is done before they fail, within two runs a call', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ isBad: fc.boolean(), isDoneFirst: fc.boolean() }), { maxLength: 256 }),
      async (items) => {
        let runs = 0
        const done: (typeof items)[number][] = []
        const call = createIsolatingBatcher<(typeof items)[number], number>({
          ...BOUNDS,
          run: async (calls) => {
            runs += 1
            const finish = (each: (typeof calls)[number]) => {
              done.push(each.item)
              each.result = 1
            }
            const isFirst = ({ item }: (typeof calls)[number]) => item.isDoneFirst && !item.isBad
            for (const each of calls) if (isFirst(each)) finish(each)
            if (calls.some(({ item }) => item.isBad)) throw new Error('bad')
            for (const each of calls) if (!isFirst(each)) finish(each)
          },
        })
        expect(await settled(items.map(call))).toEqual(
          items.map(({ isBad }) => (isBad ? 'bad' : 1)),
        )
        // Nothing is done twice.
        expect(done).toHaveLength(items.filter(({ isBad }) => !isBad).length)
        expect(runs).toBeLessThanOrEqual(2 * items.length)
      },
    ),
    { numRuns: 100 },
  ))

test('if the database is unavailable, no further run is tried, and what is done is kept', async () => {
  const unavailable = Object.assign(new Error('shutting down'), { code: '57P01' })
  let runs = 0
  const call = createIsolatingBatcher<number, number>({
    ...BOUNDS,
    run: async (calls) => {
      runs += 1
      if (calls.length > 2) throw new Error('bad')
      for (const each of calls.slice(0, 1)) each.result = each.item
      throw unavailable
    },
  })
  expect(await settled([1, 2, 3, 4, 5, 6, 7, 8].map(call))).toEqual([
    1,
    ...new Array(7).fill('shutting down'),
  ])
  expect(runs).toBe(3)
})
