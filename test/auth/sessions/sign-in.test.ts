import { Code } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { CallerKind } from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { until } from '../../protocols/rest/rest.ts'
import { ADMIN_TOKEN, issueToken, useSharedService } from '../../support/service.ts'
import { browserClient, cookieOf, ownPage, postSession, signIn } from '../../support/sign-in.ts'

const service = useSharedService()

const callerOf = (cookie: string, headers?: Readonly<Record<string, string>>) =>
  browserClient(service, SessionService, cookie, headers).getCaller({})

const codeOf = (urlPath: string) => urlPath.replace('/console/sign-in#', '')

const auditOf = async (action: string) => {
  const { entries } = await service.client(AdminService).listAuditEntries({ action, pageSize: 1 })
  return entries[0]!
}

const refused = async (cookie: string) =>
  callerOf(cookie).then(
    () => false,
    (error) => error.code === Code.Unauthenticated,
  )

describe('an exchange', () => {
  test('of a token makes a session with its rights, which is audited', async () => {
    const { id, secret } = await issueToken(service, ['read'], [], 'ada')
    const response = await postSession(service, { token: secret })
    expect([response.status, await response.text()]).toEqual([204, ''])
    const [header] = response.headers.getSetCookie()
    expect(header).toMatch(
      /^inflow-session=is_[0-9a-z]{26}_[\w-]{43}; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Strict$/,
    )
    const { caller, service: about } = await callerOf(cookieOf(response))
    expect(caller).toMatchObject({ kind: CallerKind.TOKEN, id, name: 'ada', scopes: ['read'] })
    expect(caller!.sessionId).toMatch(/^ses_/)
    expect(about).toMatchObject({ embedded: true, sandbox: true, version: '0.1.0' })
    expect(await auditOf('session.sign_in')).toMatchObject({
      targetId: caller!.sessionId,
      actor: { kind: 'token', id, name: 'ada' },
    })
  })

  test('of ADMIN_TOKEN makes a session that changes things as ADMIN_TOKEN does', async () => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    const { caller } = await callerOf(cookie)
    expect(caller).toMatchObject({ kind: CallerKind.ADMIN_TOKEN, id: 'bootstrap' })
    const { business } = await browserClient(service, BusinessService, cookie).createBusiness({
      name: 'By cookie',
    })
    expect(await auditOf('business.create')).toMatchObject({
      targetId: business!.id,
      actor: { kind: 'bootstrap' },
    })
  })

  test.each([
    ['a wrong token', { token: `it_${'0'.repeat(26)}_${'A'.repeat(43)}` }, 401, 'unauthorized'],
    ['an unknown code', { code: `ic_${'0'.repeat(26)}_${'A'.repeat(43)}` }, 401, 'unauthorized'],
    ['a token in place of a code', { code: ADMIN_TOKEN }, 401, 'unauthorized'],
    ['nothing', {}, 422, 'validation_failed'],
    ['both', { token: ADMIN_TOKEN, code: 'x' }, 422, 'validation_failed'],
    ['another field', { token: ADMIN_TOKEN, name: 'x' }, 422, 'validation_failed'],
    ['a token twice', `{"token":"x","token":"${ADMIN_TOKEN}"}`, 400, 'malformed_json'],
    ['a long text', { token: 'x'.repeat(600) }, 422, 'validation_failed'],
    ['a large body', { token: 'x'.repeat(10_000) }, 413, 'payload_too_large'],
  ])('of %s is refused with the envelope of errors', async (_what, body, status, code) => {
    const response = await postSession(service, body)
    expect([response.status, response.headers.getSetCookie()]).toEqual([status, []])
    expect(await response.json()).toMatchObject({
      status: false,
      code,
      request_id: expect.any(String),
    })
  })

  test('is refused in a form that another site could send', async () => {
    const headers = { ...ownPage(service), 'content-type': 'text/plain' }
    const response = await postSession(service, { token: ADMIN_TOKEN }, headers)
    expect(response.status).toBe(415)
  })

  test.each([
    ['a foreign origin', { origin: 'https://evil.example' }],
    ['another site', { 'sec-fetch-site': 'cross-site' }],
  ])('is refused to %s', async (_what, headers) => {
    const response = await postSession(service, { token: ADMIN_TOKEN }, headers)
    expect([response.status, response.headers.getSetCookie()]).toEqual([403, []])
  })

  test('gives a browser a new secret, and ends the session that it had', async () => {
    const planted = await signIn(service, { token: ADMIN_TOKEN })
    const { secret } = await issueToken(service, ['read'], [], 'ada')
    const headers = { ...ownPage(service), cookie: planted }
    const response = await postSession(service, { token: secret }, headers)
    expect(cookieOf(response)).not.toBe(planted)
    await until(
      () => refused(planted),
      (ended) => ended,
    )
    expect((await callerOf(cookieOf(response))).caller!.scopes).toEqual(['read'])
  })
})

