import { describe, expect, test } from 'vitest'
import { endpointShare, shareOf } from '../../../src/app/workers/share-limits.ts'
import { readConfig } from '../../../src/config/config.ts'
import { connectionsOfService, poolSizes } from '../../../src/postgres/orm.ts'
import { fakeConnectors } from '../../support/fake-bank.ts'

describe('the concurrency of an endpoint', () => {
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
  ])('over %i workers adds up to %i', (workers, concurrency) => {
    for (const id of ids) {
      const shares = sharesOf(id, concurrency, workers)
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(concurrency)
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1)
    }
  })

  test('goes to different workers at different endpoints when it is smaller than their number', () => {
    const having = ids.map((id) => sharesOf(id, 1, 4).indexOf(1))
    for (const worker of [0, 1, 2, 3]) {
      expect(having.filter((each) => each === worker).length).toBeGreaterThan(20)
    }
  })
})

test('divides the limits of the service by the number of workers, rounded up', () => {
  const settings = { BANKS: 'PALMPAY=live', BANK_PALMPAY_CONCURRENCY: '16', WORKERS: '3' }
  const whole = readConfig(
    { ...settings, CONNECTIONS_MAX: '1000', CONNECTIONS_PER_ADDRESS_MAX: '1' },
    fakeConnectors('http://127.0.0.1:1'),
  )
  const share = shareOf(whole)
  expect([share.connectionsMax, share.connectionsPerAddressMax]).toEqual([334, 1])
  expect(share.liveBanks.PALMPAY?.limits.concurrency).toBe(6)
  expect(share.liveBanks.PALMPAY?.connector).toBe(whole.liveBanks.PALMPAY?.connector)
  // Other settings are unchanged.
  const { connectionsMax, connectionsPerAddressMax, liveBanks } = whole
  expect({ ...share, connectionsMax, connectionsPerAddressMax, liveBanks }).toEqual(whole)
})

test('the connections to the database depend on the number of workers', () => {
  expect(poolSizes(1)).toEqual({ connectionsMax: 16, relaxedMax: 6, recordingMax: 6 })
  expect(poolSizes(3, 11)).toEqual({ connectionsMax: 6, relaxedMax: 2, recordingMax: 3 })
  expect(connectionsOfService(3, 11)).toBe(36)
  expect([1, 2, 3, 4, 8].map((workers) => connectionsOfService(workers))).toEqual([
    29, 30, 36, 48, 96,
  ])
})
