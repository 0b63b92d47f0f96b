import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listen } from '../../support/listen.ts'

/** A user of the provider. */
export interface User {
  readonly sub: string
  readonly claims: Readonly<Record<string, unknown>>
}

/** A real OpenID Connect provider on this machine. */
export interface TestProvider {
  readonly issuer: string
  /** Who signs in next. */
  user: User
  /** Whether claims are in the ID token too, or only at the userinfo endpoint. */
  claimsInIdToken: boolean
  /** Responds instead of the provider; undefined: the provider responds. */
  fault: ((request: IncomingMessage, response: ServerResponse) => void) | undefined
  /** The paths that were asked for. */
  readonly paths: string[]
  close(): Promise<void>
}

export const CLIENT = { client_id: 'inflow', client_secret: 'a-secret-of-the-client' } as const

/** @param redirectUri of the client */
export async function startProvider(redirectUri: string): Promise<TestProvider> {
  // @ts-expect-error: the package has no types
  const { default: Provider } = await import('oidc-provider')
  let handle: (request: IncomingMessage, response: ServerResponse) => void = () => undefined
  const server = createServer((request, response) => {
    test.paths.push(new URL(request.url ?? '/', 'http://x').pathname)
    if (test.fault) test.fault(request, response)
    else handle(request, response)
  })
  const issuer = `http://127.0.0.1:${await listen(server)}`
  const test: TestProvider = {
    issuer,
    user: { sub: '', claims: {} },
    claimsInIdToken: true,
    fault: undefined,
    paths: [],
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  // What is in the ID token is fixed when a provider is made; both keep their sessions in one store.
  const make = (claimsInIdToken: boolean) => {
    const provider = new Provider(issuer, {
      clients: [{ ...CLIENT, redirect_uris: [redirectUri] }],
      cookies: { keys: ['a key of cookies'] },
      claims: {
        openid: ['sub'],
        profile: ['name', 'inflow_scopes', 'businesses'],
      },
      conformIdTokenClaims: !claimsInIdToken,
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
      findAccount: (_context: unknown, sub: string) => ({
        accountId: sub,
        claims: () => ({ sub, ...test.user.claims }),
      }),
      // The user is asked who they are, but not whether the client may know it.
      async loadExistingGrant({ oidc }: { oidc: Record<string, Record<string, string>> }) {
        const { accountId } = oidc['session']!
        const grant = new provider.Grant({ clientId: CLIENT.client_id, accountId })
        grant.addOIDCScope('openid profile email')
        await grant.save()
        return grant
      },
    })
    return provider
  }
  const providers = { inIdToken: make(true), atUserinfo: make(false) }
  handle = (request, response) => {
    const provider = test.claimsInIdToken ? providers.inIdToken : providers.atUserinfo
    if (!request.url?.startsWith('/interaction/')) return provider.callback()(request, response)
    const result = { login: { accountId: test.user.sub } }
    return provider.interactionFinished(request, response, result)
  }
  return test
}
