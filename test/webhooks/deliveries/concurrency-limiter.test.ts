import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createConcurrencyLimiter } from '../../../src/webhooks/deliveries/concurrency-limiter.ts'

const limits = {
  steadyMax: 10,
  troubledMax: 3,
  refusedPauseMaxMs: 250,
  unansweredPauseMaxMs: 2_000,
}
const still = () => 0

const none = () => 0

/** Endpoints that may get four requests at once. */
const paced = (...ids: string[]) => ids.map((id) => ({ id, concurrency: 4 }))

test('an endpoint starts low, grows with success and falls to one with a failure', () => {
  const pacing = createConcurrencyLimiter(
    { ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 },
    still,
  )
  const share = () => pacing.allot(paced('ep'), none)[0]?.share
  const once = (well: boolean) => {
    pacing.started('ep')
    pacing.ended('ep', well ? 'well' : 'refused', 10_000)
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

test('endpoints in trouble share a lane and leave the others’ room alone', () => {
  const pacing = createConcurrencyLimiter(
    { ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 },
    still,
  )
  const dead = Array.from({ length: 20 }, (_, index) => `dead${index}`)
  for (const id of dead) {
    pacing.started(id)
    pacing.ended(id, 'unanswered', 10)
  }
  const allotments = pacing.allot(paced(...dead, 'well1', 'well2'), none)
  expect(allotments.map((allotment) => allotment.endpointId)).toEqual([
    'dead0',
    'dead1',
    'dead2',
    'well1',
    'well2',
  ])
})

test('an attempt turns slow sooner while its endpoint has never answered', () => {
  const pacing = createConcurrencyLimiter(limits, still)
  expect(pacing.slowAfterMs('ep')).toBe(500)
  pacing.started('ep')
  pacing.ended('ep', 'unanswered', 10)
  expect(pacing.slowAfterMs('ep')).toBe(500)
  pacing.started('ep')
  pacing.ended('ep', 'refused', 10)
  expect(pacing.slowAfterMs('ep')).toBe(2_000)
})

test('attempts that turn slow give their room back to the others', () => {
  const pacing = createConcurrencyLimiter(
    { ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 },
    still,
  )
  for (const id of ['a', 'b', 'c', 'd', 'e']) {
    pacing.started(id)
    pacing.started(id)
  }
  expect(pacing.mayStart('well')).toBe(false)
  // It may wait here for its turn.
  expect(pacing.allot(paced('well'), none)).toEqual([{ endpointId: 'well', share: 2 }])
  pacing.slow('a')
  expect(pacing.mayStart('well')).toBe(true)
  pacing.ended('a', 'well', 10)
  pacing.ended('a', 'well', 10)
})

test('what a quick endpoint takes in a quarter of a second is claimed ahead, and no more', () => {
  const pacing = createConcurrencyLimiter(limits, still)
  const answer = (latencyMs: number, times = 40) => {
    for (let i = 0; i < times; i++) {
      pacing.started('ep')
      pacing.ended('ep', 'well', latencyMs)
    }
  }
  const share = (waiting = 0) => pacing.allot(paced('ep'), () => waiting)[0]?.share
  expect(share()).toBe(2)
  answer(1)
  expect(share()).toBe(4 + 500)
  expect(share(253)).toBe(251)
  // Not before half of it is used.
  expect(share(254)).toBeUndefined()
  expect(pacing.wantsMore('ep', 254)).toBe(false)
  answer(100)
  expect(share()).toBe(4 + 10)
  answer(1_000)
  expect(share()).toBe(4 + 1)
  // One in trouble has nothing waiting for it.
  answer(1)
  pacing.started('ep')
  pacing.ended('ep', 'refused', 1)
  expect(share()).toBe(1)
})

test('what waits for all endpoints together has a bound', () => {
  const pacing = createConcurrencyLimiter({ ...limits, steadyMax: 1_000 }, still)
  const ids = Array.from({ length: 20 }, (_, index) => `ep${index}`)
  for (const id of ids) {
    for (let i = 0; i < 40; i++) {
      pacing.started(id)
      pacing.ended(id, 'well', 1)
    }
  }
  const allotments = pacing.allot(paced(...ids), none)
  // Each may have something under way, and so may those that came too late to have more.
  expect(allotments.length).toBe(20)
  expect(allotments.reduce((sum, { share }) => sum + share, 0)).toBeLessThanOrEqual(1_000 + 20 * 4)
})

test('no bound is ever passed, and all room comes back', () => {
  const ids = Array.from({ length: 12 }, (_, index) => `ep${index}`)
  const step = fc.record({
    act: fc.constantFrom('start', 'end well', 'end badly', 'slow'),
    pick: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const pacing = createConcurrencyLimiter(
        { ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 },
        still,
      )
      pacing.allot(paced(...ids), none)
      const underWay: string[] = []
      for (const { act, pick } of steps) {
        if (act === 'start') {
          const id = ids[pick % ids.length]!
          if (!pacing.mayStart(id)) continue
          pacing.started(id)
          underWay.push(id)
        } else if (underWay.length > 0) {
          const at = pick % underWay.length
          if (act === 'slow') pacing.slow(underWay[at]!)
          else pacing.ended(underWay.splice(at, 1)[0]!, act === 'end well' ? 'well' : 'slow', 10)
        }
        for (const id of ids) {
          expect(underWay.filter((other) => other === id).length).toBeLessThanOrEqual(4)
        }
        // Those that turned slow left the steady lane to others after they had begun in it.
        const steady = underWay.filter((id) => !pacing.isTroubled(id)).length
        expect(steady).toBeLessThanOrEqual(limits.steadyMax + limits.troubledMax)
      }
      for (const id of underWay) pacing.ended(id, 'refused', 10)
      for (const id of ids) expect(pacing.mayStart(id)).toBe(true)
    }),
  )
})

test('failures in a row bring pauses, which grow up to a bound; a success ends them', () => {
  let nowMs = 0
  const pacing = createConcurrencyLimiter(limits, () => nowMs)
  const fail = (ending: 'refused' | 'unanswered') => {
    pacing.started('ep')
    pacing.ended('ep', ending, 10)
  }
  /** How long it takes until it may be attempted again. */
  const pause = () => {
    const from = nowMs
    while (pacing.allot(paced('ep'), none).length === 0) {
      const waitMs = pacing.resumesInMs()
      expect(waitMs).toBeGreaterThan(0)
      nowMs += waitMs
    }
    expect(pacing.resumesInMs()).toBe(Number.POSITIVE_INFINITY)
    return nowMs - from
  }
  const pauses = (ending: 'refused' | 'unanswered') =>
    Array.from({ length: 10 }, () => {
      fail(ending)
      return pause()
    })
  expect(pauses('unanswered')).toEqual([0, 0, 0, 50, 100, 200, 400, 800, 1_600, 2_000])
  pacing.started('ep')
  pacing.ended('ep', 'well', 10)
  expect(pause()).toBe(0)
  expect(pauses('refused')).toEqual([0, 0, 0, 50, 100, 200, 250, 250, 250, 250])
  // Another endpoint is not touched by it.
  fail('refused')
  expect(pacing.allot(paced('ep', 'other'), none).map(({ endpointId }) => endpointId)).toEqual([
    'other',
  ])
})
