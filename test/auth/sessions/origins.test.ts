import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import { describe, expect, test } from 'vitest'
import { useTls } from '../../protocols/tls/tls-fixture.ts'
import { ADMIN_TOKEN, useService, useSharedService } from '../../support/service.ts'
import { ownPage, postSession } from '../../support/sign-in.ts'

const GET_CALLER = '/inflow.session.v1.SessionService/GetCaller'

const plain = useSharedService()
const tls = useTls(false)
const proxied = useService({ TRUSTED_PROXIES: '127.0.0.0/8' })
const named = useService({ PUBLIC_URL: 'https://pay.example.com' })
const off = useService({ CONSOLE: 'off' })
const external = useService({ HTTP_INTERNAL: 'off' })

type Headers = Readonly<Record<string, string>>

interface Home {
  readonly httpUrl: string
  readonly dispatcher?: Agent
}

/** Signs in and calls a method with the cookie, in a browser's words. */
async function roundTrip({ httpUrl, dispatcher }: Home, headers: Headers) {
  const common = { method: 'POST', ...(dispatcher && { dispatcher }) } as const
  const json = { 'content-type': 'application/json', ...headers }
  const signedIn = await request(`${httpUrl}/console/session`, {
    ...common,
    headers: json,
    body: JSON.stringify({ token: ADMIN_TOKEN }),
  })
  await signedIn.body.dump()
  const header = String(signedIn.headers['set-cookie'] ?? '')
  const cookie = header.split(';', 1)[0] ?? ''
  const called = await request(`${httpUrl}${GET_CALLER}`, {
    ...common,
    headers: { ...json, cookie },
    body: '{}',
  })
  await called.body.dump()
  return { status: signedIn.statusCode, header, called: called.statusCode }
}

const SECURE =
  /^__Host-inflow-session=is_[^;]+; Path=\/; Expires=[^;]+; HttpOnly; Secure; SameSite=Strict$/
const PLAIN = /^inflow-session=is_[^;]+; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Strict$/

test('over http the cookie has no prefix', async () => {
  const result = await roundTrip(plain, ownPage(plain))
  expect(result).toEqual({ status: 204, header: expect.stringMatching(PLAIN), called: 200 })
})

test('over TLS the cookie is of the host alone, and secure', async () => {
  const ca = readFileSync(tls.path('authority'))
  const dispatcher = new Agent({ connect: { ca } })
  const result = await roundTrip({ httpUrl: tls.httpUrl, dispatcher }, ownPage(tls))
  await dispatcher.close()
  expect(result).toEqual({ status: 204, header: expect.stringMatching(SECURE), called: 200 })
})

describe('behind a proxy', () => {
  const STATED = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'pay.example.com' }
  const origin = 'https://pay.example.com'

  test('that is trusted, the origin is what it states', async () => {
    const result = await roundTrip(proxied, { ...STATED, origin })
    expect(result).toEqual({ status: 204, header: expect.stringMatching(SECURE), called: 200 })
    expect(await roundTrip(proxied, { ...STATED, ...ownPage(proxied) })).toMatchObject({
      status: 403,
    })
  })

  test('that is not trusted, nothing that it states counts', async () => {
    expect(await roundTrip(plain, { ...STATED, origin })).toMatchObject({ status: 403 })
    const result = await roundTrip(plain, { ...STATED, ...ownPage(plain) })
    expect(result).toMatchObject({ status: 204, header: expect.stringMatching(PLAIN) })
  })

  test('that states nothing, PUBLIC_URL names the origin', async () => {
    const result = await roundTrip(named, { origin })
    expect(result).toEqual({ status: 204, header: expect.stringMatching(SECURE), called: 200 })
    expect(await roundTrip(named, ownPage(named))).toMatchObject({ status: 204, called: 200 })
    const sibling = { origin: 'https://evil.pay.example.com' }
    expect(await roundTrip(named, sibling)).toMatchObject({ status: 403 })
  })
})

test.each([
  ['CONSOLE=off', off],
  ['HTTP_INTERNAL=off', external],
])('with %s there is no console', async (_setting, service) => {
  expect((await postSession(service, { token: ADMIN_TOKEN })).status).toBe(404)
  expect((await fetch(`${service.httpUrl}/console/sign-in-methods`)).status).toBe(404)
})
