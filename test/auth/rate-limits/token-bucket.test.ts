import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type RateLimit, TokenBucket } from '../../../src/auth/rate-limits/token-bucket.ts'

const limits = fc
  .record({
    perSecond: fc.integer({ min: 1, max: 500 }),
    seconds: fc.double({ min: 0, max: 60, noNaN: true }),
  })
  .map(({ perSecond, seconds }): RateLimit => {
    return { perSecond, burst: Math.max(1, Math.floor(perSecond * seconds)) }
  })

/** Time steps in milliseconds, some backwards, each with a number of attempts. */
const steps = (backMs: number) =>
  fc.array(
    fc.tuple(
      fc.oneof(fc.integer({ min: -backMs, max: 50 }), fc.integer({ min: 0, max: 5_000 })),
      fc.integer({ min: 0, max: 200 }),
    ),
    { maxLength: 40 },
  )

function takeAll(bucket: TokenBucket, nowMs: number): number {
  let taken = 0
  while (bucket.take(nowMs)) taken += 1
  return taken
}

describe('a token bucket', () => {
  test('never admits more than its burst plus the refill, in any span of time', () => {
    fc.assert(
      fc.property(limits, steps(0), (limit, moves) => {
        const bucket = new TokenBucket(limit, 0)
        let nowMs = 0
        const admitted: [number, number][] = []
        for (const [stepMs, attempts] of moves) {
          nowMs += stepMs
          let count = 0
          for (let each = 0; each < attempts; each++) if (bucket.take(nowMs)) count += 1
          admitted.push([nowMs, count])
        }
        // In every span of time, not only since the start.
        for (let first = 0; first < admitted.length; first++) {
          let sum = 0
          for (const [atMs, count] of admitted.slice(first)) {
            sum += count
            const seconds = (atMs - admitted[first]![0]) / 1_000
            expect(sum).toBeLessThanOrEqual(limit.burst + limit.perSecond * seconds + 1e-6)
          }
        }
      }),
    )
  })

  test('admits everything that its limit allows, evenly spread', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), (perSecond) => {
        const bucket = new TokenBucket({ perSecond, burst: 2 }, 0)
        for (let each = 1; each <= 500; each++) {
          expect(bucket.take((each * 1_000) / perSecond)).toBe(true)
        }
      }),
    )
  })

  test('a clock that is set back adds no tokens and does not stop the refill', () => {
    fc.assert(
      fc.property(limits, steps(10_000_000), (limit, moves) => {
        const bucket = new TokenBucket(limit, 0)
        let nowMs = 0
        let forwardMs = 0
        let admitted = 0
        for (const [stepMs, attempts] of moves) {
          nowMs += stepMs
          forwardMs += Math.max(0, stepMs)
          bucket.has(nowMs)
          for (let each = 0; each < attempts; each++) if (bucket.take(nowMs)) admitted += 1
        }
        const allowed = limit.burst + (limit.perSecond * forwardMs) / 1_000
        expect(admitted).toBeLessThanOrEqual(allowed + 1e-6)
        expect(bucket.take(nowMs + 1_000 / limit.perSecond + 1)).toBe(true)
      }),
    )
  })

  test('reports its remaining tokens, reset and retry times exactly', () => {
    fc.assert(
      fc.property(limits, steps(0), fc.integer({ min: 0, max: 500 }), (limit, moves, debt) => {
        const bucket = new TokenBucket(limit, 0)
        let nowMs = 0
        for (const [stepMs, attempts] of moves) {
          nowMs += stepMs
          for (let each = 0; each < attempts; each++) bucket.take(nowMs)
        }
        bucket.debit(debt, nowMs)
        const { remaining, resetSeconds, retryAfterSeconds } = bucket
        expect(remaining).toBeGreaterThanOrEqual(0)
        expect(remaining).toBeLessThanOrEqual(limit.burst)
        expect(retryAfterSeconds).toBeGreaterThanOrEqual(1)
        // Exactly as many requests as remain are admitted.
        const copy = new TokenBucket(limit, nowMs)
        copy.debit(limit.burst - remaining, nowMs)
        expect(takeAll(bucket, nowMs)).toBe(remaining)
        expect(takeAll(copy, nowMs)).toBe(remaining)
        // After the retry time there is a token, and after the reset the bucket is full.
        const after = new TokenBucket(limit, nowMs)
        after.debit(limit.burst - remaining, nowMs)
        expect(bucket.has(nowMs + bucket.retryAfterSeconds * 1_000)).toBe(true)
        expect(after.has(nowMs + resetSeconds * 1_000)).toBe(true)
        expect(after.remaining).toBeGreaterThanOrEqual(limit.burst - 1)
      }),
    )
  })

  test('limits its debt to one burst, and repays it before it admits a request', () => {
    const bucket = new TokenBucket({ perSecond: 10, burst: 20 }, 0)
    bucket.debit(1_000_000, 0)
    expect([bucket.remaining, bucket.retryAfterSeconds, bucket.resetSeconds]).toEqual([0, 3, 4])
    expect(bucket.take(2_000)).toBe(false)
    expect(bucket.take(2_100)).toBe(true)
    expect(bucket.take(2_100)).toBe(false)
  })
})
