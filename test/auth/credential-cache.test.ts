import { expect, test } from 'vitest'
import { createCredentialCache, type Found } from '../../src/auth/credential-cache.ts'

function setUp() {
  let nowMs = 1_000_000
  let lookups = 0
  let stored: Found<string> | undefined = { value: 'ada', expiresAtMs: undefined }
  const cache = createCredentialCache<string>({ now: () => nowMs })
  const waiting: (() => void)[] = []
  return {
    lookUp: (credential = 'd') =>
      cache(credential, async () => {
        lookups += 1
        return stored
      }),
    /** Returns when `release` is called. */
    lookUpSlowly: () =>
      cache('d', async () => {
        lookups += 1
        const found = stored
        await new Promise<void>((resolve) => waiting.push(resolve))
        return found
      }),
    forget: () => cache.forget('d'),
    fail: () =>
      cache('d', async () => {
        lookups += 1
        throw new Error('unavailable')
      }),
    release: () => {
      for (const resolve of waiting.splice(0)) resolve()
    },
    advance: (ms: number) => {
      nowMs += ms
    },
    setStored: (found: Found<string> | undefined) => {
      stored = found
    },
    lookups: () => lookups,
    nowMs: () => nowMs,
  }
}

test('caches a credential for less than a second after the look-up started', async () => {
  const { lookUp, advance, setStored, lookups } = setUp()
  expect(await lookUp()).toBe('ada')
  setStored(undefined)
  advance(799)
  expect(await lookUp()).toBe('ada')
  expect(lookups()).toBe(1)
  advance(1)
  expect(await lookUp()).toBeUndefined()
  expect(lookups()).toBe(2)
})

test('looks an unknown credential up again each time', async () => {
  const { lookUp, setStored, lookups } = setUp()
  setStored(undefined)
  expect(await lookUp()).toBeUndefined()
  setStored({ value: 'ada', expiresAtMs: undefined })
  expect(await lookUp()).toBe('ada')
  expect(lookups()).toBe(2)
})

test('refuses an expired credential, also while it is cached', async () => {
  const { lookUp, advance, setStored, nowMs, lookups } = setUp()
  setStored({ value: 'ada', expiresAtMs: nowMs() })
  expect(await lookUp()).toBeUndefined()
  setStored({ value: 'ada', expiresAtMs: nowMs() + 100 })
  expect(await lookUp()).toBe('ada')
  advance(99)
  expect(await lookUp()).toBe('ada')
  advance(1)
  expect(await lookUp()).toBeUndefined()
  expect(lookups()).toBe(3)
})

test('shares one look-up between concurrent calls, unless it started too long ago', async () => {
  const { lookUpSlowly, release, advance, lookups, setStored } = setUp()
  const together = [lookUpSlowly(), lookUpSlowly(), lookUpSlowly()]
  expect(lookups()).toBe(1)
  advance(800)
  setStored(undefined)
  const later = lookUpSlowly()
  expect(lookups()).toBe(2)
  release()
  expect(await Promise.all(together)).toEqual(['ada', 'ada', 'ada'])
  expect(await later).toBeUndefined()
})

test('a clock that is set back extends no cache entry, and no look-up from its future is shared', async () => {
  const { lookUp, lookUpSlowly, release, advance, setStored, lookups } = setUp()
  expect(await lookUp()).toBe('ada')
  setStored(undefined)
  advance(-3_600_000)
  expect(await lookUp()).toBeUndefined()
  const before = lookUpSlowly()
  advance(-1)
  const after = lookUpSlowly()
  expect(lookups()).toBe(4)
  release()
  await Promise.all([before, after])
})

test('returns a cached credential synchronously, and evicts the oldest of too many', async () => {
  const { lookUp, lookups } = setUp()
  await lookUp('first')
  expect(lookUp('first')).toBe('ada')
  for (let each = 0; each < 10_000; each++) await lookUp(`${each}`)
  expect(await lookUp('first')).toBe('ada')
  expect(lookups()).toBe(10_001)
  for (let each = 0; each < 20_000; each++) await lookUp(`other-${each}`)
  await lookUp('first')
  expect(lookups()).toBe(30_002)
})

test('forgets a credential at once, also what a look-up in progress will find', async () => {
  const { lookUp, lookUpSlowly, forget, release, setStored, lookups } = setUp()
  expect(await lookUp()).toBe('ada')
  forget()
  const before = lookUpSlowly()
  setStored(undefined)
  forget()
  expect(await lookUp()).toBeUndefined()
  release()
  expect(await before).toBe('ada')
  expect(await lookUp()).toBeUndefined()
  expect(lookups()).toBe(4)
})

test('does not cache the result of a look-up that took too long', async () => {
  const { lookUpSlowly, release, advance, lookUp, setStored } = setUp()
  const slow = lookUpSlowly()
  advance(900)
  setStored(undefined)
  release()
  expect(await slow).toBe('ada')
  expect(await lookUp()).toBeUndefined()
})

test('reports a failed look-up to all waiting calls, and does not cache it', async () => {
  const { fail, lookUp } = setUp()
  await expect(Promise.all([fail(), fail()])).rejects.toThrow('unavailable')
  expect(await lookUp()).toBe('ada')
})

test('a look-up that outlives the cache disturbs neither its own callers nor those of the next one', async () => {
  let nowMs = 1_000_000
  const cache = createCredentialCache<string>({ now: () => nowMs })
  const lookups: PromiseWithResolvers<Found<string>>[] = []
  const lookUp = async () =>
    cache('d', () => {
      const lookup = Promise.withResolvers<Found<string>>()
      lookups.push(lookup)
      return lookup.promise
    })
  const finish = (at: number) => lookups[at]?.resolve({ value: `${at}`, expiresAtMs: undefined })
  const first = lookUp()
  nowMs += 800
  const second = lookUp()
  finish(0)
  expect(await first).toBe('0')
  // The second look-up is still the one that is shared.
  const shared = lookUp()
  expect(lookups).toHaveLength(2)
  finish(1)
  expect(await Promise.all([second, shared])).toEqual(['1', '1'])
  nowMs += 800
  const third = lookUp()
  nowMs += 800
  const fourth = lookUp()
  finish(3)
  expect(await fourth).toBe('3')
  finish(2)
  expect(await third).toBe('2')
})
