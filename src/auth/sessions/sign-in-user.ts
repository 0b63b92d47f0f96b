import type { ClientAuth, Configuration } from 'openid-client'
import type { Clock } from '../../core/clock.ts'
import { shareResult } from '../../core/concurrency.ts'
import { HOUR_MS } from '../../core/durations.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { createSemaphore } from '../../postgres/semaphore.ts'
import { type CallSource, SCOPES, type Scope } from '../caller.ts'
import type { OpenedSession, SessionSettings } from './open-session.ts'
import { openForGrant } from './sign-in.ts'

/** How long a user has to sign in at the provider. */
export const FLOW_MS = 10 * 60_000

/** The context to which the ciphertext of a flow is bound. */
const CONTEXT = 'oidc-flow'

/** The reason why a user was not signed in. */
export type OidcFailure = 'oidc_expired' | 'oidc_denied' | 'oidc_failed' | 'oidc_no_access'

/** Signs users of the OpenID Connect provider in. */
export interface SignInUser {
  /**
   * @returns the URL to redirect the browser to, and the encrypted flow that the browser keeps until it returns
   * @throws Error if the provider is unavailable
   */
  begin(): Promise<{ readonly url: string; readonly kept: string }>
  /**
   * Begins the session of a user who returns from the provider.
   *
   * @param search the query string of the callback
   * @param kept the encrypted flow that the browser kept; undefined: the browser sent none
   */
  finish(
    search: string,
    kept: string | undefined,
    source: CallSource,
  ): Promise<OpenedSession | { readonly failure: OidcFailure; readonly cause?: unknown }>
}

interface Dependencies extends SessionSettings {
  readonly encrypter: Encrypter
  readonly provider: Provider
  readonly rules: ClaimRules
}

export function createSignInUser(runtime: Runtime, dependencies: Dependencies): SignInUser {
  const { database, clock } = runtime
  const { encrypter, provider, rules } = dependencies
  return {
    async begin() {
      const { url, flow } = await provider.begin()
      const kept = { ...flow, untilMs: clock.now() + FLOW_MS }
      return { url, kept: encrypter.encrypt(JSON.stringify(kept), CONTEXT).toString('base64url') }
    },
    async finish(search, kept, source) {
      const flow = readFlow(kept, encrypter, clock)
      const returned = new URLSearchParams(search)
      // A callback with another `state` belongs to a flow of another browser.
      if (flow === undefined || returned.get('state') !== flow.state) {
        return { failure: 'oidc_expired' }
      }
      if (returned.has('error')) return { failure: 'oidc_denied', cause: returned.get('error') }
      let claims: Awaited<ReturnType<Provider['finish']>>
      try {
        claims = await provider.finish(search, flow)
      } catch (cause) {
        return { failure: 'oidc_failed', cause }
      }
      const rights = mapClaims(claims, rules)
      if (rights === undefined) return { failure: 'oidc_no_access', cause: claims['sub'] }
      const grant = { kind: 'oidc', ...rights, expiresAtMs: undefined } as const
      const settings = { ...dependencies, auditKeys: encrypter }
      return database.orm.em
        .fork()
        .transactional((em) => openForGrant(runtime, em, settings, grant, source))
    },
  }
}

/** @returns undefined if there is no flow that this service encrypted, or if it has expired */
function readFlow(kept: string | undefined, encrypter: Encrypter, clock: Clock): Flow | undefined {
  if (kept === undefined) return undefined
  try {
    const text = encrypter.decrypt(Buffer.from(kept, 'base64url'), CONTEXT)
    const { untilMs, ...flow } = JSON.parse(text) as Flow & { readonly untilMs: number }
    return clock.now() < untilMs ? flow : undefined
  } catch {
    return undefined
  }
}

/** The settings of the provider, and of this service as its client. */
interface ProviderSettings {
  readonly issuer: URL
  readonly clientId: string
  /** Undefined: a public client. */
  readonly clientSecret: string | undefined
  /** The scopes to request, separated by spaces. */
  readonly requestScopes: string
  /** The redirect URI to which the provider returns the browser. */
  readonly redirectUri: string
  /** The claims that are needed. If the ID token lacks one, the userinfo endpoint is called. */
  readonly claims: readonly string[]
}

