import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createPacing } from '../../src/webhooks/pacing.ts'

const limits = { steadyMax: 10, troubledMax: 3 }

/** Endpoints that may get four requests at once. */
const paced = (...ids: string[]) => ids.map((id) => ({ id, concurrency: 4 }))

test('an endpoint starts low, grows with success and falls to one with a failure', () => {
  const pacing = createPacing(limits)
  const share = () => pacing.allot(paced('ep'))[0]?.share
  const once = (well: boolean) => {
    pacing.started('ep')
    pacing.ended('ep', well)
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
  const pacing = createPacing(limits)
  const dead = Array.from({ length: 20 }, (_, index) => `dead${index}`)
  for (const id of dead) {
    pacing.started(id)
    pacing.ended(id, false)
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
  const pacing = createPacing(limits)
  for (const id of ['a', 'b', 'c', 'd', 'e']) {
    pacing.started(id)
    pacing.started(id)
  }
  expect(pacing.allot(paced('well'))).toEqual([])
  pacing.slow('a')
  expect(pacing.allot(paced('well'))).toEqual([{ endpointId: 'well', share: 2 }])
  pacing.ended('a', true)
  pacing.ended('a', true)
})

test('no bound is ever passed, and all room comes back', () => {
  const ids = Array.from({ length: 12 }, (_, index) => `ep${index}`)
  const step = fc.record({
    act: fc.constantFrom('allot', 'end well', 'end badly', 'slow'),
    pick: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const pacing = createPacing(limits)
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
          else pacing.ended(underWay.splice(at, 1)[0]!, act === 'end well')
        }
        for (const id of ids) {
          expect(underWay.filter((other) => other === id).length).toBeLessThanOrEqual(4)
        }
      }
      for (const id of underWay) pacing.ended(id, false)
      const free = pacing.allot(paced(...ids))
      expect(free.length).toBeGreaterThanOrEqual(3)
    }),
  )
})
