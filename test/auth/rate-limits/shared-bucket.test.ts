import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RateLimit } from '../../../src/auth/rate-limits/token-bucket.ts'
import { EXCHANGE_MS, SharedBucket } from '../../../src/auth/rate-limits/token-bucket.ts'

function bucketOf(limit: RateLimit) {
  const reports: boolean[] = []
  const bucket = new SharedBucket('b', limit, 0, (reporting, urgent) => {
    expect(reporting).toBe(bucket)
    reports.push(urgent)
  })
  return { bucket, reports }
}
const spend = (bucket: SharedBucket, count: number) => {
  for (let each = 0; each < count; each++) expect(bucket.take(0)).toBe(true)
}

/** A 32nd of what it allows between two exchanges. */
const THOUSAND = { perSecond: 1_280, burst: 4_000 }
const threshold = (THOUSAND.perSecond * EXCHANGE_MS) / 1_000 / 32

describe('a shared bucket', () => {
  test('reports once what is worth an exchange, and once more when a quarter of the burst is spent', () => {
    const { bucket, reports } = bucketOf(THOUSAND)
    spend(bucket, threshold - 1)
    expect(reports).toEqual([])
    spend(bucket, 1)
    expect(reports).toEqual([false])
    spend(bucket, 1_000 - threshold - 1)
    expect(reports).toEqual([false])
    spend(bucket, 1)
    expect(reports).toEqual([false, true])
    spend(bucket, 3_000)
    expect(reports).toEqual([false, true])
    // What it refuses is not spent.
    expect(bucket.take(0)).toBe(false)
    expect(bucket.collect()).toBe(4_000)
    expect(bucket.collect()).toBe(0)
  })

  test('reports again after an exchange', () => {
    const { bucket, reports } = bucketOf(THOUSAND)
    spend(bucket, threshold)
    bucket.collect()
    spend(bucket, threshold - 1)
    expect(reports).toEqual([false])
    spend(bucket, 1)
    expect(reports).toEqual([false, false])
  })

  test('of a low rate reports its first token, and what is debited', () => {
    const { bucket, reports } = bucketOf({ perSecond: 1, burst: 100 })
    bucket.take(0)
    expect(reports).toEqual([false])
    bucket.debit(30, 0)
    expect(reports).toEqual([false, true])
    expect(bucket.collect()).toBe(31)
  })

  test('adopts the shared level, less what it spent since it reported', () => {
    const { bucket } = bucketOf(THOUSAND)
    spend(bucket, 100)
    expect(bucket.collect()).toBe(100)
    spend(bucket, 7)
    bucket.applyLevel(500, 0)
    expect(bucket.remaining).toBe(493)
    expect(bucket.collect()).toBe(7)
  })

  test('with few tokens left reports the sooner as urgent', () => {
    const { bucket, reports } = bucketOf(THOUSAND)
    bucket.applyLevel(80, 0)
    spend(bucket, 19)
    expect(reports).toEqual([false])
    spend(bucket, 1)
    expect(reports).toEqual([false, true])
  })

  test('takes back what a failed exchange had collected, up to one burst', () => {
    fc.assert(
      fc.property(fc.nat({ max: 100 }), fc.nat({ max: 300 }), (spent, restored) => {
        const { bucket } = bucketOf({ perSecond: 10, burst: 100 })
        spend(bucket, spent)
        bucket.restore(restored)
        expect(bucket.collect()).toBe(Math.min(spent + restored, 100))
      }),
    )
  })
})
