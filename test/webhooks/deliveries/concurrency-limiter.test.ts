import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  type AttemptResult,
  type ConcurrencyLimiter,
  createConcurrencyLimiter,
} from '../../../src/webhooks/deliveries/concurrency-limiter.ts'

const limits = {
  healthyMax: 3,
  degradedMax: 2,
  rejectedPauseMaxMs: 250,
  noResponsePauseMaxMs: 2_000,
}
const WITHOUT_PAUSES = { ...limits, rejectedPauseMaxMs: 0, noResponsePauseMaxMs: 0 }
const REMEMBERED_MAX = 10_000

let nowMs: number
let limiter: ConcurrencyLimiter

function useLimits(changed: Partial<typeof limits>): void {
  limiter = createConcurrencyLimiter({ ...limits, ...changed }, () => nowMs)
}

beforeEach(() => {
  nowMs = 1_000_000
  useLimits({})
})

const none = () => 0
const start = (...ids: readonly string[]) => {
  for (const id of ids) limiter.started(id)
}
function attempt(id: string, result: AttemptResult, times = 1, latencyMs = 1_000): void {
  for (let each = 0; each < times; each++) {
    limiter.started(id)
    limiter.finished(id, result, latencyMs)
  }
}
const endpoints = (concurrency: number, ...ids: readonly string[]) =>
  ids.map((id) => ({ id, concurrency }))
const shareOf = (concurrency: number, waiting = 0) =>
  limiter.allot(endpoints(concurrency, 'ep'), () => waiting)[0]?.share

describe('an endpoint', () => {
  test('is degraded from a failure or a slow attempt until it acknowledges', () => {
    const isDegraded = (
      ['acknowledged', 'rejected', 'acknowledged', 'slow', 'slow', 'acknowledged'] as const
    ).map((result) => {
      attempt('ep', result)
      return limiter.isDegraded('ep')
    })
    expect(isDegraded).toEqual([false, true, false, true, true, false])
  })

  test('has a limit that starts low, grows with each success and falls to one with a failure', () => {
    useLimits(WITHOUT_PAUSES)
    const shareAfter = (result: AttemptResult, times = 1) => {
      attempt('ep', result, times, 10_000)
      return shareOf(4)
    }
    expect(shareOf(4)).toBe(2)
    expect([shareAfter('acknowledged'), shareAfter('acknowledged', 5)]).toEqual([3, 4])
    expect([shareAfter('rejected'), shareAfter('rejected')]).toEqual([1, 1])
    expect(shareAfter('acknowledged')).toBe(2)
  })

  test('that acknowledges slowly gets more requests at once, up to five, until one fails', () => {
    useLimits({ degradedMax: 50 })
    const shareAfter = (result: 'slow' | 'rejected') => {
      limiter.started('ep')
      limiter.markSlow('ep')
      limiter.finished('ep', result, 9_000)
      return shareOf(10)
    }
    expect(Array.from({ length: 6 }, () => shareAfter('slow'))).toEqual([2, 3, 4, 5, 5, 5])
    expect(limiter.isDegraded('ep')).toBe(true)
    expect([shareAfter('rejected'), shareAfter('slow')]).toEqual([1, 2])
  })

  test('counts as slow sooner while it has never responded', () => {
    const slowAfter = (['no_response', 'rejected'] as const).map((result) => {
      attempt('ep', result)
      return limiter.slowAfterMs('ep')
    })
    expect(slowAfter).toEqual([500, 2_000])
  })

  test('may start as many attempts as its limit and its setting allow', () => {
    limiter.allot(endpoints(4, 'ep'), none)
    expect([0, 1, 2].map((waiting) => limiter.wantsMore('ep', waiting))).toEqual([
      true,
      true,
      false,
    ])
    start('ep')
    expect([limiter.mayStart('ep'), limiter.wantsMore('ep', 1)]).toEqual([true, false])
    start('ep')
    expect(limiter.mayStart('ep')).toBe(false)
    // Its setting is lower than the limit that it begins with.
    limiter.allot(endpoints(1, 'narrow'), none)
    start('narrow')
    expect([limiter.mayStart('narrow'), limiter.wantsMore('narrow', 1)]).toEqual([false, false])
  })

  test('that fails repeatedly gets pauses that grow up to a limit; a success ends them', () => {
    /** How long until the endpoint may be attempted again. */
    const pause = () => {
      const fromMs = nowMs
      while (shareOf(4) === undefined) {
        expect(limiter.wantsMore('ep', 0)).toBe(false)
        nowMs += limiter.resumesInMs()
      }
      expect(limiter.wantsMore('ep', 0)).toBe(true)
      expect(limiter.resumesInMs()).toBe(Number.POSITIVE_INFINITY)
      return nowMs - fromMs
    }
    const pauses = (result: 'rejected' | 'no_response') =>
      Array.from({ length: 10 }, () => {
        attempt('ep', result, 1, 10)
        return pause()
      })
    expect(pauses('no_response')).toEqual([0, 0, 0, 50, 100, 200, 400, 800, 1_600, 2_000])
    attempt('ep', 'acknowledged')
    expect(pause()).toBe(0)
    expect(pauses('rejected')).toEqual([0, 0, 0, 50, 100, 200, 250, 250, 250, 250])
    // Other endpoints are not affected.
    attempt('ep', 'rejected')
    const allotted = limiter.allot(endpoints(4, 'ep', 'other'), none)
    expect(allotted.map(({ endpointId }) => endpointId)).toEqual(['other'])
  })
})

