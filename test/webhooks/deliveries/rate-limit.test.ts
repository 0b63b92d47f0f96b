import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { TokenBucket } from '../../../src/auth/rate-limits/token-bucket.ts'
import {
  CONCURRENCY_LIMITS,
  createConcurrencyLimiter,
} from '../../../src/webhooks/deliveries/concurrency-limiter.ts'
import { limitOf, limitRates } from '../../../src/webhooks/deliveries/rate-limiter.ts'
import { paymentEvent } from '../fixture.ts'
import { clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

/** A limiter on a clock of the test, whose rates are not shared. */
function setUp() {
  let nowMs = 0
  const limiter = limitRates(
    createConcurrencyLimiter(CONCURRENCY_LIMITS, () => nowMs),
    (_id, perSecond) => {
      const bucket = new TokenBucket(limitOf(perSecond), nowMs)
      return {
        perSecond,
        available: () => (bucket.has(nowMs) ? bucket.remaining : 0),
        take: () => void bucket.take(nowMs),
        nextInMs: () => (bucket.has(nowMs) ? 0 : bucket.nextInMs),
      }
    },
  )
  const advance = (ms: number) => {
    nowMs += ms
  }
  return { limiter, advance, now: () => nowMs }
}

const none = () => 0

describe('the rate limit of an endpoint', () => {
  test('holds in any span of time, whatever is due and however long it takes', () => {
    const step = fc.record({ waitMs: fc.nat(400), latencyMs: fc.nat(50), ok: fc.boolean() })
    const runs = fc.array(step, { minLength: 20, maxLength: 200 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), runs, (rateLimit, steps) => {
        const { limiter, advance, now } = setUp()
        const endpoint = { id: 'ep', concurrency: 50, rateLimit }
        const { burst } = limitOf(rateLimit)
        const startedMs: number[] = []
        for (const { waitMs, latencyMs, ok } of steps) {
          advance(waitMs)
          const share = limiter.allot([endpoint], none)[0]?.share ?? 0
          expect(share).toBeLessThanOrEqual(burst)
          for (let i = 0; i < share && limiter.mayStart('ep'); i++) {
            limiter.started('ep')
            startedMs.push(now())
            advance(latencyMs)
            limiter.finished('ep', ok ? 'acknowledged' : 'rejected', latencyMs)
          }
        }
        for (const [index, fromMs] of startedMs.entries()) {
          const allowed = (toMs: number) => burst + ((toMs - fromMs) / 1_000) * rateLimit + 1e-6
          const last = startedMs.length - 1
          for (const to of [index + burst, last].filter((each) => each <= last)) {
            expect(to - index + 1).toBeLessThanOrEqual(Math.ceil(allowed(startedMs[to]!)))
          }
        }
      }),
      { numRuns: 50 },
    )
  })

  test('holds up no other endpoint', () => {
    const { limiter } = setUp()
    const limited = { id: 'ep', concurrency: 50, rateLimit: 4 }
    const others = [
      { id: 'unlimited', concurrency: 50, rateLimit: 0 },
      { id: 'as limited', concurrency: 50, rateLimit: 4 },
    ]
    const idsOf = () => limiter.allot([limited, ...others], none).map((each) => each.endpointId)
    expect(idsOf()).toEqual(['ep', 'unlimited', 'as limited'])
    limiter.started('ep')
    limiter.finished('ep', 'acknowledged', 1)
    expect(idsOf()).toEqual(['unlimited', 'as limited'])
    expect(others.map(({ id }) => limiter.mayStart(id))).toEqual([true, true])
  })

  test('is kept by instances together', async () => {
    const [webhooks] = [harness.started(), harness.started()]
    const client = clientOf(webhooks)
    const receiver = await harness.receiver()
    const businessId = await harness.business()
    const { endpoint } = await client.createEndpoint({
      businessId,
      url: receiver.url,
      options: { rateLimit: 1_000 },
    })
    const endpointId = endpoint!.id
    const updated = await client.updateEndpoint({ endpointId, options: { rateLimit: 4 } })
    expect(updated.endpoint?.options?.rateLimit).toBe(4)
    await harness.publish(...Array.from({ length: 44 }, () => paymentEvent(businessId)))
    const [first, ...others] = await receiver.waitFor((all) => all.length === 44)
    // Of the first tokens, each instance has its own: twice two.
    // While an exchange hangs, each has the whole rate for itself.
    expect(others.at(-1)!.at - first!.at).toBeGreaterThan(((44 - 4) / 4) * 1_000 * 0.7)
    await harness.allCompleted(endpointId)
    expect((await harness.deliveries(endpointId)).map((row) => row.attempts)).toEqual(
      Array.from({ length: 44 }, () => 1),
    )
  })
})
