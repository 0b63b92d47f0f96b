import pino from 'pino'
import { describe, expect, test } from 'vitest'
import type { BusinessCaller, InternalCaller } from '../../../src/auth/caller.ts'
import { createKnownCredentials } from '../../../src/auth/rate-limits/known-credentials.ts'
import { createRateLimits, type DefaultLimits } from '../../../src/auth/rate-limits/rate-limits.ts'
import type { RateLimit, TokenBucket } from '../../../src/auth/rate-limits/token-bucket.ts'
import { createTestRuntime } from '../../support/runtime.ts'

const limitOf = (burst: number): RateLimit => ({ perSecond: 1, burst })
const DEFAULTS = { key: limitOf(2), token: limitOf(3), address: limitOf(4), failed: limitOf(5) }
const business: BusinessCaller = {
  kind: 'business',
  businessId: 'biz_1',
  live: true,
  keyId: 'key_1',
  scopes: new Set(),
  isAddressBound: false,
  rateLimit: undefined,
}
const internal: InternalCaller = {
  kind: 'internal',
  tokenId: 'tok_1',
  name: 'shop',
  scopes: new Set(['read']),
}

function setUp(defaults: DefaultLimits = DEFAULTS) {
  const state = { nowMs: 1_000_000 }
  const clock = { now: () => state.nowMs }
  const log = pino({ level: 'silent' })
  const known = createKnownCredentials(createTestRuntime({}, { clock, log }), {
    stored: [],
    fixed: undefined,
  })
  const reported: string[] = []
  const report = ({ name }: { readonly name: string }) => void reported.push(name)
  const limits = createRateLimits(createTestRuntime({}, { clock }), {
    defaults,
    known,
    report,
  })
  return { state, known, reported, limits }
}
const burstOf = (bucket: TokenBucket | undefined) => bucket?.limit.burst

describe('the limit of an address', () => {
  test('is one bucket for each group, apart from that of calls without a credential', () => {
    const { limits, reported } = setUp()
    const bucket = limits.address('203.0.113.7')
    expect(burstOf(bucket)).toBe(4)
    expect(limits.address('::ffff:203.0.113.7')).toBe(bucket)
    expect(limits.address('203.0.113.8')).not.toBe(bucket)
    expect(limits.anonymous('203.0.113.7')).not.toBe(bucket)
    for (const each of [bucket, limits.anonymous('2001:db8::1')]) each?.take(1_000_000)
    expect(reported).toEqual(['address 203.0.113.7', 'anonymous 2001:db8:0:0::/64'])
  })

  test('does not hold for loopback, or if none is set', () => {
    const { limits } = setUp()
    for (let each = 0; each < 2; each++) expect(limits.address('127.0.0.1')).toBeUndefined()
    const unlimited = setUp({ ...DEFAULTS, address: undefined }).limits
    expect([unlimited.address('203.0.113.7'), unlimited.anonymous('203.0.113.7')]).toEqual([
      undefined,
      undefined,
    ])
  })
})

describe('the limit of a caller', () => {
  const credential = () => 'secret'

  test('is the default of its kind, one bucket for each key and token', () => {
    const { limits, reported } = setUp()
    const [key, token] = [limits.caller(business, credential), limits.caller(internal, credential)]
    expect([burstOf(key), burstOf(token)]).toEqual([2, 3])
    expect(limits.caller({ ...business }, credential)).toBe(key)
    expect(limits.caller({ ...business, keyId: 'key_2' }, credential)).not.toBe(key)
    for (const each of [key, token]) each?.take(1_000_000)
    expect(reported).toEqual(['key key_1', 'token tok_1'])
  })

  test('is its own where it has one, from the next call after a change, and what was taken stays taken', () => {
    const { limits } = setUp()
    const bucket = limits.caller({ ...business, rateLimit: limitOf(9) }, credential)
    expect(burstOf(bucket)).toBe(9)
    bucket?.take(1_000_000)
    expect(limits.caller({ ...business, rateLimit: limitOf(20) }, credential)).toBe(bucket)
    expect([burstOf(bucket), bucket?.remaining]).toEqual([20, 19])
    expect(limits.caller(business, credential)).toBe(bucket)
    expect([burstOf(bucket), bucket?.remaining]).toEqual([2, 1])
  })

  test('holds only where one is set, and begins and ends with it', () => {
    const { limits } = setUp({ ...DEFAULTS, key: undefined, token: undefined })
    expect(limits.caller(business, credential)).toBeUndefined()
    expect(limits.caller(internal, credential)).toBeUndefined()
    expect(burstOf(limits.caller({ ...business, rateLimit: limitOf(9) }, credential))).toBe(9)
    expect(limits.caller(business, credential)).toBeUndefined()
  })

  test('notes its credential as known at the first call and then once a minute', () => {
    const { limits, known, state } = setUp()
    let reads = 0
    const call = () =>
      limits.caller(business, () => {
        reads += 1
        return 'secret'
      })
    call()
    expect(known.has('secret')).toBe(true)
    const readsAfter = [59_999, 1, 0, 60_000].map((waitMs) => {
      state.nowMs += waitMs
      call()
      return reads
    })
    expect(readsAfter).toEqual([1, 2, 2, 3])
    // A clock that was set back does not stop it.
    state.nowMs -= 600_000
    call()
    expect(reads).toBe(4)
  })

  test('knows a credential again at the first call after it was refused', () => {
    const { limits, known } = setUp()
    limits.caller(business, credential)
    limits.fail('203.0.113.7', 'well-formed', 'secret')
    expect(known.has('secret')).toBe(false)
    limits.caller(business, credential)
    expect(known.has('secret')).toBe(true)
  })
})

describe('failed authentications from an address', () => {
  test('spend one bucket for each form and group, none before the first failure', () => {
    const { limits, reported } = setUp()
    expect(limits.limitsFailures).toBe(true)
    expect(limits.failures('203.0.113.7')).toBeUndefined()
    limits.fail('203.0.113.7', 'well-formed', 'x')
    limits.fail('::ffff:203.0.113.7', 'well-formed', 'y')
    limits.fail('203.0.113.7', 'malformed', 'z')
    const failures = limits.failures('203.0.113.7')
    expect(failures?.['well-formed']?.remaining).toBe(3)
    expect(failures?.malformed?.remaining).toBe(4)
    expect(limits.failures('203.0.113.8')).toBeUndefined()
    expect(new Set(reported)).toEqual(new Set(['failed 203.0.113.7', 'malformed 203.0.113.7']))
  })

  test('spend nothing if no limit is set', () => {
    const { limits } = setUp({ ...DEFAULTS, failed: undefined })
    limits.fail('203.0.113.7', 'well-formed', 'x')
    expect(limits.limitsFailures).toBe(false)
    expect(limits.failures('203.0.113.7')).toBeUndefined()
  })
})
