import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { CallerKind } from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { createProvider } from '../../../src/auth/sessions/oidc-provider.ts'
import { createSignInUser } from '../../../src/auth/sessions/sign-in-user.ts'
import { createEncrypter } from '../../../src/crypto/encryption.ts'
import { freePort } from '../../support/free-port.ts'
import { MASTER_KEY } from '../../support/master-key.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { useService } from '../../support/service.ts'
import { browserClient } from '../../support/sign-in.ts'
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

const SOURCE = { address: '192.0.2.1', requestId: 'req_1' }
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

  test('who is restricted sees the businesses of the claim alone', async () => {
    const [own] = [await service.business('Own'), await service.business('Other')]
    provider.user = { sub: 'b', claims: { inflow_scopes: 'read', businesses: [own.id] } }
    const browser = createBrowser()
    await signIn(browser)
    const businesses = browserClient({ httpUrl: home }, BusinessService, cookieOf(browser)!)
    expect((await businesses.listBusinesses({})).businesses.map(({ id }) => id)).toEqual([own.id])
  })

  test.each([
    ['has no scope', { businesses: '*' }],
    ['has scopes of another service', { inflow_scopes: ['superuser'], businesses: '*' }],
    ['has no claim of businesses', { inflow_scopes: ['admin'] }],
    ['has no business', { inflow_scopes: ['admin'], businesses: [] }],
  ])('who %s is refused', async (_why, claims) => {
    provider.user = { sub: 'mallory', claims }
    await expectFailure(createBrowser(), 'oidc_no_access')
  })

  test('who declines is refused', async () => {
    provider.user = undefined
    await expectFailure(createBrowser(), 'oidc_denied')
  })
})

describe('a callback', () => {
  test('without what the browser kept is refused', async () => {
    const { url } = await untilCallback(createBrowser())
    await expectFailure(createBrowser(), 'oidc_expired', url)
  })

  test('of another browser is refused', async () => {
    const [victim, attacker] = [createBrowser(), createBrowser()]
    const { url } = await untilCallback(attacker)
    await untilCallback(victim)
    await expectFailure(victim, 'oidc_expired', url)
  })

  test('with the state of this browser and the code of another is refused', async () => {
    const [victim, attacker] = [createBrowser(), createBrowser()]
    const stolen = new URL((await untilCallback(attacker)).url)
    const own = new URL((await untilCallback(victim)).url)
    own.searchParams.set('code', stolen.searchParams.get('code')!)
    await expectFailure(victim, 'oidc_failed', own.href)
  })

  test('counts once', async () => {
    const browser = createBrowser()
    const { url } = await untilCallback(browser)
    await browser.open(url, END)
    expect(cookieOf(browser)).toBeDefined()
    browser.cookies.get(home)!.delete('inflow-session')
    await expectFailure(browser, 'oidc_expired', url)
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

test('a user has ten minutes to come back', async () => {
  const clock = { nowMs: Date.now(), now: () => clock.nowMs }
  const encrypter = createEncrypter(MASTER_KEY)
  const users = createSignInUser(createTestRuntime(service.database, { clock }), {
    encrypter,
    adminToken: undefined,
    idleMs: 3_600_000,
    maxMs: 3_600_000,
    provider: createProvider({
      issuer: new URL(provider.issuer),
      clientId: CLIENT.client_id,
      clientSecret: CLIENT.client_secret,
      requestScopes: 'openid',
      redirectUri: `${home}/console/oidc/callback`,
      claims: [],
    }),
    rules: { scopesClaim: 'inflow_scopes', businessesClaim: undefined, roles: new Map() },
  })
  const { url, kept } = await users.begin()
  const state = new URL(url).searchParams.get('state')
  const finish = () => users.finish(`?state=${state}&code=wrong`, kept, SOURCE)
  clock.nowMs += 10 * 60_000 - 1
  expect(await finish()).toMatchObject({ failure: 'oidc_failed' })
  clock.nowMs += 1
  expect(await finish()).toMatchObject({ failure: 'oidc_expired' })
})
