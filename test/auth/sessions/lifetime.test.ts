import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createAuthenticateToken } from '../../../src/auth/authenticate-token.ts'
import { createAuthenticateSession } from '../../../src/auth/sessions/authenticate-session.ts'
import { createSignIn } from '../../../src/auth/sessions/sign-in.ts'
import { createSignInCode } from '../../../src/auth/sessions/sign-in-codes.ts'
import { HOUR_MS } from '../../../src/core/durations.ts'
import { createEncrypter } from '../../../src/crypto/encryption.ts'
import { useDatabase } from '../../support/database.ts'
import { MASTER_KEY } from '../../support/master-key.ts'
import { createTestRuntime } from '../../support/runtime.ts'

const db = useDatabase()

const ADMIN_TOKEN = 'test-admin-token-0123456789-abcdef'
const SOURCE = { address: '192.0.2.1', requestId: 'req_1' }
const encrypter = createEncrypter(MASTER_KEY)
const ACTOR = { kind: 'system', id: '', name: '', ...SOURCE, auditKeys: encrypter } as const

/** Sessions whose time is set by the test. */
function sessionsAt(startMs: number, adminToken: string | undefined = ADMIN_TOKEN) {
  const clock = { nowMs: startMs, now: () => clock.nowMs }
  const runtime = createTestRuntime(db.database, { clock })
  const authenticateToken = createAuthenticateToken(runtime, adminToken)
  const settings = { adminToken, idleMs: HOUR_MS, maxMs: 12 * HOUR_MS, auditKeys: encrypter }
  return {
    clock,
    runtime,
    settings,
    authenticate: createAuthenticateSession(runtime, settings),
    signIn: createSignIn(runtime, { ...settings, authenticateToken }),
  }
}

const lastUseOf = async (secret: string) => {
  const { rows } = await db.database.durablePool.query<{ atMs: number }>(
    `select round(date_part('epoch', last_used_at) * 1000) as "atMs" from session where id = $1`,
    [secret.replace(/^is_(\w{26})_.*$/, 'ses_$1')],
  )
  return rows[0]!.atMs
}

const START_MS = Date.parse('2026-03-01T09:00:00Z')

test('ends after it was idle for its time, although a stream watches it', async () => {
  const { clock, authenticate, signIn } = sessionsAt(START_MS)
  const { secret } = (await signIn({ token: ADMIN_TOKEN }, SOURCE))!
  clock.nowMs += HOUR_MS - 1
  expect(await authenticate(secret, 'watch')).toBeDefined()
  clock.nowMs += 1
  expect(await authenticate(secret, 'watch')).toBeUndefined()
  expect(await lastUseOf(secret)).toBe(START_MS)
})

test('of ADMIN_TOKEN ends when ADMIN_TOKEN changes or is removed', async () => {
  const before = sessionsAt(START_MS)
  const { secret } = (await before.signIn({ token: ADMIN_TOKEN }, SOURCE))!
  expect(await before.authenticate(secret, 'use')).toMatchObject({ tokenId: 'bootstrap' })
  const changed = randomBytes(32).toString('hex')
  expect(await sessionsAt(START_MS, changed).authenticate(secret, 'use')).toBeUndefined()
  const removed = { adminToken: undefined, idleMs: HOUR_MS }
  expect(await createAuthenticateSession(before.runtime, removed)(secret, 'use')).toBeUndefined()
  expect(await sessionsAt(START_MS).authenticate(secret, 'use')).toBeDefined()
})

test('a code of ADMIN_TOKEN does not outlive a change of it', async () => {
  const { runtime, settings, signIn } = sessionsAt(START_MS)
  const caller = {
    kind: 'internal',
    tokenId: 'bootstrap',
    name: 'bootstrap',
    scopes: new Set(['admin'] as const),
  } as const
  const codeOf = async () => {
    const { urlPath } = await createSignInCode(runtime, settings.adminToken, caller, ACTOR)
    return { code: urlPath.split('#')[1]! }
  }
  const changed = sessionsAt(START_MS, randomBytes(32).toString('hex'))
  expect(await changed.signIn(await codeOf(), SOURCE)).toBeUndefined()
  expect(await signIn(await codeOf(), SOURCE)).toBeDefined()
})

test('is deleted long after its end', async () => {
  const { clock, signIn } = sessionsAt(START_MS - 400 * 24 * HOUR_MS)
  await signIn({ token: ADMIN_TOKEN }, SOURCE)
  const count = async () =>
    (await db.database.durablePool.query("select from session where created_at < '2026-01-01'"))
      .rowCount
  expect(await count()).toBe(1)
  clock.nowMs += 98 * 24 * HOUR_MS
  await signIn({ token: ADMIN_TOKEN }, SOURCE)
  expect(await count()).toBe(1)
})
