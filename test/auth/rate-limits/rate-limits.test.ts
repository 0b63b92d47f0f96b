import pino from 'pino'
import { describe, expect, test } from 'vitest'
import {
  createExchange,
  type Share,
  type Spending,
} from '../../../src/auth/rate-limits/exchange.ts'
import { SharedBucket } from '../../../src/auth/rate-limits/token-bucket.ts'
import { addressGroup, isLoopback } from '../../../src/core/addresses.ts'
import { createTestRuntime } from '../../support/runtime.ts'

describe('an address is grouped', () => {
  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::FFFF:cb00:7107', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::9', '2001:db8:1:2::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '::1'],
    ['::1:0:0:0:1', '0:0:0:1::/64'],
    ['un:known', 'un:known'],
  ])('%s as %s', (address, group) => {
    expect(addressGroup(address)).toBe(group)
  })

  test('as loopback, in any spelling', () => {
    for (const address of ['127.0.0.1', '127.19.190.255', '::1', '::ffff:127.0.0.1']) {
      expect(isLoopback(addressGroup(address))).toBe(true)
    }
    for (const address of [
      '128.0.0.1',
      '::2',
      '127.example.com',
      '127.0.0.1.x',
      'x127.0.0.1',
      '',
    ]) {
      expect(isLoopback(addressGroup(address))).toBe(false)
    }
  })
})

describe('the exchange', () => {
  const clock = { now: () => 0 }
  const log = pino({ level: 'silent' })
  const limit = { perSecond: 100, burst: 100 }

  test('runs no statement while nothing is spent, and keeps what was spent while the database is unavailable', async () => {
    const exchanges: (readonly Spending[])[] = []
    const exchanged = Promise.withResolvers<void>()
    const share: Share = async (spendings) => {
      exchanges.push(spendings)
      if (exchanges.length === 1) {
        take(5)
        throw new Error('unavailable')
      }
      exchanged.resolve()
      return new Map(spendings.map(({ name, spent }) => [name, -spent]))
    }
    const exchange = createExchange(createTestRuntime({}, { clock, log }), share)
    const bucket = new SharedBucket('b', limit, 0, exchange.report)
    const take = (count: number) => {
      for (let each = 0; each < count; each++) expect(bucket.take(0)).toBe(true)
    }
    expect(exchanges).toEqual([])
    take(10)
    await exchanged.promise
    await exchange.stop()
    // Everything spent was reported in the end, and its result applied.
    expect(exchanges.map(([spending]) => spending?.spent)).toEqual([10, 15])
    expect(bucket.retryAfterSeconds).toBe(1)
    expect(bucket.take(0)).toBe(false)
  })

  test('queues a bounded number of buckets; the others report again', async () => {
    const exchange = createExchange(createTestRuntime({}, { clock, log }), async () => new Map())
    const reports = new Map<SharedBucket, number>()
    const report = (bucket: SharedBucket, urgent: boolean): void => {
      reports.set(bucket, (reports.get(bucket) ?? 0) + 1)
      exchange.report(bucket, urgent)
    }
    const few = { perSecond: 1, burst: 2 }
    const buckets = Array.from(
      { length: 50_001 },
      (_, at) => new SharedBucket(`${at}`, few, 0, report),
    )
    for (let each = 0; each < 2; each++) for (const bucket of buckets) bucket.take(0)
    await exchange.stop()
    expect(
      [buckets[0], buckets[49_999], buckets[50_000]].map((each) => reports.get(each!)),
    ).toEqual([1, 1, 2])
  })
})
