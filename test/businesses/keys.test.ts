import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { beforeEach, describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { createAuthenticateKey } from '../../src/businesses/authenticate-key.ts'
import { keyIdOf, matchesHash, newSecretKey } from '../../src/businesses/secret-key.ts'
import { createBusinessStore } from '../../src/businesses/store.ts'
import { newId } from '../../src/ids.ts'
import { useService } from '../support/service.ts'

const service = useService()

describe('a secret key', () => {
  test('is told by its form, and matches its own hash alone', () => {
    const id = newId('key', Date.now())
    const { secret, prefix, secretHash } = newSecretKey(id)
    expect(secret).toMatch(/^sk_live_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/)
    expect(secret.startsWith(prefix)).toBe(true)
    expect(prefix).toHaveLength(18)
    expect(keyIdOf(secret)).toBe(id)
    expect(matchesHash(secret, secretHash)).toBe(true)
    expect(matchesHash(newSecretKey(id).secret, secretHash)).toBe(false)
  })

  test.each(['', 'sk_live_', 'sk_test_x', `sk_live_${'0'.repeat(26)}_short`, 'x'.repeat(1_000)])(
    '"%s" is of no key',
    (text) => {
      expect(keyIdOf(text)).toBeUndefined()
    },
  )

  test('is in no table: neither it nor what follows its prefix', async () => {
    const { key } = await service.business()
    const { rows } = await service.database.pool.query('select a::text from api_key a')
    const secretPart = key.slice(-43)
    expect(rows.some((row) => row.a.includes(secretPart))).toBe(false)
    const hex = Buffer.from(key).toString('hex')
    expect(rows.some((row) => row.a.includes(hex))).toBe(false)
  })
})

describe('authentication by key', () => {
  let nowMs: number
  const authenticate = () =>
    createAuthenticateKey(createBusinessStore(service.database.pool), { now: () => nowMs })

  beforeEach(() => {
    nowMs = Date.now()
  })

  test('trusts a key without asking again for less than a second, and no longer', async () => {
    const { id, key } = await service.business()
    const find = authenticate()
    expect(await find(key)).toMatchObject({ kind: 'business', businessId: id })
    await service.client(BusinessService).revokeKey({ keyId: keyIdOf(key)! })
    expect(await find(key)).toBeDefined()
    nowMs += 1_000
    expect(await find(key)).toBeUndefined()
    nowMs -= 1_000
    expect(await find(key)).toBeUndefined()
  })

  test('ends with the time of the key, also of a remembered one', async () => {
    const { id } = await service.business()
    const expiresAt = timestampFromMs(nowMs + 60_000)
    const { secretKey, key } = await service
      .client(BusinessService)
      .issueKey({ businessId: id, expiresAt })
    const find = authenticate()
    nowMs = timestampMs(key!.expiresAt!) - 100
    expect(await find(secretKey)).toBeDefined()
    nowMs += 99
    expect(await find(secretKey)).toBeDefined()
    nowMs += 1
    expect(await find(secretKey)).toBeUndefined()
  })

  test('does not take a key of the right id and another secret', async () => {
    const { key } = await service.business()
    const forged = newSecretKey(keyIdOf(key)!).secret
    const find = authenticate()
    expect(await find(forged)).toBeUndefined()
    expect(await find(key)).toBeDefined()
    expect(await find(forged)).toBeUndefined()
  })
})

describe('the keys of a business', () => {
  test('are issued, listed newest first, and revoked once', async () => {
    const { id } = await service.business()
    const businesses = service.client(BusinessService)
    const second = await businesses.issueKey({ businessId: id })
    const { keys } = await businesses.listKeys({ businessId: id })
    expect(keys.map((key) => key.id)[0]).toBe(second.key!.id)
    expect(keys).toHaveLength(2)
    expect(second.secretKey.startsWith(keys[0]!.prefix)).toBe(true)
    const revoked = await businesses.revokeKey({ keyId: second.key!.id })
    const again = await businesses.revokeKey({ keyId: second.key!.id })
    expect(revoked.key!.revokedAt).toBeDefined()
    expect(again).toEqual(revoked)
    const after = await businesses.listKeys({ businessId: id })
    expect(after.keys.map((key) => key.revokedAt === undefined)).toEqual([false, true])
  })
})
