import { describe, expect, test } from 'vitest'
import type { Scope } from '../../../src/auth/caller.ts'
import { type ClaimRules, mapClaims } from '../../../src/auth/sessions/sign-in-user.ts'

const rules = (more: Partial<ClaimRules> = {}): ClaimRules => ({
  scopesClaim: 'inflow_scopes',
  businessesClaim: undefined,
  roles: new Map(),
  ...more,
})

const ROLES = new Map<string, ReadonlySet<Scope>>([
  ['finance', new Set<Scope>(['read'])],
  ['support', new Set<Scope>(['read', 'events:subscribe'])],
])

describe('scopes', () => {
  test.each([
    ['a list', ['read', 'admin'], ['admin', 'read']],
    ['words', 'read events:subscribe', ['read', 'events:subscribe']],
    ['a list with others', ['read', 'openid', 7, null], ['read']],
  ])('are those of %s', (_what, claim, scopes) => {
    expect(mapClaims({ sub: 'a', inflow_scopes: claim }, rules())?.scopes).toEqual(scopes)
  })

  test.each([
    ['an unknown scope', ['root']],
    ['an empty list', []],
    ['an object', { admin: true }],
    ['true', true],
    ['nothing', undefined],
  ])('are none of %s', (_what, claim) => {
    expect(mapClaims({ sub: 'a', inflow_scopes: claim }, rules())).toBeUndefined()
  })

  test('of roles are joined', () => {
    const claims = { sub: 'a', groups: ['finance', 'support', 'others'] }
    const of = mapClaims(claims, rules({ scopesClaim: 'groups', roles: ROLES }))
    expect(of?.scopes).toEqual(['read', 'events:subscribe'])
  })

  test('are not named by a group, where there are roles', () => {
    const claims = { sub: 'a', groups: ['admin'] }
    expect(mapClaims(claims, rules({ scopesClaim: 'groups', roles: ROLES }))).toBeUndefined()
  })

  test('may be in a claim of a claim', () => {
    const nested = rules({ scopesClaim: 'realm_access.roles' })
    const claims = { sub: 'a', realm_access: { roles: ['read'] } }
    expect(mapClaims(claims, nested)?.scopes).toEqual(['read'])
    const exact = { sub: 'a', 'realm_access.roles': 'admin', realm_access: { roles: ['read'] } }
    expect(mapClaims(exact, nested)?.scopes).toEqual(['admin'])
    expect(mapClaims({ sub: 'a' }, rules({ scopesClaim: 'constructor.name' }))).toBeUndefined()
  })
})

describe('businesses', () => {
  const of = (businesses: unknown) =>
    mapClaims(
      { sub: 'a', inflow_scopes: 'read', businesses },
      rules({ businessesClaim: 'businesses' }),
    )

  test('are those of the claim, once each', () => {
    expect(of(['biz_1', 'biz_2', 'biz_1'])?.businessIds).toEqual(['biz_1', 'biz_2'])
  })

  test('are all by an asterisk alone', () => {
    const all = of('*')
    expect(all).toBeDefined()
    expect(all?.businessIds).toBeUndefined()
  })

  test.each([
    ['left out', undefined],
    ['an empty list', []],
    ['a number', 5],
    ['an asterisk among others', ['biz_1', '*']],
    ['more than a hundred', Array.from({ length: 101 }, (_, index) => `biz_${index}`)],
    ['too long an id', ['b'.repeat(65)]],
  ])('are none, and the user is refused, by %s', (_what, claim) => {
    expect(of(claim)).toBeUndefined()
  })
})

describe('a user', () => {
  const of = (claims: Record<string, unknown>) =>
    mapClaims({ inflow_scopes: 'read', ...claims }, rules())

  test('is named by the subject, and called by the name', () => {
    expect(of({ sub: 'a-1', name: 'Ada Obi' })).toMatchObject({
      callerId: 'oidc:a-1',
      name: 'Ada Obi',
    })
    expect(of({ sub: 'a-1', email: 'ada@example.com' })?.name).toBe('ada@example.com')
    expect(of({ sub: 'a-1', name: 'A\u0000\nb' })?.name).toBe('A  b')
    expect([...(of({ sub: 'a-1', name: 'x'.repeat(500) })?.name ?? '')]).toHaveLength(100)
  })

  test.each([
    ['no subject', undefined],
    ['an empty one', ''],
    ['one with a line break', 'a\nb'],
    ['too long a one', 'x'.repeat(256)],
    ['a number', 7],
  ])('with %s is refused', (_what, sub) => {
    expect(of({ sub })).toBeUndefined()
  })
})
