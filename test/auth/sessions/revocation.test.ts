import { Code } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { CallerKind } from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import { browserClient, postSession, signIn } from '../../support/sign-in.ts'
import { waitUntil } from '../../support/wait-for.ts'

const service = useSharedService()
const admin = () => service.client(SessionService)

const codeOf = (urlPath: string) => urlPath.replace('/console/sign-in#', '')
const callerOf = async (cookie: string) =>
  (await browserClient(service, SessionService, cookie).getCaller({})).caller!

/** A session lasts for hours unless it is revoked. */
const untilRefused = (cookie: string) =>
  waitUntil(() =>
    callerOf(cookie).then(
      () => false,
      (error) => error.code === Code.Unauthenticated,
    ),
  )

/** Opens a stream of events with a cookie. @returns how it ends */
async function openStream(cookie: string, businessIds: string[] = []) {
  const abort = new AbortController()
  const events = browserClient(service, EventService, cookie).subscribe(
    { start: { case: 'beginning', value: true }, businessIds },
    { signal: abort.signal },
  )
  const opened = Promise.withResolvers<void>()
  const ended = (async () => {
    for await (const _event of events) opened.resolve()
  })().catch((error) => error.code)
  await Promise.race([opened.promise, ended])
  return { ended, close: () => abort.abort() }
}

async function issueToken(scopes: string[]) {
  const issued = await service.client(AdminService).issueToken({ name: 'ada', scopes })
  return { id: issued.token!.id, secret: issued.secret }
}

test('the sessions of a token end with its revocation, and their streams', async () => {
  const { id, secret } = await issueToken(['admin'])
  await service.business()
  const cookie = await signIn(service, { token: secret })
  const other = await signIn(service, { token: ADMIN_TOKEN })
  await callerOf(cookie)
  const stream = await openStream(cookie)
  await service.client(AdminService).revokeToken({ tokenId: id })
  await untilRefused(cookie)
  expect(await stream.ended).toBe(Code.Unauthenticated)
  expect((await callerOf(other)).kind).toBe(CallerKind.ADMIN_TOKEN)
  const { sessions } = await admin().listSessions({ activeOnly: true })
  expect(sessions.map(({ callerId }) => callerId)).not.toContain(id)
})

test('a revoked session ends alone, with its streams', async () => {
  const { secret } = await issueToken(['admin'])
  const cookie = await signIn(service, { token: secret })
  const sibling = await signIn(service, { token: secret })
  const { sessionId } = await callerOf(cookie)
  const stream = await openStream(cookie)
  const { session } = await admin().revokeSession({ sessionId })
  expect(session).toMatchObject({ id: sessionId, active: false, revokedAt: expect.anything() })
  await untilRefused(cookie)
  expect(await stream.ended).toBe(Code.Unauthenticated)
  await callerOf(sibling)
  const again = await admin().revokeSession({ sessionId })
  expect(again.session!.revokedAt).toEqual(session!.revokedAt)
})

test('a revoked link opens nothing, and its sessions end', async () => {
  const { id: businessId } = await service.business()
  const { portalLink, urlPath } = await admin().createPortalLink({ businessId })
  const code = codeOf(urlPath)
  const [first, second] = [await signIn(service, { code }), await signIn(service, { code })]
  const stream = await openStream(first, [businessId])
  await admin().revokePortalLink({ portalLinkId: portalLink!.id })
  await untilRefused(first)
  await untilRefused(second)
  expect(await stream.ended).toBe(Code.Unauthenticated)
  expect((await postSession(service, { code })).status).toBe(401)
})

test('an expired link opens nothing, and its sessions expire with it', async () => {
  const { id: businessId } = await service.business()
  const { portalLink, urlPath } = await admin().createPortalLink({
    businessId,
    ttl: { seconds: 60n },
  })
  const cookie = await signIn(service, { code: codeOf(urlPath) })
  expect((await callerOf(cookie)).expiresAt).toEqual(portalLink!.expiresAt)
  await service.database.durablePool.query(
    "update portal_link set expires_at = now() - interval '1 s' where id = $1",
    [portalLink!.id],
  )
  expect((await postSession(service, { code: codeOf(urlPath) })).status).toBe(401)
})

