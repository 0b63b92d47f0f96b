import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { CallerKind } from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { createProvider } from '../../../src/auth/sessions/sign-in-user.ts'
import { freePort } from '../../support/free-port.ts'
import { useService } from '../../support/service.ts'
import { browserClient } from '../../support/sign-in.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { type Browser, createBrowser } from './browser.ts'
import { CLIENT, startProvider } from './provider.ts'

const port = await freePort()
const home = `http://127.0.0.1:${port}`
const provider = await startProvider(`${home}/console/oidc/callback`)

const service = useService({
  HTTP_PORT: `${port}`,
  PUBLIC_URL: home,
  OIDC_ISSUER: provider.issuer,
  OIDC_CLIENT_ID: CLIENT.client_id,
  OIDC_CLIENT_SECRET: CLIENT.client_secret,
  OIDC_NAME: 'Acme ID',
  OIDC_BUSINESSES_CLAIM: 'businesses',
})

afterAll(() => provider.close())

beforeEach(() => {
  provider.fault = undefined
  provider.claimsInIdToken = true
  provider.user = {
    sub: 'ada-1',
    claims: { name: 'Ada Obi', inflow_scopes: ['read', 'admin'], businesses: '*' },
  }
})

const END = /\/console(\/sign-in#.*)?$/
const signIn = (browser: Browser) => browser.open(`${home}/console/oidc`, END)
const cookieOf = (browser: Browser) => {
  const secret = browser.cookies.get(home)?.get('inflow-session')
  return secret === undefined ? undefined : `inflow-session=${secret}`
}
const callerOf = async (browser: Browser) => {
  const client = browserClient({ httpUrl: home }, SessionService, cookieOf(browser) ?? '')
  return (await client.getCaller({})).caller!
}

/** Signs in until the browser is sent back, and returns where to. */
const untilCallback = (browser: Browser) =>
  browser.open(`${home}/console/oidc`, /\/console\/oidc\/callback\?/)

async function expectFailure(browser: Browser, error: string, url?: string) {
  const end = url === undefined ? await signIn(browser) : await browser.open(url, END)
  expect(end.url).toBe(`${home}/console/sign-in#error=${error}`)
  expect(cookieOf(browser)).toBeUndefined()
}

test('the sign-in page learns of the provider', async () => {
  const response = await fetch(`${home}/console/sign-in-methods`)
  expect(await response.json()).toEqual({ token: true, oidc: { name: 'Acme ID' } })
})

describe('a user', () => {
  test.each([
    ['in the ID token', true],
    ['at the userinfo endpoint', false],
  ])('gets a session with the scopes that are %s, which is audited', async (_where, inIdToken) => {
    provider.claimsInIdToken = inIdToken
    provider.paths.length = 0
    const browser = createBrowser()
    const { url, response } = await signIn(browser)
    expect(url).toBe(`${home}/console`)
    expect(provider.paths.includes('/me')).toBe(!inIdToken)
    const session = response.headers.getSetCookie().find((each) => /^inflow-session/.test(each))
    expect(session).toMatch(/; HttpOnly; SameSite=Strict$/)
    const caller = await callerOf(browser)
    expect(caller).toMatchObject({
      kind: CallerKind.OIDC,
      id: 'oidc:ada-1',
      name: 'Ada Obi',
      scopes: ['admin', 'read'],
      businessIds: [],
    })
    const businesses = browserClient({ httpUrl: home }, BusinessService, cookieOf(browser)!)
    const { business } = await businesses.createBusiness({ name: 'Of Ada' })
    const { entries } = await service.client(AdminService).listAuditEntries({ pageSize: 2 })
    const actor = { kind: 'token', id: 'oidc:ada-1', name: 'Ada Obi' }
    expect(entries).toMatchObject([
      { action: 'business.create', targetId: business!.id, actor },
      { action: 'session.sign_in', targetId: caller.sessionId, actor },
    ])
  })

  test('whose claims give no rights is refused', async () => {
    provider.user = { sub: 'mallory', claims: { inflow_scopes: ['admin'] } }
    await expectFailure(createBrowser(), 'oidc_no_access')
  })
})

describe('a callback', () => {
  test('with the state of this browser and the code of another is refused', async () => {
    const [victim, attacker] = [createBrowser(), createBrowser()]
    const stolen = new URL((await untilCallback(attacker)).url)
    const own = new URL((await untilCallback(victim)).url)
    own.searchParams.set('code', stolen.searchParams.get('code')!)
    await expectFailure(victim, 'oidc_failed', own.href)
  })

  test('with kept text that was changed is refused', async () => {
    const browser = createBrowser()
    const { url } = await untilCallback(browser)
    const own = browser.cookies.get(home)!
    const kept = own.get('inflow-oidc')!
    expect(kept).not.toMatch(/state|verifier|nonce/)
    own.set('inflow-oidc', kept.slice(0, -4) + (kept.endsWith('AAAA') ? 'BBBB' : 'AAAA'))
    await expectFailure(browser, 'oidc_expired', url)
  })

  test('with another issuer is refused', async () => {
    const browser = createBrowser()
    const url = new URL((await untilCallback(browser)).url)
    url.searchParams.set('iss', 'https://evil.example')
    await expectFailure(browser, 'oidc_failed', url.href)
  })

  test('whose code the provider does not exchange is refused', async () => {
    const browser = createBrowser()
    const { url } = await untilCallback(browser)
    provider.fault = (_request, response) => {
      response.writeHead(500)
      response.end('broken')
    }
    await expectFailure(browser, 'oidc_failed', url)
  })
})

test('the provider is asked with PKCE, a state and a nonce', async () => {
  const browser = createBrowser()
  const { url } = await browser.open(`${home}/console/oidc`, /\/auth\?/)
  const asked = Object.fromEntries(new URL(url).searchParams)
  expect(asked).toMatchObject({
    code_challenge_method: 'S256',
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    state: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
    scope: 'openid profile email',
    response_type: 'code',
  })
})

test('a provider that does not respond is reported within the time-out, and used once it responds', async () => {
  const created = createProvider(
    {
      issuer: new URL(provider.issuer),
      clientId: CLIENT.client_id,
      clientSecret: CLIENT.client_secret,
      requestScopes: 'openid',
      redirectUri: `${home}/console/oidc/callback`,
      claims: [],
    },
    { timeoutSeconds: 1, failedMs: 100 },
  )
  provider.paths.length = 0
  provider.fault = () => undefined
  const attempts = await Promise.allSettled(Array.from({ length: 5 }, created.begin))
  expect(attempts.map(({ status }) => status)).toEqual(Array(5).fill('rejected'))
  expect(provider.paths.length).toBeLessThanOrEqual(1)
  provider.fault = undefined
  await waitUntil(() =>
    created.begin().then(
      ({ url }) => url.startsWith(provider.issuer),
      () => false,
    ),
  )
})
