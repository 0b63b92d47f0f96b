import { SCOPES, type Scope } from '../caller.ts'

/** How the claims of a user become rights. */
export interface ClaimRules {
  /** The claim that has scopes, or roles if `roles` has any. */
  readonly scopesClaim: string
  /** The claim that has the businesses of a user; undefined: no user is restricted. */
  readonly businessesClaim: string | undefined
  /** The scopes of each role. Empty: the claim has the scopes themselves. */
  readonly roles: ReadonlyMap<string, ReadonlySet<Scope>>
}

export type Claims = Readonly<Record<string, unknown>>

/** Who a user is, and what the user may do. */
export interface UserRights {
  readonly callerId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Undefined: not restricted. */
  readonly businessIds: readonly string[] | undefined
}

/** What a claim must have for a user who sees all businesses: leaving the claim out is not enough. */
const ALL_BUSINESSES = '*'

const BUSINESSES_MAX = 100
const BUSINESS_ID_CHARS_MAX = 64
const NAME_CHARS_MAX = 100

/** A subject has at most 255 ASCII characters (OpenID Connect Core, section 2). */
const SUBJECT = /^[\x21-\x7e][\x20-\x7e]{0,254}$/

/** Returns the rights of a user; undefined: the claims give none. */
export function mapClaims(claims: Claims, rules: ClaimRules): UserRights | undefined {
  const { sub } = claims
  if (typeof sub !== 'string' || !SUBJECT.test(sub)) return undefined
  const scopes = readScopes(textsOf(claimOf(claims, rules.scopesClaim)), rules.roles)
  const businessIds = readBusinesses(claims, rules.businessesClaim)
  if (scopes.length === 0 || businessIds === 'none') return undefined
  return { callerId: `oidc:${sub}`, name: nameOf(claims, sub), scopes, businessIds }
}

/** With roles, only they count: a group that happens to be called `admin` must not be a scope. */
function readScopes(values: readonly string[], roles: ClaimRules['roles']): readonly Scope[] {
  const held = new Set(
    roles.size === 0 ? values : values.flatMap((role) => [...(roles.get(role) ?? [])]),
  )
  return SCOPES.filter((scope) => held.has(scope))
}

function readBusinesses(claims: Claims, name: string | undefined) {
  if (name === undefined) return undefined
  const ids = [...new Set(textsOf(claimOf(claims, name)))]
  if (ids.length === 1 && ids[0] === ALL_BUSINESSES) return undefined
  const fits = ids.every((id) => id !== ALL_BUSINESSES && id.length <= BUSINESS_ID_CHARS_MAX)
  return fits && ids.length > 0 && ids.length <= BUSINESSES_MAX ? ids : 'none'
}

/** A claim by its name, or by its path, such as Keycloak's `realm_access.roles`. */
export function claimOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  return name.split('.').reduce<unknown>((at, part) => {
    const isObject = typeof at === 'object' && at !== null && Object.hasOwn(at, part)
    return isObject ? (at as Claims)[part] : undefined
  }, claims)
}

/** A list of texts, or one text of words, as `scope` of OAuth is. */
function textsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return value.split(' ').filter((text) => text !== '')
  if (!Array.isArray(value)) return []
  return value.filter((each): each is string => typeof each === 'string' && each !== '')
}

function nameOf(claims: Claims, sub: string): string {
  const names = ['name', 'preferred_username', 'email'].map((claim) => claims[claim])
  const found = names.find((name): name is string => typeof name === 'string' && name !== '')
  const plain = (found ?? sub).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').trim()
  return [...(plain || sub)].slice(0, NAME_CHARS_MAX).join('')
}
