import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createAuthenticateSession } from '../../../src/auth/sessions/authenticate-session.ts'
import { createSignIn } from '../../../src/auth/sessions/sign-in.ts'
import { createSignInCode } from '../../../src/auth/sessions/sign-in-codes.ts'
import { createAuthenticateToken } from '../../../src/auth/tokens/authenticate-token.ts'
import { createEncrypter } from '../../../src/crypto/encryption.ts'
import { epochMs } from '../../../src/postgres/epoch-ms.ts'
import { useDatabase } from '../../support/database.ts'
import { MASTER_KEY } from '../../support/master-key.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { waitUntil } from '../../support/wait-for.ts'

const db = useDatabase()

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const ADMIN_TOKEN = 'test-admin-token-0123456789-abcdef'
const SOURCE = { address: '192.0.2.1', requestId: 'req_1' }
const encrypter = createEncrypter(MASTER_KEY)
const ACTOR = { kind: 'system', id: '', name: '', ...SOURCE, auditKeys: encrypter } as const

/** Sessions whose time is set by the test. */
function sessionsAt(startMs: number, adminToken: string | undefined = ADMIN_TOKEN) {
  const clock = { nowMs: startMs, now: () => clock.nowMs }
  const runtime = createTestRuntime(db.database, { clock })
  const authenticateToken = createAuthenticateToken(runtime, { bootstrapToken: adminToken })
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
    `select ${epochMs('last_used_at')} as "atMs" from session where id = $1`,
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

test('lasts while it is used, up to its greatest age', async () => {
  const { clock, authenticate, signIn } = sessionsAt(START_MS)
  const { secret, expiresAtMs } = (await signIn({ token: ADMIN_TOKEN }, SOURCE))!
  expect(expiresAtMs).toBe(START_MS + 12 * HOUR_MS)
  while (clock.nowMs + 30 * MINUTE_MS < expiresAtMs) {
    clock.nowMs += 30 * MINUTE_MS
    expect(await authenticate(secret, 'use')).toBeDefined()
    await waitUntil(async () => (await lastUseOf(secret)) === clock.nowMs)
  }
  clock.nowMs = expiresAtMs - 1
  expect(await authenticate(secret, 'use')).toBeDefined()
  clock.nowMs = expiresAtMs
  expect(await authenticate(secret, 'use')).toBeUndefined()
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
    const { urlPath } = await createSignInCode(runtime, settings, caller, ACTOR)
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

test('is refused beyond a hundred of one caller at once', async () => {
  const { clock, signIn } = sessionsAt(START_MS + 48 * HOUR_MS)
  const begin = () => signIn({ token: ADMIN_TOKEN }, SOURCE)
  for (let i = 0; i < 98; i++) await begin()
  // Fewer than there are connections: none of them waits for one.
  const begun = await Promise.allSettled(Array.from({ length: 8 }, begin))
  expect(begun.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
  await expect(begin()).rejects.toMatchObject({ reason: 'rate_limited' })
  // What was idle for too long has ended.
  clock.nowMs += HOUR_MS
  expect(await begin()).toBeDefined()
})
