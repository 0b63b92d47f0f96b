import { beforeAll, expect, test } from 'vitest'
import { CallerKind } from '../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { ADMIN_TOKEN, useService, useSharedService } from '../support/service.ts'
import { browserClient, postSession, signIn } from '../support/sign-in.ts'
import { callerEnv, runHere } from './run-inflow.ts'

const service = useService({ PUBLIC_URL: 'https://pay.example.com' })
const local = useSharedService()
const run = (...args: string[]) => runHere(args, callerEnv(service))

const codeIn = (text: string) => /\/console\/sign-in#(\w\w_\S+)/.exec(text)?.[1] ?? ''
const callerOf = async (cookie: string) =>
  (await browserClient(service, SessionService, cookie).getCaller({})).caller!

let businessId: string

beforeAll(async () => {
  businessId = (await service.business('Acme')).id
})

test('a link signs a browser in once, with the rights of the token', async () => {
  const made = await run('console', 'link')
  expect(made.code).toBe(0)
  expect(made.stdout).toMatch(/^https:\/\/pay\.example\.com\/console\/sign-in#ic_\S+\n$/)
  expect(made.stderr).toMatch(/^It can be opened once, until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\n$/)
  const code = codeIn(made.stdout)
  expect((await callerOf(await signIn(service, { code }))).kind).toBe(CallerKind.ADMIN_TOKEN)
  expect((await postSession(service, { code })).status).toBe(401)
})

test('without PUBLIC_URL, the path is printed, and what to do with it', async () => {
  const env = callerEnv(local)
  const made = await runHere(['console', 'link'], env)
  expect(made.stdout).toMatch(/^\/console\/sign-in#ic_\S+\n$/)
  expect(made.stderr).toMatch(/^Open this path at the address of the HTTP server/)
})

test('a portal link is made, listed, opened and revoked', async () => {
  const more = ['--ttl', '2h', '--scope', 'read', '--description', 'for Ada']
  const made = await run('portal', 'link', '--business', businessId, ...more)
  expect(made).toMatchObject({ code: 0, stderr: expect.stringMatching(/^The link is shown only/) })
  const id = /^Id +(plk_\S+)$/m.exec(made.stdout)?.[1] ?? ''
  expect(made.stdout).toMatch(/^Scopes +read$/m)
  expect(made.stdout).toMatch(/^https:\/\/pay\.example\.com\/console\/sign-in#pl_\S+$/m)
  const cookie = await signIn(service, { code: codeIn(made.stdout) })
  expect(await callerOf(cookie)).toMatchObject({ id, name: 'for Ada', businessIds: [businessId] })
  expect((await run('portal', 'list', '--active')).stdout).toContain(id)
  const revoked = await run('portal', 'revoke', id, '--yes')
  expect(revoked.stdout).toMatch(/^Revoked at +\d{4}-/m)
  expect((await run('portal', 'list', '--active')).stdout).not.toContain(id)
  expect((await run('portal', 'list', '--business', businessId)).stdout).toContain(id)
})

test('sessions are listed and revoked', async () => {
  const cookie = await signIn(service, { token: ADMIN_TOKEN })
  const { sessionId } = await callerOf(cookie)
  const listed = await run('session', 'list', '--active', '--limit', '1')
  expect(listed.stdout).toMatch(
    new RegExp(`^${sessionId} +yes +ADMIN_TOKEN +bootstrap +bootstrap +admin`, 'm'),
  )
  const revoked = await run('session', 'revoke', sessionId)
  expect(revoked.stdout).toMatch(/^Active +no$/m)
})
