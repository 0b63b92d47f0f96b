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
const REMEMBERED_MAX = 10_000

let nowMs: number
let limiter: ConcurrencyLimiter

beforeEach(() => {
  nowMs = 1_000_000
  limiter = createConcurrencyLimiter(limits, () => nowMs)
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
/** Makes an endpoint degraded with attempts in progress. */
function hang(id: string, attempts: number): void {
  for (let each = 0; each < attempts; each++) limiter.started(id)
  limiter.markSlow(id)
}

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

  test('may start as many attempts as its limit and its setting allow', () => {
    limiter.allot([{ id: 'ep', concurrency: 4 }], none)
    start('ep')
    expect(limiter.mayStart('ep')).toBe(true)
    start('ep')
    expect(limiter.mayStart('ep')).toBe(false)
    // Its setting is lower than the limit that it begins with.
    limiter.allot([{ id: 'narrow', concurrency: 1 }], none)
    start('narrow')
    expect([limiter.mayStart('narrow'), limiter.wantsMore('narrow', 1)]).toEqual([false, false])
  })

  test('wants more while fewer wait and are in progress than its limit', () => {
    limiter.allot([{ id: 'ep', concurrency: 4 }], none)
    expect([0, 1, 2].map((waiting) => limiter.wantsMore('ep', waiting))).toEqual([
      true,
      true,
      false,
    ])
    start('ep')
    expect([0, 1].map((waiting) => limiter.wantsMore('ep', waiting))).toEqual([true, false])
  })

  test('that is paused wants nothing until its pause ends', () => {
    attempt('ep', 'rejected', 4)
    const pauseMs = limiter.resumesInMs()
    expect(pauseMs).toBeGreaterThan(0)
    expect(limiter.wantsMore('ep', 0)).toBe(false)
    nowMs += pauseMs
    expect([limiter.resumesInMs(), limiter.wantsMore('ep', 0)]).toEqual([
      Number.POSITIVE_INFINITY,
      true,
    ])
  })

  test('that is degraded wants nothing while the capacity of the degraded is taken', () => {
    attempt('dead', 'no_response')
    hang('slow', 1)
    expect([limiter.wantsMore('dead', 0), limiter.mayStart('dead')]).toEqual([true, true])
    start('slow')
    expect([limiter.wantsMore('dead', 0), limiter.mayStart('dead')]).toEqual([false, false])
    // A healthy one is not concerned.
    expect([limiter.wantsMore('ep', 0), limiter.mayStart('ep')]).toEqual([true, true])
  })

  test('that is healthy takes nothing of what is allotted to the degraded', () => {
    attempt('dead', 'no_response')
    const endpoints = ['ep', 'dead'].map((id) => ({ id, concurrency: 4 }))
    expect(limiter.allot(endpoints, none)).toEqual([
      { endpointId: 'ep', share: 2 },
      { endpointId: 'dead', share: 1 },
    ])
  })
})

describe('there is capacity', () => {
  test('while a healthy endpoint may start, or a degraded one that exists', () => {
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

describe('the prefetch of fast endpoints', () => {
  const endpoints = (...ids: readonly string[]) => ids.map((id) => ({ id, concurrency: 50 }))
  const fast = (...ids: readonly string[]) => {
    limiter.allot(endpoints(...ids), none)
    for (const id of ids) attempt(id, 'acknowledged', 60, 1)
  }

  test('is given in their order while it lasts; beyond it, each gets its limit', () => {
    fast('a', 'b', 'c', 'd')
    const shares = limiter.allot(endpoints('a', 'b', 'c', 'd'), none).map(({ share }) => share)
    expect(shares).toEqual([550, 500, 50, 50])
  })

  test('is less by what already waits', () => {
    fast('a', 'b')
    const waiting = (id: string) => (id === 'b' ? 900 : 0)
    expect(limiter.allot(endpoints('a', 'b'), waiting)).toEqual([{ endpointId: 'a', share: 150 }])
  })
})