test('a link shows its business and nothing else', async () => {
  const [own, other] = [await service.business('Own'), await service.business('Other')]
  const { portalLink, urlPath } = await admin().createPortalLink({
    businessId: own.id,
    description: 'for Ada',
  })
  expect(portalLink!.scopes).toEqual(['read', 'events:subscribe'])
  const cookie = await signIn(service, { code: codeOf(urlPath) })
  expect(await callerOf(cookie)).toMatchObject({
    kind: CallerKind.PORTAL_LINK,
    id: portalLink!.id,
    name: 'for Ada',
    scopes: ['read', 'events:subscribe'],
    businessIds: [own.id],
  })
  const { businesses } = await browserClient(service, BusinessService, cookie).listBusinesses({})
  expect(businesses.map(({ id }) => id)).toEqual([own.id])
  const denied = { code: Code.PermissionDenied }
  const accounts = browserClient(service, AccountService, cookie)
  await accounts.listAccounts({ businessId: own.id })
  await expect(accounts.listAccounts({ businessId: other.id })).rejects.toMatchObject(denied)
  const transactions = browserClient(service, TransactionService, cookie)
  await expect(transactions.listTransactions({ businessId: other.id })).rejects.toMatchObject(
    denied,
  )
  const sessions = browserClient(service, SessionService, cookie)
  await expect(sessions.listSessions({})).rejects.toMatchObject(denied)
  await expect(sessions.createPortalLink({ businessId: own.id })).rejects.toMatchObject(denied)
  await expect(sessions.createSignInCode({})).rejects.toMatchObject(denied)
  const { portalLinks } = await sessions.listPortalLinks({})
  expect(portalLinks.map(({ businessId }) => businessId)).toEqual([own.id])
  await expect(openStream(cookie, [other.id]).then(({ ended }) => ended)).resolves.toBe(
    Code.PermissionDenied,
  )
})

test('a restricted token makes and revokes links of its own businesses only', async () => {
  const [own, other] = [await service.business(), await service.business()]
  const issued = await service
    .client(AdminService)
    .issueToken({ name: 'own', scopes: ['admin'], businessIds: [own.id] })
  const restricted = service.client(SessionService, issued.secret)
  const { portalLink } = await admin().createPortalLink({ businessId: other.id })
  await expect(restricted.createPortalLink({ businessId: other.id })).rejects.toMatchObject({
    code: Code.PermissionDenied,
  })
  await expect(restricted.revokePortalLink({ portalLinkId: portalLink!.id })).rejects.toMatchObject(
    { code: Code.NotFound },
  )
  const mine = await restricted.createPortalLink({ businessId: own.id })
  const { portalLinks } = await restricted.listPortalLinks({})
  expect(portalLinks.map(({ id }) => id)).toEqual([mine.portalLink!.id])
  const revoked = await restricted.revokePortalLink({ portalLinkId: mine.portalLink!.id })
  expect(revoked.portalLink!.revokedAt).toBeDefined()
  const { portalLinks: active } = await admin().listPortalLinks({ activeOnly: true })
  expect(active.map(({ id }) => id)).not.toContain(mine.portalLink!.id)
  expect(active.map(({ id }) => id)).toContain(portalLink!.id)
})

test('a link is never of the scope admin, longer than a month, or of an unknown business', async () => {
  const { id: businessId } = await service.business()
  const invalid = { code: Code.InvalidArgument }
  const create = (more: object) => admin().createPortalLink({ businessId, ...more })
  await expect(create({ scopes: ['admin'] })).rejects.toMatchObject(invalid)
  await expect(create({ ttl: { seconds: 30n * 86_400n + 1n } })).rejects.toMatchObject(invalid)
  await expect(create({ ttl: { seconds: 59n } })).rejects.toMatchObject(invalid)
  await expect(create({ businessId: 'biz_unknown' })).rejects.toMatchObject({ code: Code.NotFound })
})

test('sessions are listed newest first, by pages', async () => {
  const { secret } = await issueToken(['read'])
  for (let count = 0; count < 3; count++) await signIn(service, { token: secret })
  const first = await admin().listSessions({ pageSize: 2 })
  const next = await admin().listSessions({ pageSize: 2, pageToken: first.nextPageToken })
  const ids = [...first.sessions, ...next.sessions].map(({ id }) => id)
  expect(ids).toEqual(ids.toSorted().toReversed())
  expect(new Set(ids).size).toBe(4)
  expect(first.sessions[0]).toMatchObject({ name: 'ada', address: '127.0.0.1', active: true })
})
