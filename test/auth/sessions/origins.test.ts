import { describe, expect, test } from 'vitest'
import { createOwnOrigin } from '../../../src/server/http/console-sessions.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { cookieOf, postSession } from '../../support/sign-in.ts'

const PAY = 'https://pay.example.com'
const LOCAL = 'http://127.0.0.1:8080'
const EVIL = 'https://evil.pay.example.com'

/** The own origin of a request to a URL, if one of our own pages caused it. */
function originOf(url: string, headers: Readonly<Record<string, string>>, publicUrl?: string) {
  const { host, protocol } = new URL(url)
  const own = createOwnOrigin(publicUrl === undefined ? undefined : new URL(publicUrl))
  return own({ headers, host, protocol: protocol.slice(0, -1) as 'http' | 'https' })
}

test.each<[string, string, Readonly<Record<string, string>>, string | undefined, boolean]>([
  ['its own origin', LOCAL, { origin: LOCAL }, undefined, true],
  ['its own origin, without Origin', LOCAL, { 'sec-fetch-site': 'same-origin' }, undefined, true],
  ['both', LOCAL, { origin: LOCAL, 'sec-fetch-site': 'same-origin' }, undefined, true],
  ['what a proxy states', PAY, { origin: PAY }, undefined, true],
  ['PUBLIC_URL, behind a proxy that states nothing', LOCAL, { origin: PAY }, PAY, true],
  ['its own origin, beside PUBLIC_URL', LOCAL, { origin: LOCAL }, PAY, true],
  ['a foreign origin', LOCAL, { origin: EVIL }, undefined, false],
  ['a foreign origin, beside PUBLIC_URL', LOCAL, { origin: EVIL }, PAY, false],
  ['another port', LOCAL, { origin: 'http://127.0.0.1:1' }, undefined, false],
  ['the origin over https', LOCAL, { origin: LOCAL.replace('http:', 'https:') }, undefined, false],
  ['an opaque origin', LOCAL, { origin: 'null' }, undefined, false],
  ['another site', LOCAL, { 'sec-fetch-site': 'cross-site' }, undefined, false],
  ['a sibling host', LOCAL, { 'sec-fetch-site': 'same-site' }, undefined, false],
  [
    'another site that claims our origin',
    LOCAL,
    { origin: LOCAL, 'sec-fetch-site': 'cross-site' },
    undefined,
    false,
  ],
  ['no page', LOCAL, {}, undefined, false],
])('a request from %s counts as our own, or not', (_what, url, headers, publicUrl, isOwn) => {
  expect(originOf(url, headers, publicUrl) !== undefined).toBe(isOwn)
})

describe('a service behind a proxy that it trusts', () => {
  const service = useService({ TRUSTED_PROXIES: '127.0.0.0/8' })
  const stated = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'pay.example.com' }
  const signIn = (headers: Readonly<Record<string, string>>) =>
    postSession(service, { token: ADMIN_TOKEN }, headers)

  test('over TLS the cookie is of the host alone, and secure', async () => {
    const response = await signIn({ ...stated, origin: PAY })
    expect(response.headers.getSetCookie()).toEqual([
      expect.stringMatching(
        /^__Host-inflow-session=is_[^;]+; Path=\/; Expires=[^;]+; HttpOnly; Secure; SameSite=Strict$/,
      ),
    ])
    const called = await fetch(`${service.httpUrl}/inflow.session.v1.SessionService/GetCaller`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...stated,
        origin: PAY,
        cookie: cookieOf(response),
      },
      body: '{}',
    })
    expect([response.status, called.status]).toEqual([204, 200])
  })

  test('the origin is what the proxy states, and no other', async () => {
    expect((await signIn({ ...stated, origin: service.httpUrl })).status).toBe(403)
  })
})
