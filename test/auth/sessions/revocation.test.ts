import { Code } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { useSharedService } from '../../support/service.ts'
import { browserClient, postSession, signIn } from '../../support/sign-in.ts'
import { waitUntil } from '../../support/wait-for.ts'

const service = useSharedService()
const admin = () => service.client(SessionService)
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
async function openStream(cookie: string, businessId: string) {
  const events = browserClient(service, EventService, cookie).subscribe({
    start: { case: 'beginning', value: true },
    businessIds: [businessId],
  })
  const opened = Promise.withResolvers<void>()
  const ended = (async () => {
    for await (const _event of events) opened.resolve()
  })().catch((error) => error.code)
  await Promise.race([opened.promise, ended])
  return { ended }
}

/** A session, and how to revoke it or what it was begun with. */
interface Begun {
  readonly cookie: string
  readonly revoke: () => Promise<unknown>
}

async function beginWithToken(): Promise<Begun> {
  const tokens = service.client(AdminService)
  const { token, secret } = await tokens.issueToken({ name: 'ada', scopes: ['admin'] })
  const cookie = await signIn(service, { token: secret })
  return { cookie, revoke: () => tokens.revokeToken({ tokenId: token!.id }) }
}

async function beginWithLink(businessId: string): Promise<Begun> {
  const { portalLink, urlPath } = await admin().createPortalLink({ businessId })
  const code = urlPath.replace('/console/sign-in#', '')
  const cookie = await signIn(service, { code })
  const revoke = async () => {
    await admin().revokePortalLink({ portalLinkId: portalLink!.id })
    expect((await postSession(service, { code })).status).toBe(401)
  }
  return { cookie, revoke }
}

test.each<[string, (businessId: string) => Promise<Begun>]>([
  ['its token', beginWithToken],
  ['its portal link, which opens nothing more', beginWithLink],
  [
    'the session itself',
    async () => {
      const { cookie } = await beginWithToken()
      const { sessionId } = await callerOf(cookie)
      return { cookie, revoke: () => admin().revokeSession({ sessionId }) }
    },
  ],
])('a session ends with the revocation of %s, and so do its streams', async (_what, begin) => {
  const { id: businessId } = await service.business()
  const { cookie, revoke } = await begin(businessId)
  const other = (await begin(businessId)).cookie
  const stream = await openStream(cookie, businessId)
  await revoke()
  await untilRefused(cookie)
  expect(await stream.ended).toBe(Code.Unauthenticated)
  await callerOf(other)
})
