import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createConcurrencyLimiter } from '../../../src/webhooks/deliveries/concurrency-limiter.ts'

const limits = {
  healthyMax: 10,
  degradedMax: 3,
  rejectedPauseMaxMs: 250,
  noResponsePauseMaxMs: 2_000,
}
const still = () => 0

const none = () => 0

/** Endpoints that may get four requests at once. */
const limited = (...ids: string[]) => ids.map((id) => ({ id, concurrency: 4 }))

test('a limit starts low, grows with each success and falls to one with a failure', () => {
  const limiter = createConcurrencyLimiter(
    { ...limits, rejectedPauseMaxMs: 0, noResponsePauseMaxMs: 0 },
    still,
  )
  const share = () => limiter.allot(limited('ep'), none)[0]?.share
  const once = (success: boolean) => {
    limiter.started('ep')
    limiter.finished('ep', success ? 'acknowledged' : 'rejected', 10_000)
  }
  expect(share()).toBe(2)
  once(true)
  expect(share()).toBe(3)
  for (let i = 0; i < 5; i++) once(true)
  expect(share()).toBe(4)
  once(false)
  expect(share()).toBe(1)
  once(false)
  expect(share()).toBe(1)
  once(true)
  expect(share()).toBe(2)
})

test('an endpoint that acknowledges slowly gets more requests at once, up to five, until one fails', () => {
  const limiter = createConcurrencyLimiter({ ...limits, degradedMax: 50 }, still)
  const share = () => limiter.allot([{ id: 'ep', concurrency: 10 }], none)[0]?.share
  const once = (result: 'slow' | 'rejected') => {
    limiter.started('ep')
    limiter.markSlow('ep')
    limiter.finished('ep', result, 9_000)
    return share()
  }
  expect(Array.from({ length: 6 }, () => once('slow'))).toEqual([2, 3, 4, 5, 5, 5])
  expect(limiter.isDegraded('ep')).toBe(true)
  expect([once('rejected'), once('slow')]).toEqual([1, 2])
})

test('degraded endpoints share a separate capacity and take none from healthy ones', () => {
  const limiter = createConcurrencyLimiter(
    { ...limits, rejectedPauseMaxMs: 0, noResponsePauseMaxMs: 0 },
    still,
  )
  const dead = Array.from({ length: 20 }, (_, index) => `dead${index}`)
  for (const id of dead) {
    limiter.started(id)
    limiter.finished(id, 'no_response', 10)
  }
  const allotments = limiter.allot(limited(...dead, 'healthy1', 'healthy2'), none)
  expect(allotments.map((allotment) => allotment.endpointId)).toEqual([
    'dead0',
    'dead1',
    'dead2',
    'healthy1',
    'healthy2',
  ])
})

test('an attempt counts as slow sooner while its endpoint has never responded', () => {
  const limiter = createConcurrencyLimiter(limits, still)
  expect(limiter.slowAfterMs('ep')).toBe(500)
  limiter.started('ep')
  limiter.finished('ep', 'no_response', 10)
  expect(limiter.slowAfterMs('ep')).toBe(500)
  limiter.started('ep')
  limiter.finished('ep', 'rejected', 10)
  expect(limiter.slowAfterMs('ep')).toBe(2_000)
})

test('attempts that become slow free their capacity for other endpoints', () => {
  const limiter = createConcurrencyLimiter(
    { ...limits, rejectedPauseMaxMs: 0, noResponsePauseMaxMs: 0 },
    still,
  )
  for (const id of ['a', 'b', 'c', 'd', 'e']) {
    limiter.started(id)
    limiter.started(id)
  }
  expect(limiter.mayStart('well')).toBe(false)
  // A claim may still wait here.
  expect(limiter.allot(limited('well'), none)).toEqual([{ endpointId: 'well', share: 2 }])
  limiter.markSlow('a')
  expect(limiter.mayStart('well')).toBe(true)
  limiter.finished('a', 'acknowledged', 10)
  limiter.finished('a', 'acknowledged', 10)
})

