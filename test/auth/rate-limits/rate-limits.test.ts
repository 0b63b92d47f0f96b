import pino from 'pino'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
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
    const exchange = createExchange(createTestRuntime({}, { clock, log }), {
      share,
    })
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

  test('reports two buckets of one name as one, and applies the level to both', async () => {
    const reported = Promise.withResolvers<readonly Spending[]>()
    const share: Share = async (spendings) => {
      reported.resolve(spendings)
      return new Map(spendings.map(({ name, spent }) => [name, 100 - spent]))
    }
    const exchange = createExchange(createTestRuntime({}, { clock, log }), {
      share,
    })
    const [first, second] = [1, 2].map(() => new SharedBucket('b', limit, 0, exchange.report))
    for (let each = 0; each < 5; each++) first!.take(0)
    for (let each = 0; each < 7; each++) second!.take(0)
    expect(await reported.promise).toEqual([{ name: 'b', spent: 12, limit }])
    await exchange.stop()
    expect([first!.remaining, second!.remaining]).toEqual([88, 88])
  })

  test('queues a bounded number of buckets; the others report again', async () => {
    const exchange = createExchange(createTestRuntime({}, { clock, log }), {
      share: async () => new Map(),
    })
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

  test('sends no report that is pending when it stops, and none of what is spent later', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    let exchanges = 0
    const exchange = createExchange(createTestRuntime({}, { clock, log }), {
      share: async () => {
        exchanges += 1
        return new Map()
      },
    })
    const bucket = new SharedBucket('b', limit, 0, exchange.report)
    for (let each = 0; each < 10; each++) bucket.take(0)
    await exchange.stop()
    for (let each = 0; each < 90; each++) bucket.take(0)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(exchanges).toBe(0)
  })
})