describe('the capacity', () => {
  test('of degraded endpoints is separate, and they take none from healthy ones', () => {
    useLimits(WITHOUT_PAUSES)
    const dead = Array.from({ length: 20 }, (_, index) => `dead${index}`)
    for (const id of dead) attempt(id, 'no_response')
    start('hangs')
    limiter.markSlow('hangs')
    expect(limiter.allot(endpoints(4, 'well', ...dead), none)).toEqual([
      { endpointId: 'well', share: 2 },
      { endpointId: 'dead0', share: 1 },
    ])
    expect([limiter.wantsMore('dead0', 0), limiter.mayStart('dead0')]).toEqual([true, true])
    start('hangs')
    expect([limiter.wantsMore('dead0', 0), limiter.mayStart('dead0')]).toEqual([false, false])
    expect([limiter.wantsMore('well', 0), limiter.mayStart('well')]).toEqual([true, true])
  })

  test('is freed by an attempt that becomes slow', () => {
    start('a', 'a', 'b')
    expect(limiter.mayStart('well')).toBe(false)
    // A claim may still wait here.
    expect(limiter.allot(endpoints(4, 'well'), none)).toEqual([{ endpointId: 'well', share: 2 }])
    limiter.markSlow('a')
    expect(limiter.mayStart('well')).toBe(true)
  })

  test('is left while a healthy endpoint may start, or a degraded one that exists', () => {
    start('a', 'a')
    expect(limiter.hasCapacity()).toBe(true)
    start('b')
    expect(limiter.hasCapacity()).toBe(false)
    attempt('dead', 'no_response', 2)
    expect(limiter.hasCapacity()).toBe(true)
    start('dead', 'dead')
    expect(limiter.hasCapacity()).toBe(false)
    limiter.finished('dead', 'no_response', 10)
    expect(limiter.hasCapacity()).toBe(true)
    // No endpoint is degraded any more, and the healthy capacity is taken.
    limiter.finished('dead', 'acknowledged', 10)
    expect(limiter.hasCapacity()).toBe(false)
  })

  test('is never exceeded, and all of it is freed', () => {
    const ids = Array.from({ length: 12 }, (_, index) => `ep${index}`)
    const step = fc.record({
      act: fc.constantFrom('start', 'acknowledged', 'slow', 'become slow'),
      pick: fc.nat(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        useLimits({ ...WITHOUT_PAUSES, healthyMax: 10, degradedMax: 3 })
        limiter.allot(endpoints(4, ...ids), none)
        const inProgress: string[] = []
        for (const { act, pick } of steps) {
          const at = pick % Math.max(inProgress.length, 1)
          if (act === 'start') {
            const id = ids[pick % ids.length]!
            if (!limiter.mayStart(id)) continue
            limiter.started(id)
            inProgress.push(id)
          } else if (inProgress.length > 0) {
            if (act === 'become slow') limiter.markSlow(inProgress[at]!)
            else limiter.finished(inProgress.splice(at, 1)[0]!, act as AttemptResult, 10)
          }
          for (const id of ids) {
            expect(inProgress.filter((other) => other === id).length).toBeLessThanOrEqual(4)
          }
          // Attempts that became slow freed healthy capacity after they had started in it.
          const healthy = inProgress.filter((id) => !limiter.isDegraded(id)).length
          expect(healthy).toBeLessThanOrEqual(10 + 3)
        }
        for (const id of inProgress) limiter.finished(id, 'rejected', 10)
        for (const id of ids) expect(limiter.mayStart(id)).toBe(true)
      }),
      { numRuns: 50 },
    )
  })
})

