import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Fault } from '../../src/core/errors.ts'
import { createBatcher, createIsolatingBatcher } from '../../src/postgres/batcher.ts'

interface Held {
  readonly items: readonly number[]
  readonly finish: () => void
  readonly fail: (error: Error) => void
}

/** A batcher whose batches the test completes. */
function held(
  bounds: { itemsMax?: number; batchesMax?: number; queueMax?: number; deadlineMs?: number } = {},
) {
  const batches: Held[] = []
  const waiting = new Set<() => void>()
  const call = createBatcher<number, number>({
    itemsMax: 3,
    batchesMax: 2,
    queueMax: 100,
    ...bounds,
    run: (items) =>
      new Promise((resolve, reject) => {
        const finish = () => resolve(items.map((item) => item * 10))
        batches.push({ items, finish, fail: reject })
        for (const look of waiting) look()
      }),
  })
  /** Resolves when this many batches have started. */
  const started = (count: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (batches.length < count) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return { call, batches, started }
}

test('rejects calls beyond the bound of the queue as unavailable', async () => {
  const { call, batches, started } = held({ batchesMax: 1, itemsMax: 1, queueMax: 2 })
  const first = call(1)
  await started(1)
  const waiting = [2, 3].map(call)
  const refusal = await call(4).catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(Fault)
  expect(refusal).toMatchObject({ reason: 'unavailable', retryAfterSeconds: 1 })
  batches[0]!.finish()
  await first
  await started(2)
  const accepted = call(5)
  for (const at of [1, 2, 3]) {
    await started(at + 1)
    batches[at]!.finish()
  }
  expect(await Promise.all([...waiting, accepted])).toEqual([20, 30, 50])
})

test('a batch that never ends fails its callers and those who wait, and frees its place', async () => {
  const { call, batches, started } = held({ batchesMax: 1, itemsMax: 1, deadlineMs: 50 })
  const late = await Promise.all([1, 2].map((item) => call(item).catch((error: unknown) => error)))
  for (const error of late) {
    expect(error).toBeInstanceOf(Fault)
    expect(error).toMatchObject({ reason: 'unavailable', retryAfterSeconds: 1 })
  }
  const next = call(3)
  await started(2)
  expect(batches.map(({ items }) => items)).toEqual([[1], [3]])
  // A result that comes too late changes nothing.
  batches[0]!.finish()
  batches[1]!.finish()
  expect(await next).toBe(30)
})

test('every call gets its own result in batches within the bounds, for any arrival order', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.integer(), { maxLength: 20 }), { maxLength: 6 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 3 }),
      fc.scheduler(),
      async (bursts, itemsMax, batchesMax, scheduler) => {
        let inProgress = 0
        const call = createBatcher<number, number>({
          itemsMax,
          batchesMax,
          queueMax: 1_000,
          run: async (items) => {
            inProgress += 1
            expect(inProgress).toBeLessThanOrEqual(batchesMax)
            expect(items.length).toBeLessThanOrEqual(itemsMax)
            await new Promise((resolve) => setImmediate(resolve))
            inProgress -= 1
            return items.map((item) => item * 2)
          },
        })
        const calls = bursts.map((burst) =>
          scheduler.schedule(Promise.resolve()).then(() => Promise.all(burst.map(call))),
        )
        await scheduler.waitAll()
        expect(await Promise.all(calls)).toEqual(
          bursts.map((burst) => burst.map((item) => item * 2)),
        )
      },
    ),
    { numRuns: 50 },
  ))

describe('a batch that is halved', () => {
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
})
