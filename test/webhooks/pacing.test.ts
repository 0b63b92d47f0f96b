import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createPacing } from '../../src/webhooks/pacing.ts'

const limits = {
  steadyMax: 10,
  troubledMax: 3,
  refusedPauseMaxMs: 250,
  unansweredPauseMaxMs: 2_000,
}
const still = () => 0

/** Endpoints that may get four requests at once. */
const paced = (...ids: string[]) => ids.map((id) => ({ id, concurrency: 4 }))

test('an endpoint starts low, grows with success and falls to one with a failure', () => {
  const pacing = createPacing({ ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 }, still)
  const share = () => pacing.allot(paced('ep'))[0]?.share
  const once = (well: boolean) => {
    pacing.started('ep')
    pacing.ended('ep', well ? 'well' : 'refused')
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
  const pacing = createPacing({ ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 }, still)
  const dead = Array.from({ length: 20 }, (_, index) => `dead${index}`)
  for (const id of dead) {
    pacing.started(id)
    pacing.ended(id, 'unanswered')
  }
  const allotments = pacing.allot(paced(...dead, 'well1', 'well2'))
  expect(allotments.map((allotment) => allotment.endpointId)).toEqual([
    'dead0',
    'dead1',
    'dead2',
    'well1',
    'well2',
  ])
})

test('attempts that turn slow give their room back to the others', () => {
  const pacing = createPacing({ ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 }, still)
  for (const id of ['a', 'b', 'c', 'd', 'e']) {
    pacing.started(id)
    pacing.started(id)
  }
  expect(pacing.allot(paced('well'))).toEqual([])
  pacing.slow('a')
  expect(pacing.allot(paced('well'))).toEqual([{ endpointId: 'well', share: 2 }])
  pacing.ended('a', 'well')
  pacing.ended('a', 'well')
})

test('no bound is ever passed, and all room comes back', () => {
  const ids = Array.from({ length: 12 }, (_, index) => `ep${index}`)
  const step = fc.record({
    act: fc.constantFrom('allot', 'end well', 'end badly', 'slow'),
    pick: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const pacing = createPacing(
        { ...limits, refusedPauseMaxMs: 0, unansweredPauseMaxMs: 0 },
        still,
      )
      const underWay: string[] = []
      for (const { act, pick } of steps) {
        if (act === 'allot') {
          const from = pick % ids.length
          for (const { endpointId, share } of pacing.allot(
            paced(...ids.slice(from), ...ids.slice(0, from)),
          )) {
            for (let i = 0; i < share; i++) {
              pacing.started(endpointId)
              underWay.push(endpointId)
            }
          }
        } else if (underWay.length > 0) {
          const at = pick % underWay.length
          if (act === 'slow') pacing.slow(underWay[at]!)
          else pacing.ended(underWay.splice(at, 1)[0]!, act === 'end well' ? 'well' : 'slow')
        }
        for (const id of ids) {
          expect(underWay.filter((other) => other === id).length).toBeLessThanOrEqual(4)
        }
      }
      for (const id of underWay) pacing.ended(id, 'refused')
      const free = pacing.allot(paced(...ids))
      expect(free.length).toBeGreaterThanOrEqual(3)
    }),
  )
})

test('failures in a row bring pauses, which grow up to a bound; a success ends them', () => {
  let nowMs = 0
  const pacing = createPacing(limits, () => nowMs)
  const fail = (ending: 'refused' | 'unanswered') => {
    pacing.started('ep')
    pacing.ended('ep', ending)
  }
  /** How long it takes until it may be attempted again. */
  const pause = () => {
    const from = nowMs
    while (pacing.allot(paced('ep')).length === 0) {
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
  pacing.ended('ep', 'well')
  expect(pause()).toBe(0)
  expect(pauses('refused')).toEqual([0, 0, 0, 50, 100, 200, 250, 250, 250, 250])
  // Another endpoint is not touched by it.
  fail('refused')
  expect(pacing.allot(paced('ep', 'other')).map(({ endpointId }) => endpointId)).toEqual(['other'])
})