describe('of many endpoints', () => {
  const touch = (from: number, to: number) => {
    for (let each = from; each < to; each++) limiter.isDegraded(`ep-${each}`)
  }

  test('the oldest without an attempt in progress is forgotten, and counts no more', () => {
    start('busy', 'busy', 'busy')
    attempt('old', 'no_response')
    touch(0, REMEMBERED_MAX - 2)
    expect([limiter.isDegraded('old'), limiter.hasCapacity()]).toEqual([true, true])
    touch(REMEMBERED_MAX - 2, REMEMBERED_MAX - 1)
    expect(limiter.hasCapacity()).toBe(false)
    expect(limiter.isDegraded('old')).toBe(false)
    expect(limiter.mayStart('busy')).toBe(false)
    // What is forgotten beside it leaves the number of degraded endpoints as it was.
    attempt('dead', 'no_response')
    touch(REMEMBERED_MAX, REMEMBERED_MAX + 3)
    expect(limiter.hasCapacity()).toBe(true)
  })

  test('none is forgotten while all have attempts in progress', () => {
    for (let each = 0; each < REMEMBERED_MAX; each++) start(`ep-${each}`, `ep-${each}`)
    expect(limiter.isDegraded('another')).toBe(false)
    expect(limiter.mayStart('ep-0')).toBe(false)
  })
})

describe('the prefetch', () => {
  const fast = (...ids: readonly string[]) => {
    limiter.allot(endpoints(50, ...ids), none)
    for (const id of ids) attempt(id, 'acknowledged', 60, 1)
  }

  test('of an endpoint is what it takes in a quarter of a second, and no more', () => {
    expect(shareOf(4)).toBe(2)
    attempt('ep', 'acknowledged', 40, 1)
    expect([shareOf(4), shareOf(4, 253)]).toEqual([4 + 500, 251])
    // No more until half of it is used.
    expect([shareOf(4, 254), limiter.wantsMore('ep', 254)]).toEqual([undefined, false])
    attempt('ep', 'acknowledged', 40, 100)
    expect(shareOf(4)).toBe(4 + 10)
    attempt('ep', 'acknowledged', 40, 1_000)
    expect(shareOf(4)).toBe(4 + 1)
    // A degraded endpoint has none.
    attempt('ep', 'acknowledged', 40, 1)
    attempt('ep', 'rejected', 1, 1)
    expect(shareOf(4)).toBe(1)
  })

  test('of all is given in their order while it lasts; beyond it, each gets its limit', () => {
    fast('a', 'b', 'c', 'd')
    const shares = limiter.allot(endpoints(50, 'a', 'b', 'c', 'd'), none).map(({ share }) => share)
    expect(shares).toEqual([550, 500, 50, 50])
  })

  test('of all is less by what already waits', () => {
    fast('a', 'b')
    const waiting = (id: string) => (id === 'b' ? 900 : 0)
    expect(limiter.allot(endpoints(50, 'a', 'b'), waiting)).toEqual([
      { endpointId: 'a', share: 150 },
    ])
  })
})
