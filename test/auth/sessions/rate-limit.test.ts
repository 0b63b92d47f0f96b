import { expect, test } from 'vitest'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { browserClient, postSession, signIn } from '../../support/sign-in.ts'
import { waitUntil } from '../../support/wait-for.ts'

const service = useService({ RATE_LIMIT_FAILED: '1/10' })

test('wrong credentials are limited by address, and right ones still sign in', async () => {
  const cookie = await signIn(service, { token: ADMIN_TOKEN })
  const caller = () => browserClient(service, SessionService, cookie).getCaller({})
  await caller()
  const wrong = `it_${'0'.repeat(26)}_${'A'.repeat(43)}`
  const statuses: number[] = []
  for (let count = 0; count < 20; count++) {
    statuses.push((await postSession(service, { token: wrong })).status)
  }
  // One more is admitted a second.
  expect(statuses.slice(0, 10)).toEqual(Array(10).fill(401))
  expect(statuses.slice(10)).toContain(429)
  const code = `ic_${'0'.repeat(26)}_${'A'.repeat(43)}`
  const limited = await waitUntil(async () => {
    const response = await postSession(service, { code })
    return response.status === 429 && response
  })
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await postSession(service, { token: ADMIN_TOKEN })).status).toBe(204)
  expect((await caller()).caller!.id).toBe('bootstrap')
})

test('wrong sessions are limited like wrong tokens', async () => {
  const cookie = `inflow-session=is_${'0'.repeat(26)}_${'A'.repeat(43)}`
  const codes: unknown[] = []
  for (let count = 0; count < 20; count++) {
    codes.push(
      await browserClient(service, SessionService, cookie)
        .getCaller({})
        .catch(({ rawMessage }) => rawMessage),
    )
  }
  // One more is admitted a second.
  expect(codes.join()).toContain('Too many failed authentications from this address')
})
