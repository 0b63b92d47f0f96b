import { randomUUID } from 'node:crypto'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { Code } from '@connectrpc/connect'
import { beforeEach, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { createAuthenticateKey } from '../../src/businesses/authenticate-key.ts'
import { keyIdOf, matchesHash, newSecretKey } from '../../src/businesses/secret-key.ts'
import { createFindKey } from '../../src/businesses/store.ts'
import { newId } from '../../src/core/ids.ts'
import { creation } from '../protocols/rest/rest.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const service = useSharedService()

describe('a secret key', () => {
  test.each([
    ['live', true],
    ['test', false],
  ])('of %s mode is recognized by its format, and matches only its own hash', (mode, live) => {
    const id = newId('key', Date.now())
    const { secret, prefix, secretHash } = newSecretKey(id, live)
    expect(secret).toMatch(new RegExp(`^sk_${mode}_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$`))
    expect(secret.startsWith(prefix)).toBe(true)
    expect(prefix).toHaveLength(18)
    expect(keyIdOf(secret)).toBe(id)
    expect(matchesHash(secret, secretHash)).toBe(true)
    expect(matchesHash(newSecretKey(id, live).secret, secretHash)).toBe(false)
    const otherMode = secret.replace(/^sk_(live|test)/, live ? 'sk_test' : 'sk_live')
    expect(matchesHash(otherMode, secretHash)).toBe(false)
  })

  test.each(['', 'sk_live_', 'sk_test_x', `sk_live_${'0'.repeat(26)}_short`, 'x'.repeat(1_000)])(
    '"%s" names no key',
    (text) => {
      expect(keyIdOf(text)).toBeUndefined()
    },
  )

  test('is stored nowhere: neither the secret nor the part after its prefix', async () => {
    const { key } = await service.business()
    const { rows } = await service.database.durablePool.query<{ text: string }>(
      'select a::text as text from api_key a union all select e::text from audit_entry e',
    )
    expect(rows.length).toBeGreaterThan(0)
    const secretPart = key.slice(-43)
    const asBytes = (['utf8', 'base64url'] as const).map((coding) =>
      Buffer.from(secretPart, coding).toString('hex'),
    )
    const found = rows.filter(({ text }) =>
      [secretPart, ...asBytes].some((part) => text.includes(part)),
    )
    expect(found).toEqual([])
  })
})

describe('authentication by key', () => {
  let nowMs: number
  let used: (readonly [keyId: string, atMs: number])[]
  let lookups: number
  const authenticate = () => {
    const findKey = createFindKey(service.database.durablePool)
    const find = createAuthenticateKey(createTestRuntime({}, { clock: { now: () => nowMs } }), {
      findKey(secret) {
        lookups += 1
        return findKey(secret)
      },
      onUse: (...use) => used.push(use),
    })
    return async (secret: string, address = '198.51.100.1') => find(secret, address)
  }

  beforeEach(() => {
    nowMs = Date.now()
    used = []
    lookups = 0
  })

  test('caches a key for less than a second', async () => {
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

  test('does not cache a key for longer when the clock is set back', async () => {
    const { key } = await service.business()
    const find = authenticate()
    expect(await find(key)).toBeDefined()
    await service.client(BusinessService).revokeKey({ keyId: keyIdOf(key)! })
    nowMs -= 3_600_000
    expect(await find(key)).toBeUndefined()
  })

  test('shares one look-up between concurrent requests', async () => {
    const { id, key } = await service.business()
    const find = authenticate()
    const found = await Promise.all(Array.from({ length: 50 }, () => find(key)))
    expect(found.every((caller) => caller?.businessId === id)).toBe(true)
    expect(lookups).toBe(1)
  })

  test('does not share a look-up that started before a possible revocation', async () => {
    const { key } = await service.business()
    const find = authenticate()
    const first = find(key)
    nowMs += 800
    await find(key)
    await first
    expect(lookups).toBe(2)
  })

  test('reports a use once per cache entry', async () => {
    const { key } = await service.business()
    const find = authenticate()
    const beganMs = nowMs
    for (let i = 0; i < 5; i++) await find(key)
    nowMs += 1_000
    for (let i = 0; i < 5; i++) await find(key)
    const keyId = keyIdOf(key)!
    expect(used).toEqual([
      [keyId, beganMs],
      [keyId, beganMs + 1_000],
    ])
  })

  test('accepts a key only from its addresses, and reports no use from others', async () => {
    const { id } = await service.business()
    const { secretKey } = await service.client(BusinessService).issueKey({
      businessId: id,
      allowedCidrs: ['203.0.113.0/24'],
    })
    const find = authenticate()
    for (const address of ['198.51.100.1', '', 'garbage', '::ffff:198.51.100.1', '2001:db8::1']) {
      await expect(find(secretKey, address)).rejects.toMatchObject({
        reason: 'address_not_allowed',
      })
    }
    expect(used).toEqual([])
    expect(await find(secretKey, '::ffff:203.0.113.9')).toMatchObject({ businessId: id })
    expect(used).toHaveLength(1)
    expect(lookups).toBe(1)
  })

  test('refuses an expired key, also while it is cached', async () => {
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

  test('refuses a key with a known id and another secret', async () => {
    const { key } = await service.business()
    const forged = newSecretKey(keyIdOf(key)!, true).secret
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

describe('a key that another provider made', () => {
  const businesses = () => service.client(BusinessService)
  const balance = (secret: string) => service.post('getBalance/', secret, {})
  let count = 0
  const foreign = () => `${['sk_live_', 'BS-', 'wiaxy.'][count % 3]}${randomUUID()}${++count}==`

  test('is imported, opens the business’s data of its mode, and only its hash is stored', async () => {
    const { id } = await service.business()
    const secretKey = foreign()
    expect((await balance(secretKey)).status).toBe(401)
    const { key } = await businesses().importKey({ businessId: id, secretKey })
    expect(key).toMatchObject({ imported: true, live: true, prefix: secretKey.slice(0, 10) })
    expect((await balance(secretKey)).status).toBe(200)
    const created = await service.post('generateVirtualAccount/', secretKey, creation())
    const { accounts } = await service.client(AccountService).listAccounts({ businessId: id })
    expect(accounts.map(({ reference }) => reference)).toEqual([created.body.data.reference])
    const { entries } = await service.client(AdminService).listAuditEntries({ businessId: id })
    expect(entries[0]).toMatchObject({ action: 'key.import', targetId: key!.id })
    const { rows } = await service.database.durablePool.query(
      `select k::text as key, e::text as entry from api_key k, audit_entry e
        where k.id = $1 and e.target_id = $1`,
      [key!.id],
    )
    expect(rows).toHaveLength(1)
    expect(JSON.stringify(rows)).not.toContain(secretKey.slice(10))
  })

  test('is imported once, also by many calls at once', async () => {
    const { id } = await service.business()
    const request = { businessId: id, secretKey: foreign() }
    const calls = await Promise.all(
      Array.from({ length: 8 }, () => businesses().importKey(request)),
    )
    expect(new Set(calls.map(({ key }) => key!.id)).size).toBe(1)
  })

  test('is refused as a key of another business or mode, and once it was revoked', async () => {
    const [one, other] = [await service.business(), await service.business()]
    const secretKey = foreign()
    const imported = (request: object) =>
      businesses().importKey({ businessId: one.id, secretKey, ...request })
    const { key } = await imported({})
    for (const request of [{ businessId: other.id }, { test: true }]) {
      await expect(imported(request)).rejects.toMatchObject({ code: Code.AlreadyExists })
    }
    await businesses().revokeKey({ keyId: key!.id })
    await expect(imported({})).rejects.toMatchObject({ code: Code.AlreadyExists })
    await waitFor(async () => expect((await balance(secretKey)).status).toBe(401))
  })

  test('is replaced by one of our own when it is rotated', async () => {
    const { id } = await service.business()
    const secretKey = foreign()
    const { key } = await businesses().importKey({ businessId: id, secretKey })
    const rotated = await businesses().rotateKey({ keyId: key!.id })
    expect(rotated.key).toMatchObject({ imported: false, live: true })
    expect(keyIdOf(rotated.secretKey)).toBe(rotated.key!.id)
    expect((await balance(secretKey)).status).toBe(200)
    expect((await balance(rotated.secretKey)).status).toBe(200)
  })

  test.each(['a'.repeat(23), 'a'.repeat(257), `${'a'.repeat(30)} b`, 'é'.repeat(30)])(
    'is refused as %s, which names the field',
    async (secretKey) => {
      const { id } = await service.business()
      const call = businesses().importKey({ businessId: id, secretKey })
      await expect(call).rejects.toThrow(/secret_?key/i)
    },
  )

  test('does not take the form of our own keys, which would name another key', async () => {
    const { id, key } = await service.business()
    const secretKey = newSecretKey(keyIdOf(key)!, true).secret
    await expect(businesses().importKey({ businessId: id, secretKey })).rejects.toThrow(
      /secret_?key/i,
    )
    expect((await balance(secretKey)).status).toBe(401)
  })
})
