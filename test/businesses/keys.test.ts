import { randomUUID } from 'node:crypto'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { createAuthenticateKey, createFindKey } from '../../src/businesses/authenticate-key.ts'
import { keyIdOf, matchesHash, newSecretKey } from '../../src/businesses/secret-key.ts'
import { newId } from '../../src/core/ids.ts'
import { creation } from '../protocols/rest/rest.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useSharedService } from '../support/service.ts'

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
})

test('a key with a known id and another secret is refused', async () => {
  const { durablePool } = service.database
  const find = createAuthenticateKey(createTestRuntime({}), {
    findKey: createFindKey(durablePool),
    onUse: () => undefined,
  })
  const { key } = await service.business()
  const forged = newSecretKey(keyIdOf(key)!, true).secret
  for (const [secret, isFound] of [
    [forged, false],
    [key, true],
    [forged, false],
  ] as const) {
    expect((await find(secret, '198.51.100.1')) !== undefined).toBe(isFound)
  }
})

describe('a key that another provider made', () => {
  const businesses = () => service.client(BusinessService)
  const balance = (secret: string) => service.post('getBalance/', secret, {})
  let count = 0
  const foreign = () => `${['sk_live_', 'BS-', 'wiaxy.'][count % 3]}${randomUUID()}${++count}==`

  test('is imported, opens the business’s data of its mode', async () => {
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

test('a rotated key is valid for a day more by default', async () => {
  const { key } = await service.business()
  const startedMs = Date.now()
  const { replaced } = await service.client(BusinessService).rotateKey({ keyId: keyIdOf(key)! })
  const endsMs = timestampMs(replaced!.expiresAt!) - 86_400_000
  expect(endsMs).toBeGreaterThanOrEqual(startedMs)
  expect(endsMs).toBeLessThanOrEqual(Date.now())
})
