import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { captureLog } from '../../support/captured-log.ts'
import { freePort } from '../../support/free-port.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { browserClient, postSession, signIn } from '../../support/sign-in.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { createBrowser } from './browser.ts'
import { startProvider } from './provider.ts'

const port = await freePort()
const home = `http://127.0.0.1:${port}`
const provider = await startProvider(`${home}/console/oidc/callback`)

const { log, lines } = captureLog('warn')

const service = useService(
  {
    HTTP_PORT: `${port}`,
    PUBLIC_URL: home,
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: 'inflow',
    RATE_LIMIT_FAILED: '1/10',
  },
  undefined,
  undefined,
  log,
)

const caller = (as: string) => browserClient(service, SessionService, as).getCaller({})

let cookie: string
let startedMs: number

beforeAll(async () => {
  // Before the first failure: one that was not seen yet is refused after too many.
  cookie = await signIn(service, { token: ADMIN_TOKEN })
  await caller(cookie)
  startedMs = performance.now()
})

afterAll(() => provider.close())

beforeEach(() => {
  provider.paths.length = 0
})

const CALLS = 60

/** Where each of many callbacks leads to. */
async function callBack(search: string, cookie: string): Promise<string[]> {
  const reasons: string[] = []
  for (let count = 0; count < CALLS; count++) {
    const url = `${home}/console/oidc/callback?${search}`
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    reasons.push(response.headers.get('location')?.split('#error=')[1] ?? '')
  }
  return reasons
}

test('wrong codes are limited by address, and so are the requests that they cost the provider', async () => {
  const browser = createBrowser()
  const { url } = await browser.open(`${home}/console/oidc`, /\/auth\?/)
  const state = new URL(url).searchParams.get('state')
  const kept = browser.cookies.get(home)!.get('inflow-oidc')
  const reasons = await callBack(
    `code=wrong&state=${state}&iss=${provider.issuer}`,
    `inflow-oidc=${kept}`,
  )
  // One more is admitted a second.
  const admittedMax = 10 + Math.ceil((performance.now() - startedMs) / 1_000)
  expect(reasons.slice(0, 10)).toEqual(Array(10).fill('oidc_failed'))
  expect(reasons.filter((reason) => reason === 'rate_limited').length).toBeGreaterThanOrEqual(
    CALLS - admittedMax,
  )
  const asked = provider.paths.filter((path) => path === '/token')
  expect(asked.length).toBeGreaterThanOrEqual(10)
  expect(asked.length).toBeLessThanOrEqual(admittedMax)
})

test('a flood of callbacks is not one of the log, and asks the provider nothing', async () => {
  await callBack('code=wrong&state=wrong', 'inflow-oidc=wrong')
  // Of both tests together: 20 lines are written in each window of 10 s.
  const windows = 1 + Math.ceil((performance.now() - startedMs) / 10_000)
  const failures = lines.filter(({ msg }) => msg === 'a user could not sign in')
  expect(failures.length).toBeGreaterThanOrEqual(20)
  expect(failures.length).toBeLessThanOrEqual(20 * windows)
  expect(provider.paths).toEqual([])
})

test('wrong credentials are limited by address too, and right ones still sign in', async () => {
  const ending = `${'0'.repeat(26)}_${'A'.repeat(43)}`
  for (const wrong of [{ token: `it_${ending}` }, { code: `ic_${ending}` }]) {
    const limited = await waitUntil(async () => {
      const response = await postSession(service, wrong)
      return response.status === 429 && response
    })
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0)
  }
  await waitUntil(() =>
    caller(`inflow-session=is_${ending}`).then(
      () => false,
      ({ rawMessage }) => /Too many failed authentications from this address/.test(rawMessage),
    ),
  )
  expect((await postSession(service, { token: ADMIN_TOKEN })).status).toBe(204)
  expect((await caller(cookie)).caller!.id).toBe('bootstrap')
})
