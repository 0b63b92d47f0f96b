import { describe, expect, test } from 'vitest'
import { endpointShare, shareOf } from '../../../src/app/workers/share-limits.ts'
import { readConfig } from '../../../src/config/config.ts'
import { connectionsOfService, poolSizes } from '../../../src/postgres/orm.ts'
import { fakeConnectors } from '../../support/fake-bank.ts'

describe('the requests that an endpoint may get at once', () => {
  const ids = Array.from({ length: 200 }, (_, index) => `ep_${index}`)
  const sharesOf = (id: string, concurrency: number, workers: number) =>
    Array.from({ length: workers }, (_, index) =>
      endpointShare({ number: index + 1, workers }, id, concurrency),
    )

  test.each([
    [1, 10],
    [2, 10],
    [3, 10],
    [3, 1],
    [8, 5],
    [64, 50],
    [64, 1],
  ])('are as many over %i workers as %i', (workers, concurrency) => {
    for (const id of ids) {
      const shares = sharesOf(id, concurrency, workers)
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(concurrency)
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1)
    }
  })

  test('are not the same worker’s at every endpoint, where there are too few for all', () => {
    const having = ids.map((id) => sharesOf(id, 1, 4).indexOf(1))
    for (const worker of [0, 1, 2, 3]) {
      expect(having.filter((each) => each === worker).length).toBeGreaterThan(20)
    }
  })
})

test('limits of the service are divided, and together hardly more than they were', () => {
  const settings = { BANKS: 'PALMPAY=live', BANK_PALMPAY_CONCURRENCY: '16', WORKERS: '3' }
  const whole = readConfig(
    { ...settings, CONNECTIONS_MAX: '1000', CONNECTIONS_PER_ADDRESS_MAX: '1' },
    fakeConnectors('http://127.0.0.1:1'),
  )
  const share = shareOf(whole)
  expect([share.connectionsMax, share.connectionsPerAddressMax]).toEqual([334, 1])
  expect(share.liveBanks.PALMPAY?.limits.concurrency).toBe(6)
  expect(share.liveBanks.PALMPAY?.connector).toBe(whole.liveBanks.PALMPAY?.connector)
  // All else is as it was.
  const { connectionsMax, connectionsPerAddressMax, liveBanks } = whole
  expect({ ...share, connectionsMax, connectionsPerAddressMax, liveBanks }).toEqual(whole)
})

test('one process has the connections to the database that it always had', () => {
  expect(poolSizes(1)).toEqual({ connectionsMax: 16, relaxedMax: 6 })
  expect([1, 2, 3, 4, 8].map(connectionsOfService)).toEqual([23, 24, 27, 36, 72])
})
