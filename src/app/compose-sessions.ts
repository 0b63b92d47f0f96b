import { createAuthenticateSession } from '../auth/sessions/authenticate-session.ts'
import { createSignOut } from '../auth/sessions/end-session.ts'
import { createProvider } from '../auth/sessions/oidc-provider.ts'
import { createSessionRpc } from '../auth/sessions/rpc.ts'
import { createSignIn } from '../auth/sessions/sign-in.ts'
import { createSignInUser } from '../auth/sessions/sign-in-user.ts'
import { createAuthenticateToken } from '../auth/tokens/authenticate-token.ts'
import type { Config } from '../config/config.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { ConsoleOidc } from '../server/http/console-oidc.ts'
import { createOwnOrigin } from '../server/http/session-cookie.ts'
import type { ServiceOptions } from './service-options.ts'
import { VERSION } from './version.ts'

type Settings = Parameters<typeof createSignIn>[0]

/** How tokens and sessions are authenticated, and how sessions begin and end. */
export function composeSessions(options: ServiceOptions, encrypter: Encrypter) {
  const { config, database, clock, adminToken } = options
  const { recordingPool: pool, relaxedPool } = database
  const { idleMs, maxMs } = config.console.sessions
  const authenticateToken = createAuthenticateToken({
    ...{ pool, relaxedPool, clock },
    bootstrapToken: adminToken,
  })
  const settings = {
    database,
    clock,
    adminToken,
    idleMs,
    maxMs,
    authenticateToken,
    auditKeys: encrypter,
  }
  const banks = Object.values(config.banks)
  return {
    authenticateToken,
    authenticateSession: createAuthenticateSession({
      ...{ pool, relaxedPool, clock, adminToken, idleMs },
    }),
    signIn: createSignIn(settings),
    signOut: createSignOut(settings),
    ownOrigin: createOwnOrigin(config.console.publicUrl),
    oidc: composeOidc(config.console.oidc, settings, encrypter),
    rpc: createSessionRpc({
      ...{ database, clock, adminToken, idleMs },
      publicUrl: config.console.publicUrl,
      service: {
        version: VERSION,
        embedded: config.databaseUrl === undefined,
        sandbox: banks.every((mode) => mode === 'sandbox'),
      },
    }),
  }
}

function composeOidc(
  oidc: Config['console']['oidc'],
  settings: Settings,
  encrypter: Encrypter,
): ConsoleOidc | undefined {
  if (oidc === undefined) return undefined
  const { name, publicUrl, scopesClaim, businessesClaim, roles } = oidc
  const provider = createProvider({
    ...oidc,
    redirectUri: `${publicUrl.origin}/console/oidc/callback`,
    claims: businessesClaim === undefined ? [scopesClaim] : [scopesClaim, businessesClaim],
  })
  const rules = { scopesClaim, businessesClaim, roles }
  return { name, publicUrl, ...createSignInUser({ ...settings, encrypter, provider, rules }) }
}