describe('a cookie', () => {
  test.each([
    ['another site', () => ({ origin: 'https://evil.example' })],
    ['no page', () => ({})],
  ])('does not count from %s', async (_what, headers) => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    await expect(callerOf(cookie, headers())).rejects.toMatchObject({ code: Code.Unauthenticated })
  })

  test.each([
    ['a wrong token', `Bearer it_${'0'.repeat(26)}_${'A'.repeat(43)}`],
    ['another kind of credential', 'Basic YWRhOnNlY3JldA=='],
    ['an empty credential', 'Bearer'],
  ])('does not make %s good', async (_what, authorization) => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    const headers = { ...ownPage(service), authorization }
    await expect(callerOf(cookie, headers)).rejects.toMatchObject({ code: Code.Unauthenticated })
  })

  test('is not a token', async () => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    const secret = cookie.replace('inflow-session=', '')
    for (const client of [service.client, service.connectClient]) {
      await expect(client(SessionService, secret).getCaller({})).rejects.toMatchObject({
        code: Code.Unauthenticated,
      })
    }
    expect((await postSession(service, { token: secret })).status).toBe(401)
    expect((await postSession(service, { code: secret })).status).toBe(401)
  })

  test('opens nothing of the REST API, and nothing over gRPC', async () => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    const response = await fetch(`${service.httpUrl}/v2/thirdparty/getBalance/`, {
      method: 'POST',
      headers: { ...ownPage(service), cookie, 'content-type': 'application/json' },
      body: '{}',
    })
    expect(response.status).toBe(401)
    const grpc = service.client(SessionService, 'x').getCaller({}, { headers: { cookie } })
    await expect(grpc).rejects.toMatchObject({ code: Code.Unauthenticated })
  })

  test('of the other name does not count', async () => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    expect(await refused(`__Host-${cookie}`)).toBe(true)
    expect(await refused(cookie.slice(0, -1))).toBe(true)
  })
})

describe('a one-time code', () => {
  const createCode = async (token: string) =>
    codeOf((await service.client(SessionService, token).createSignInCode({})).urlPath)

  test('signs one browser in when several use it at once', async () => {
    const code = await createCode(ADMIN_TOKEN)
    const responses = await Promise.all(
      Array.from({ length: 8 }, () => postSession(service, { code })),
    )
    const statuses = responses.map(({ status }) => status).sort()
    expect(statuses).toEqual([204, 401, 401, 401, 401, 401, 401, 401])
  })

  test('does not outlive its token', async () => {
    const { id, secret } = await issueToken(service, ['read'], [], 'ada')
    const code = await createCode(secret)
    await service.client(AdminService).revokeToken({ tokenId: id })
    expect((await postSession(service, { code })).status).toBe(401)
  })
})

describe('signing out', () => {
  const signOut = (cookie: string, headers: Readonly<Record<string, string>> = ownPage(service)) =>
    fetch(`${service.httpUrl}/console/session`, {
      method: 'DELETE',
      headers: { cookie, ...headers },
    })

  test('ends the session, removes the cookie and is audited', async () => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    const { caller } = await callerOf(cookie)
    const response = await signOut(cookie)
    expect(response.status).toBe(204)
    expect(response.headers.getSetCookie()).toEqual([
      'inflow-session=; Max-Age=0; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Strict',
    ])
    expect(await auditOf('session.sign_out')).toMatchObject({
      targetId: caller!.sessionId,
      actor: { kind: 'bootstrap' },
    })
    expect((await signOut(cookie)).status).toBe(204)
  })

  test('ends it at once, whatever the instance has cached or is looking up', async () => {
    for (let round = 0; round < 10; round++) {
      const cookie = await signIn(service, { token: ADMIN_TOKEN })
      if (round % 2 === 0) await callerOf(cookie)
      const meanwhile = Array.from({ length: round }, () => callerOf(cookie).catch(() => undefined))
      await signOut(cookie)
      expect(await refused(cookie)).toBe(true)
      await Promise.all(meanwhile)
      expect(await refused(cookie)).toBe(true)
    }
  })

  test('cannot be caused by another site', async () => {
    const cookie = await signIn(service, { token: ADMIN_TOKEN })
    const response = await signOut(cookie, { origin: 'https://evil.example' })
    expect(response.status).toBe(403)
    expect(await refused(cookie)).toBe(false)
  })
})

test('the ways of signing in are public', async () => {
  const response = await fetch(`${service.httpUrl}/console/sign-in-methods`)
  expect(await response.json()).toEqual({ token: true, oidc: null })
})