test('what a fast endpoint takes in a quarter of a second is prefetched, and no more', () => {
  const limiter = createConcurrencyLimiter(limits, still)
  const acknowledge = (latencyMs: number, times = 40) => {
    for (let i = 0; i < times; i++) {
      limiter.started('ep')
      limiter.finished('ep', 'acknowledged', latencyMs)
    }
  }
  const share = (waiting = 0) => limiter.allot(limited('ep'), () => waiting)[0]?.share
  expect(share()).toBe(2)
  acknowledge(1)
  expect(share()).toBe(4 + 500)
  expect(share(253)).toBe(251)
  // No more until half of it is used.
  expect(share(254)).toBeUndefined()
  expect(limiter.wantsMore('ep', 254)).toBe(false)
  acknowledge(100)
  expect(share()).toBe(4 + 10)
  acknowledge(1_000)
  expect(share()).toBe(4 + 1)
  // A degraded endpoint has no prefetch.
  acknowledge(1)
  limiter.started('ep')
  limiter.finished('ep', 'rejected', 1)
  expect(share()).toBe(1)
})

test('the prefetch of all endpoints together is bounded', () => {
  const limiter = createConcurrencyLimiter({ ...limits, healthyMax: 1_000 }, still)
  const ids = Array.from({ length: 20 }, (_, index) => `ep${index}`)
  for (const id of ids) {
    for (let i = 0; i < 40; i++) {
      limiter.started(id)
      limiter.finished(id, 'acknowledged', 1)
    }
  }
  const allotments = limiter.allot(limited(...ids), none)
  // Each may have attempts in progress, also those for which no prefetch is left.
  expect(allotments.length).toBe(20)
  expect(allotments.reduce((sum, { share }) => sum + share, 0)).toBeLessThanOrEqual(1_000 + 20 * 4)
})

test('no limit is ever exceeded, and all capacity is freed', () => {
  const ids = Array.from({ length: 12 }, (_, index) => `ep${index}`)
  const step = fc.record({
    act: fc.constantFrom('start', 'acknowledge', 'end late', 'slow'),
    pick: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const limiter = createConcurrencyLimiter(
        { ...limits, rejectedPauseMaxMs: 0, noResponsePauseMaxMs: 0 },
        still,
      )
      limiter.allot(limited(...ids), none)
      const inProgress: string[] = []
      for (const { act, pick } of steps) {
        if (act === 'start') {
          const id = ids[pick % ids.length]!
          if (!limiter.mayStart(id)) continue
          limiter.started(id)
          inProgress.push(id)
        } else if (inProgress.length > 0) {
          const at = pick % inProgress.length
          if (act === 'slow') limiter.markSlow(inProgress[at]!)
          else
            limiter.finished(
              inProgress.splice(at, 1)[0]!,
              act === 'acknowledge' ? 'acknowledged' : 'slow',
              10,
            )
        }
        for (const id of ids) {
          expect(inProgress.filter((other) => other === id).length).toBeLessThanOrEqual(4)
        }
        // Attempts that became slow freed healthy capacity after they had started in it.
        const healthy = inProgress.filter((id) => !limiter.isDegraded(id)).length
        expect(healthy).toBeLessThanOrEqual(limits.healthyMax + limits.degradedMax)
      }
      for (const id of inProgress) limiter.finished(id, 'rejected', 10)
      for (const id of ids) expect(limiter.mayStart(id)).toBe(true)
    }),
  )
})

test('consecutive failures cause pauses that grow up to a limit; a success ends them', () => {
  let nowMs = 0
  const limiter = createConcurrencyLimiter(limits, () => nowMs)
  const fail = (result: 'rejected' | 'no_response') => {
    limiter.started('ep')
    limiter.finished('ep', result, 10)
  }
  /** How long until the endpoint may be attempted again. */
  const pause = () => {
    const from = nowMs
    while (limiter.allot(limited('ep'), none).length === 0) {
      const waitMs = limiter.resumesInMs()
      expect(waitMs).toBeGreaterThan(0)
      nowMs += waitMs
    }
    expect(limiter.resumesInMs()).toBe(Number.POSITIVE_INFINITY)
    return nowMs - from
  }
  const pauses = (result: 'rejected' | 'no_response') =>
    Array.from({ length: 10 }, () => {
      fail(result)
      return pause()
    })
  expect(pauses('no_response')).toEqual([0, 0, 0, 50, 100, 200, 400, 800, 1_600, 2_000])
  limiter.started('ep')
  limiter.finished('ep', 'acknowledged', 10)
  expect(pause()).toBe(0)
  expect(pauses('rejected')).toEqual([0, 0, 0, 50, 100, 200, 250, 250, 250, 250])
  // Other endpoints are not affected.
  fail('rejected')
  expect(limiter.allot(limited('ep', 'other'), none).map(({ endpointId }) => endpointId)).toEqual([
    'other',
  ])
})
