import { createContextValues, type HandlerContext } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import {
  actorOf,
  auditKeysKey,
  BOOTSTRAP,
  type Caller,
  callerKey,
  callingBusiness,
  callingToken,
  callSourceKey,
  credentialIdOf,
  credentialStatusKey,
  requireScope,
  restrictionOf,
  SCOPES,
  systemActor,
} from '../../src/auth/caller.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'

const auditKeys = createEncrypter(Buffer.alloc(32, 1))
const source = { address: '203.0.113.7', requestId: 'req_1' }
const business: Caller = {
  kind: 'business',
  businessId: 'biz_1',
  live: true,
  keyId: 'key_1',
  scopes: new Set(),
  rateLimit: undefined,
}
const token = (tokenId: string, ...scopes: readonly (typeof SCOPES)[number][]) =>
  ({ kind: 'internal', tokenId, name: 'shop', scopes: new Set(scopes) }) as const

function contextOf(caller: Caller | undefined, isComplete = true): HandlerContext {
  const values = createContextValues().set(callerKey, caller)
  if (isComplete) values.set(callSourceKey, source).set(auditKeysKey, auditKeys)
  return { values } as HandlerContext
}

describe('what needs the scope admin', () => {
  test('is refused to every other scope, to businesses and to strangers', () => {
    const others = SCOPES.filter((scope) => scope !== 'admin')
    for (const caller of [token('tok_1', ...others), business, undefined]) {
      expect(() => requireScope(contextOf(caller), 'admin', 'this')).toThrow(
        expect.objectContaining({ reason: 'permission_denied' }),
      )
    }
    expect(() => requireScope(contextOf(token('tok_1', 'admin')), 'admin', 'this')).not.toThrow()
  })
})

describe('the caller of a method', () => {
  test('is a business where the policy requires a secret key', () => {
    expect(callingBusiness(contextOf(business))).toBe(business)
    for (const caller of [token('tok_1'), undefined]) {
      expect(() => callingBusiness(contextOf(caller))).toThrow('only businesses')
    }
  })

  test('is a token where the policy requires one', () => {
    const caller = token('tok_1')
    expect(callingToken(contextOf(caller))).toBe(caller)
    for (const other of [business, undefined]) {
      expect(() => callingToken(contextOf(other))).toThrow('only tokens')
    }
  })

  test('is restricted to the businesses of its token alone', () => {
    const businessIds = new Set(['biz_1'])
    const of = (caller: Caller | undefined) => restrictionOf(contextOf(caller).values)
    expect(of({ ...token('tok_1'), businessIds })).toBe(businessIds)
    expect([of(token('tok_1')), of(business), of(undefined)]).toEqual(Array(3).fill(undefined))
  })

  test('stays valid in a call that nothing watches', async () => {
    const status = contextOf(undefined).values.get(credentialStatusKey)
    expect(await status.isValid()).toBe(true)
  })
})

describe('the audit log names', () => {
  test.each<[string, Caller, object]>([
    ['a secret key', business, { kind: 'secret_key', id: 'key_1', name: '' }],
    ['a token', token('tok_1'), { kind: 'token', id: 'tok_1', name: 'shop' }],
    ['ADMIN_TOKEN', token(BOOTSTRAP), { kind: 'bootstrap', id: '', name: 'shop' }],
  ])('%s with its id, its address and the request', (_what, caller, actor) => {
    expect(actorOf(contextOf(caller))).toEqual({ ...actor, ...source, auditKeys })
  })

  test('the service itself for changes without a caller', () => {
    const empty = { id: '', name: '', address: '', requestId: '' }
    expect(systemActor(auditKeys)).toEqual({ kind: 'system', ...empty, auditKeys })
  })

  test('no caller for a call without a credential or a source: it is not served', () => {
    expect(() => actorOf(contextOf(undefined))).toThrow('has a caller')
    expect(() => actorOf(contextOf(business, false))).toThrow('has a caller')
    const values = createContextValues().set(callerKey, business).set(callSourceKey, source)
    expect(() => actorOf({ values } as HandlerContext)).toThrow('has a caller')
  })

  test('the credential by its id, that of ADMIN_TOKEN too', () => {
    const ids = [business, token('tok_1'), token(BOOTSTRAP)].map((caller) =>
      credentialIdOf(actorOf(contextOf(caller))),
    )
    expect(ids).toEqual(['key_1', 'tok_1', BOOTSTRAP])
  })
})
