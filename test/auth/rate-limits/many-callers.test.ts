import { describe, expect, test } from 'vitest'
import { URGENT_MS } from '../../../src/auth/rate-limits/exchange.ts'
import { createKnownCredentials } from '../../../src/auth/rate-limits/known-credentials.ts'
import { createRateLimits } from '../../../src/auth/rate-limits/rate-limits.ts'
import {
  EXCHANGE_MS,
  SharedBucket,
  TokenBucket,
} from '../../../src/auth/rate-limits/token-bucket.ts'
import { createTestRuntime } from '../../support/runtime.ts'

describe('instances that exchange what they spend', () => {
  const limit = { perSecond: 1_000, burst: 2_000 }

  /** Simulates instances under constant demand, in steps of 1 ms. @returns admissions per ms */
  function simulate(instances: number, durationMs: number, demandPerMs: number): number[] {
    const shared = new TokenBucket(limit, 0)
    const urgent = new Set<SharedBucket>()
    const buckets = Array.from(
      { length: instances },
      () => new SharedBucket('b', limit, 0, (bucket, soon) => void (soon && urgent.add(bucket))),
    )
    const exchange = (bucket: SharedBucket, nowMs: number): void => {
      shared.debit(bucket.collect(), nowMs)
      const level = shared.remaining > 0 ? shared.remaining : -debtOf(shared)
      bucket.applyLevel(level, nowMs)
    }
    const admittedAt = Array<number>(durationMs).fill(0)
    for (let nowMs = 0; nowMs < durationMs; nowMs++) {
      for (const bucket of buckets) {
        for (let each = 0; each < demandPerMs; each++)
          if (bucket.take(nowMs)) admittedAt[nowMs]! += 1
      }
      for (const [index, bucket] of buckets.entries()) {
        const regular = (nowMs + index * 17) % EXCHANGE_MS === 0
        if (regular || (nowMs % URGENT_MS === 0 && urgent.delete(bucket))) exchange(bucket, nowMs)
      }
    }
    return admittedAt
  }

  /** The debt of a bucket, derived from its reset time. */
  function debtOf(bucket: TokenBucket): number {
    return bucket.resetSeconds * limit.perSecond - limit.burst
  }

  test('together admit about as much as one', () => {
    const instances = 3
    const demandPerMs = 20
    const admittedAt = simulate(instances, 15_000, demandPerMs)
    const admitted = (fromMs: number, toMs: number) => sum(admittedAt.slice(fromMs, toMs))
    // What the others spend before their first exchange.
    const excess = (instances - 1) * (limit.burst / 4 + demandPerMs * URGENT_MS)
    expect(admitted(0, 15_000)).toBeLessThanOrEqual(limit.burst + limit.perSecond * 15 + excess)
    // From then on the rate holds.
    expect(admitted(5_000, 15_000) / limit.perSecond).toBeGreaterThan(9)
    expect(admitted(5_000, 15_000) / limit.perSecond).toBeLessThan(10.5)
  })
})

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

test('a caller that keeps calling stays authenticated, however many others call', () => {
  let nowMs = 0
  const limit = { perSecond: 1, burst: 1 }
  const defaults = { key: undefined, token: undefined, address: undefined, failed: limit }
  const runtime = createTestRuntime({}, { clock: { now: () => nowMs } })
  const known = createKnownCredentials(runtime, { stored: [], fixed: undefined })
  const limits = createRateLimits(runtime, { defaults, known, report: () => undefined })
  const call = (keyId: string): void => {
    const caller = {
      kind: 'business',
      businessId: 'b',
      live: true,
      keyId,
      scopes: new Set<never>(),
      isAddressBound: false,
      rateLimit: undefined,
    } as const
    limits.caller(caller, () => keyId)
  }
  for (let each = 0; each < 60_000; each++) {
    call('busy')
    call(`key-${each}`)
    nowMs += 10
  }
  expect(known.has('busy')).toBe(true)
  expect(known.has('key-0')).toBe(false)
})
