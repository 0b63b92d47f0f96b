import type { ClientAuth, Configuration } from 'openid-client'
import { HOUR_MS } from '../../core/durations.ts'
import { shareResult } from '../../core/shared-result.ts'
import { createSemaphore } from '../../postgres/semaphore.ts'
import { SCOPES, type Scope } from '../caller.ts'

/** The provider, and this service as its client. */
export interface ProviderSettings {
  readonly issuer: URL
  readonly clientId: string
  /** Undefined: a public client. */
  readonly clientSecret: string | undefined
  /** The scopes to ask for, by spaces. */
  readonly requestScopes: string
  /** Where the provider sends the browser back to. */
  readonly redirectUri: string
  /** Claims that are asked for at the provider if the ID token lacks one. */
  readonly claims: readonly string[]
}

/** What one sign-in keeps until the browser comes back. */
export interface Flow {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** The OpenID Connect provider. Both methods reject when it is unavailable or its response is not valid. */
export interface Provider {
  /** Begins the authorization code flow, with PKCE. */
  begin(): Promise<{ readonly url: string; readonly flow: Flow }>
  /**
   * Returns the claims of the user who came back.
   *
   * @param search of the URL that the browser came back to
   */
  finish(search: string, flow: Flow): Promise<Claims>
}

/** For each request to the provider. */
const TIMEOUT_SECONDS = 5

/** How long the provider's settings are kept, after which changes of it are seen; a failure is kept for less. */
const DISCOVERED_MS = HOUR_MS
const FAILED_MS = 5_000

/** Requests to the provider at once. */
const CONCURRENCY_MAX = 8

type Library = typeof import('openid-client')

/** Nothing is read from the provider, and its library is not loaded, before the first sign-in. */
export function createProvider(
  settings: ProviderSettings,
  { timeoutSeconds = TIMEOUT_SECONDS, failedMs = FAILED_MS } = {},
): Provider {
  const limit = createSemaphore(CONCURRENCY_MAX)
  let discovered: { readonly client: Discovered; readonly untilMs: number } | undefined
  const discover = shareResult(async () => {
    const value = await discoverProvider(settings, timeoutSeconds)
    const atMs = performance.now()
    discovered = { client: value, untilMs: atMs + DISCOVERED_MS }
    return { value, atMs }
  }, failedMs)
  const clientOf = async (): Promise<Discovered> => {
    if (discovered && performance.now() < discovered.untilMs) return discovered.client
    return (await discover()).value
  }
  return {
    async begin() {
      const { library, configuration } = await clientOf()
      const verifier = library.randomPKCECodeVerifier()
      const flow = { state: library.randomState(), nonce: library.randomNonce(), verifier }
      const url = library.buildAuthorizationUrl(configuration, {
        redirect_uri: settings.redirectUri,
        scope: settings.requestScopes,
        code_challenge: await library.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state: flow.state,
        nonce: flow.nonce,
      })
      return { url: url.href, flow }
    },
    finish: (search, flow) =>
      limit(async () => readClaims(await clientOf(), settings, search, flow)),
  }
}

interface Discovered {
  readonly library: Library
  readonly configuration: Configuration
}

async function discoverProvider(
  settings: ProviderSettings,
  timeoutSeconds: number,
): Promise<Discovered> {
  const library = await import('openid-client')
  const { issuer, clientId, clientSecret } = settings
  // The settings allow http for a provider on this machine only.
  const insecure = issuer.protocol === 'http:' ? [library.allowInsecureRequests] : []
  const configuration = await library.discovery(
    issuer,
    clientId,
    undefined,
    authenticate(library, clientSecret),
    // The signature of an ID token counts, although it comes from the provider itself over TLS.
    { timeout: timeoutSeconds, execute: [library.enableNonRepudiationChecks, ...insecure] },
  )
  return { library, configuration }
}

/** By the method that the provider states; `client_secret_basic` if it states none (OpenID Connect Discovery). */
function authenticate(library: Library, secret: string | undefined): ClientAuth {
  if (secret === undefined) return library.None()
  const [basic, post] = [library.ClientSecretBasic(secret), library.ClientSecretPost(secret)]
  return (server, ...rest) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const method = methods.includes('client_secret_basic') ? basic : post
    return method(server, ...rest)
  }
}

async function readClaims(
  { library, configuration }: Discovered,
  { redirectUri, claims: needed }: ProviderSettings,
  search: string,
  { state, nonce, verifier }: Flow,
): Promise<Claims> {
  const url = new URL(redirectUri)
  url.search = search
  const tokens = await library.authorizationCodeGrant(configuration, url, {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
  })
  const claims: Claims = { ...tokens.claims() }
  const { sub } = claims
  const lacks = needed.some((name) => claimOf(claims, name) === undefined)
  const { userinfo_endpoint: endpoint } = configuration.serverMetadata()
  if (!lacks || endpoint === undefined || typeof sub !== 'string') return claims
  const { access_token } = tokens
  return { ...(await library.fetchUserInfo(configuration, access_token, sub)), ...claims }
}

/** How the claims of a user become rights. */
export interface ClaimRules {
  /** The claim that has scopes, or roles if `roles` has any. */
  readonly scopesClaim: string
  /** The claim that has the businesses of a user; undefined: no user is restricted. */
  readonly businessesClaim: string | undefined
  /** The scopes of each role. Empty: the claim has the scopes themselves. */
  readonly roles: ReadonlyMap<string, ReadonlySet<Scope>>
}

type Claims = Readonly<Record<string, unknown>>

/** Who a user is, and what the user may do. */
interface UserRights {
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
function claimOf(claims: Claims, name: string): unknown {
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
