import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { until } from '../protocols/rest/rest.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { type RestAnswer, useSharedService } from '../support/service.ts'

const service = useSharedService()
const businesses = () => service.client(BusinessService)
let other: Instance

beforeAll(async () => {
  other = await startInstance(service.url)
})

afterAll(() => other?.close())

const DAY_MS = 86_400_000

/** Lists events with a key: status 200 if the key is valid. */
const call = (key: string): Promise<RestAnswer> => service.post('listEvents/', key, {})

async function callOther(key: string): Promise<number> {
  const response = await fetch(`${other.httpUrl}/v2/thirdparty/listEvents/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: '{}',
  })
  return response.status
}

describe('a rotated key', () => {
  test('stays valid for the overlap; the new key has the same mode and addresses', async () => {
    const { id } = await service.business()
    const allowedCidrs = ['127.0.0.0/8', '2001:db8::/32']
    const first = await businesses().issueKey({ businessId: id, test: true, allowedCidrs })
    const startedMs = Date.now()
    const rotated = await businesses().rotateKey({ keyId: first.key!.id })
    expect(rotated.key).toMatchObject({ businessId: id, live: false, allowedCidrs })
    expect(rotated.key!.expiresAt).toBeUndefined()
    expect(rotated.secretKey).toMatch(/^sk_test_/)
    expect(rotated.replaced!.id).toBe(first.key!.id)
    const endsMs = timestampMs(rotated.replaced!.expiresAt!)
    expect(endsMs - startedMs - DAY_MS).toBeGreaterThanOrEqual(-1)
    expect(endsMs - Date.now() - DAY_MS).toBeLessThanOrEqual(1)
    for (const key of [first.secretKey, rotated.secretKey]) {
      expect(await call(key)).toMatchObject({ status: 200 })
    }
    const { keys } = await businesses().listKeys({ businessId: id })
    expect(keys.slice(0, 2)).toEqual([rotated.key, rotated.replaced])
  })

  test('never expires later than before', async () => {
    const { id } = await service.business()
    const expiresAt = timestampFromMs(Date.now() + 3_600_000)
    const { key } = await businesses().issueKey({ businessId: id, expiresAt })
    const laterMs = Date.now() + 90 * DAY_MS
    const rotated = await businesses().rotateKey({
      keyId: key!.id,
      overlap: { seconds: 2_592_000n },
      expiresAt: timestampFromMs(laterMs),
    })
    expect(rotated.replaced!.expiresAt).toEqual(key!.expiresAt)
    expect(timestampMs(rotated.key!.expiresAt!)).toBe(laterMs)
    const sooner = await businesses().rotateKey({ keyId: key!.id, overlap: { seconds: 60n } })
    expect(timestampMs(sooner.replaced!.expiresAt!)).toBeLessThan(timestampMs(expiresAt))
  })

  test('without an overlap expires at every instance, and cannot be rotated', async () => {
    const { key } = await service.business()
    expect([(await call(key)).status, await callOther(key)]).toEqual([200, 200])
    const keyId = `key_${key.split('_')[2]}`
    const { secretKey } = await businesses().rotateKey({ keyId, overlap: { seconds: 0n } })
    for (const statusOf of [async () => (await call(key)).status, () => callOther(key)]) {
      await until(statusOf, (status) => status === 401)
    }
    expect([(await call(secretKey)).status, await callOther(secretKey)]).toEqual([200, 200])
    await expect(businesses().rotateKey({ keyId })).rejects.toThrow(/has expired/)
  })

  test('is rotated by concurrent calls: each issues a valid key', async () => {
    const { key } = await service.business()
    const keyId = `key_${key.split('_')[2]}`
    const rotated = await Promise.all(
      Array.from({ length: 5 }, () => businesses().rotateKey({ keyId })),
    )
    expect(new Set(rotated.map(({ secretKey }) => secretKey)).size).toBe(5)
    for (const { secretKey } of rotated)
      expect(await call(secretKey)).toMatchObject({ status: 200 })
  })
})

test('a revoked key can be neither rotated nor changed', async () => {
  const { id } = await service.business()
  const { key } = await businesses().issueKey({ businessId: id })
  await businesses().revokeKey({ keyId: key!.id })
  const before = await businesses().listKeys({ businessId: id })
  await expect(businesses().rotateKey({ keyId: key!.id })).rejects.toThrow(/was revoked/)
  const change = { keyId: key!.id, allowedCidrs: ['10.0.0.0/8'] }
  await expect(businesses().updateKey(change)).rejects.toThrow(/was revoked/)
  expect(await businesses().listKeys({ businessId: id })).toEqual(before)
})

test('lists each key once, newest first, over all pages', async () => {
  const { id } = await service.business()
  for (let i = 0; i < 11; i++) await businesses().issueKey({ businessId: id })
  const listed: string[] = []
  let pageToken = ''
  do {
    const page = await businesses().listKeys({ businessId: id, pageSize: 5, pageToken })
    listed.push(...page.keys.map((key) => key.id))
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  expect(listed).toHaveLength(12)
  expect(listed).toEqual([...new Set(listed)].sort().reverse())
})
