import type { Clock } from '../../core/clock.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { CallSource } from '../caller.ts'
import { type ClaimRules, type Flow, mapClaims, type Provider } from './oidc-provider.ts'
import type { OpenedSession, SessionSettings } from './open-session.ts'
import { openForGrant } from './sign-in.ts'

/** How long a user has to sign in at the provider. */
export const FLOW_MS = 10 * 60_000

/** What the ciphertext of a flow is bound to. */
const CONTEXT = 'oidc-flow'

/** Why a user was not signed in. */
export type OidcFailure = 'oidc_expired' | 'oidc_denied' | 'oidc_failed' | 'oidc_no_access'

/** Signs users of the OpenID Connect provider in. */
export interface SignInUser {
  /**
   * @returns where to send the browser, and what it keeps meanwhile: only this service can read it
   * @throws when the provider is unavailable
   */
  begin(): Promise<{ readonly url: string; readonly kept: string }>
  /**
   * Begins the session of a user who comes back.
   *
   * @param search of the URL that the browser came back to
   * @param kept what the browser kept; undefined: nothing
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
      // What comes back with another state answers another browser's question.
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

/** @returns undefined when the browser kept nothing that this service encrypted, or kept it too long */
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