/** The state of one sign-in until the browser returns. */
interface Flow {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** The OpenID Connect provider. Both methods reject if it is unavailable or its response is not valid. */
interface Provider {
  /** Begins the authorization code flow, with PKCE. */
  begin(): Promise<{ readonly url: string; readonly flow: Flow }>
  /**
   * Returns the claims of the user who returned.
   *
   * @param search the query string of the callback
   */
  finish(search: string, flow: Flow): Promise<Claims>
}

/** The time-out of each request to the provider. */
const TIMEOUT_SECONDS = 5

/** How long the provider's metadata is cached. A failure is cached for less time. */
const DISCOVERED_MS = HOUR_MS
const FAILED_MS = 5_000

/** The most concurrent requests to the provider. */
const CONCURRENCY_MAX = 8

type Library = typeof import('openid-client')

/** Creates the provider. Its metadata is read, and the OpenID Connect library loaded, at the first sign-in. */
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
  // The settings allow http only for a provider on this machine.
  const insecure = issuer.protocol === 'http:' ? [library.allowInsecureRequests] : []
  const configuration = await library.discovery(
    issuer,
    clientId,
    undefined,
    authenticate(library, clientSecret),
    // Verify the signature of ID tokens even though they come from the provider itself over TLS.
    { timeout: timeoutSeconds, execute: [library.enableNonRepudiationChecks, ...insecure] },
  )
  return { library, configuration }
}

/** Returns the client authentication that the provider supports; the default is `client_secret_basic` (Discovery). */
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

/** The rules by which claims of a user become rights. */
export interface ClaimRules {
  /** The claim with the scopes of a user, or with the roles if `roles` is not empty. */
  readonly scopesClaim: string
  /** The claim with the businesses of a user; undefined: no user is restricted. */
  readonly businessesClaim: string | undefined
  /** The scopes of each role. Empty: the claim contains the scopes themselves. */
  readonly roles: ReadonlyMap<string, ReadonlySet<Scope>>
}

type Claims = Readonly<Record<string, unknown>>

/** The identity and rights of a user. */
interface UserRights {
  readonly callerId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Undefined: not restricted. */
  readonly businessIds: readonly string[] | undefined
}

/** The value of the businesses claim for all businesses. A user without the claim has no access. */
const ALL_BUSINESSES = '*'

const BUSINESSES_MAX = 100
const BUSINESS_ID_CHARS_MAX = 64
const NAME_CHARS_MAX = 100

/** A subject has at most 255 ASCII characters (OpenID Connect Core, section 2). */
const SUBJECT = /^[\x21-\x7e][\x20-\x7e]{0,254}$/

/** Returns the rights of a user; undefined: the claims give no access. */
export function mapClaims(claims: Claims, rules: ClaimRules): UserRights | undefined {
  const { sub } = claims
  if (typeof sub !== 'string' || !SUBJECT.test(sub)) return undefined
  const scopes = readScopes(textsOf(claimOf(claims, rules.scopesClaim)), rules.roles)
  const businessIds = readBusinesses(claims, rules.businessesClaim)
  if (scopes.length === 0 || businessIds === 'none') return undefined
  return { callerId: `oidc:${sub}`, name: nameOf(claims, sub), scopes, businessIds }
}

/** If roles are configured, only roles count: a group that happens to be called `admin` must not become a scope. */
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

/** Finds a claim by its name, or by its path, such as Keycloak's `realm_access.roles`. */
function claimOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  return name.split('.').reduce<unknown>((at, part) => {
    const isObject = typeof at === 'object' && at !== null && Object.hasOwn(at, part)
    return isObject ? (at as Claims)[part] : undefined
  }, claims)
}

/** Reads a list of strings, or a string of words separated by spaces like OAuth's `scope`. */
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
