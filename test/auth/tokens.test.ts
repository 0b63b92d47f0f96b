import { connect } from 'node:net'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import pg from 'pg'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SCOPES } from '../../src/auth/caller.ts'
import { createAuthenticateToken } from '../../src/auth/tokens/authenticate-token.ts'
import { newTokenSecret, tokenIdOf } from '../../src/auth/tokens/token-secret.ts'
import { newId } from '../../src/core/ids.ts'
import { until } from '../protocols/rest/rest.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { startInstance } from '../support/instance.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'

const service = useSharedService()
const admin = (token?: string) => service.client(AdminService, token)

async function issue(more: object = {}) {
  const { token, secret } = await admin().issueToken({ name: 'ledger', scopes: ['read'], ...more })
  return { id: token!.id, secret, token: token! }
}

describe('a token', () => {
  test('is recognized by its format', () => {
    const id = newId('tok', Date.now())
    const { secret, prefix } = newTokenSecret(id)
    expect(secret).toMatch(/^it_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/)
    expect(secret.startsWith(prefix)).toBe(true)
    expect(tokenIdOf(secret)).toBe(id)
    for (const text of ['', 'it_', `it_${'0'.repeat(26)}_short`, `sk_live_${secret.slice(3)}`]) {
      expect(tokenIdOf(text)).toBeUndefined()
    }
  })

  test('is returned once, and only its hash is stored', async () => {
    const { secret, id } = await issue({ description: 'reads', scopes: ['read', 'payments:write'] })
    const { rows } = await service.database.durablePool.query(
      `select t::text as text from internal_token t
        union all select e::text from audit_entry e`,
    )
    const part = secret.slice(-43)
    const hex = Buffer.from(part).toString('hex')
    for (const { text } of rows) {
      expect(text).not.toContain(part)
      expect(text).not.toContain(hex)
    }
    const { tokens } = await admin().listTokens({ pageSize: 1 })
    expect(tokens[0]).toMatchObject({
      id,
      name: 'ledger',
      description: 'reads',
      scopes: ['read', 'payments:write'],
      businessIds: [],
    })
    expect(secret.startsWith(tokens[0]!.prefix)).toBe(true)
    expect(JSON.stringify(tokens[0]!.prefix)).not.toContain(part)
  })

  test('allows what its scopes allow, until it is revoked', async () => {
    const { id, secret } = await issue()
    const businesses = service.client(BusinessService, secret)
    await businesses.listBusinesses({})
    await expect(businesses.createBusiness({ name: 'x' })).rejects.toMatchObject({
      code: Code.PermissionDenied,
    })
    const revoked = await admin().revokeToken({ tokenId: id })
    expect(revoked.token!.revokedAt).toBeDefined()
    // When it was last used is written later.
    const { token: again } = await admin().revokeToken({ tokenId: id })
    expect({ ...again, lastUsedAt: undefined }).toEqual({ ...revoked.token, lastUsedAt: undefined })
    await until(
      () => businesses.listBusinesses({}).catch(ConnectError.from),
      (result) => result instanceof ConnectError && result.code === Code.Unauthenticated,
      2_000,
    )
  })

  test('is listed once, newest first, over all pages', async () => {
    const made: string[] = []
    for (let index = 0; index < 7; index++) made.push((await issue()).id)
    const listed: string[] = []
    let pageToken = ''
    do {
      const page = await admin().listTokens({ pageSize: 3, pageToken })
      listed.push(...page.tokens.map((token) => token.id))
      pageToken = page.nextPageToken
    } while (pageToken !== '')
    expect(listed).toEqual([...listed].sort().reverse())
    expect(new Set(listed).size).toBe(listed.length)
    expect(listed).toEqual(expect.arrayContaining(made))
  })

  test('shows when it was last used, written at most once a minute', async () => {
    const { id, secret, token } = await issue()
    expect(token.lastUsedAt).toBeUndefined()
    const lastUsed = async () => {
      await service.client(BusinessService, secret).listBusinesses({})
      const { tokens } = await admin().listTokens({})
      return tokens.find((each) => each.id === id)!.lastUsedAt
    }
    const used = await until(lastUsed, (at) => at !== undefined)
    expect(Math.abs(timestampMs(used!) - Date.now())).toBeLessThan(60_000)
    // With one connection, a later statement waits for the write.
    const relaxedPool = new pg.Pool({ connectionString: service.url, max: 1 })
    onTestFinished(() => relaxedPool.end())
    const writtenAtMs = async (nowMs: number) => {
      const database = { ...service.database, relaxedPool }
      const runtime = createTestRuntime(database, { clock: { now: () => nowMs } })
      await createAuthenticateToken(runtime, { bootstrapToken: undefined })(secret)
      const select = 'select last_used_at as at from internal_token where id = $1'
      return (await relaxedPool.query<{ at: Date }>(select, [id])).rows[0]!.at.getTime()
    }
    const usedMs = timestampMs(used!)
    expect(await writtenAtMs(usedMs + 59_999)).toBe(usedMs)
    expect(await writtenAtMs(usedMs + 60_000)).toBe(usedMs + 60_000)
  })
})

describe('issuing is refused', () => {
  test.each([
    ['no name', { name: ' ' }, 'name'],
    ['no scope', { scopes: [] }, 'scopes'],
    ['an unknown scope', { scopes: ['root'] }, 'scopes[0]'],
    ['a scope twice', { scopes: ['read', 'read'] }, 'scopes'],
    ['a time that has passed', { expiresAt: { seconds: 1n } }, 'expiresAt'],
    [
      'too many businesses',
      { businessIds: Array.from({ length: 101 }, (_, i) => `b${i}`) },
      'businessIds',
    ],
    ['an unknown business', { businessIds: ['biz_nobody'] }, 'businessIds[0]'],
  ])('%s', async (_name, more, field) => {
    const before = (await admin().listTokens({ pageSize: 1 })).tokens
    const error = await issue(more).catch(ConnectError.from)
    expect(error).toMatchObject({ code: Code.InvalidArgument })
    expect((error as ConnectError).rawMessage).toBe(`Invalid request: ${field}`)
    expect((await admin().listTokens({ pageSize: 1 })).tokens).toEqual(before)
  })

  test('to all callers but unrestricted admins', async () => {
    const { id: businessId } = await service.business()
    for (const more of [
      { scopes: SCOPES.filter((scope) => scope !== 'admin') },
      { scopes: ['admin'], businessIds: [businessId] },
    ]) {
      const { secret, id } = await issue(more)
      const requested = { name: 'more', scopes: ['admin'] }
      const denied = { code: Code.PermissionDenied }
      await expect(admin(secret).issueToken(requested)).rejects.toMatchObject(denied)
      await expect(admin(secret).revokeToken({ tokenId: id })).rejects.toMatchObject(denied)
    }
  })
})

test('ADMIN_TOKEN cannot be revoked', async () => {
  await expect(admin().revokeToken({ tokenId: 'bootstrap' })).rejects.toMatchObject({
    code: Code.NotFound,
  })
  const { secret } = await issue({ scopes: ['admin'] })
  const { tokens } = await admin(secret).listTokens({ pageSize: 200 })
  for (const { id } of tokens) await admin().revokeToken({ tokenId: id })
  expect((await admin(ADMIN_TOKEN).listTokens({})).tokens.length).toBeGreaterThan(0)
})

describe('authentication by token', () => {
  let nowMs: number
  const authenticate = (settings = { bootstrapToken: ADMIN_TOKEN as string | undefined }) =>
    createAuthenticateToken(
      createTestRuntime(service.database, { clock: { now: () => nowMs } }),
      settings,
    )

  beforeEach(() => {
    nowMs = Date.now()
  })

  test('caches a token for less than a second', async () => {
    const { id, secret } = await issue()
    const find = authenticate()
    expect(await find(secret)).toMatchObject({ kind: 'internal', tokenId: id, name: 'ledger' })
    await admin().revokeToken({ tokenId: id })
    expect(await find(secret)).toBeDefined()
    nowMs += 1_000
    expect(await find(secret)).toBeUndefined()
  })

  test('refuses an expired token, also while it is cached', async () => {
    const expiresAt = timestampFromMs(nowMs + 60_000)
    const { secret } = await issue({ expiresAt })
    const find = authenticate()
    nowMs += 59_900
    expect(await find(secret)).toBeDefined()
    nowMs += 99
    expect(await find(secret)).toBeDefined()
    nowMs += 1
    expect(await find(secret)).toBeUndefined()
  })

  test('does not count the use of an expired token', async () => {
    const { id, secret } = await issue({ expiresAt: timestampFromMs(nowMs + 60_000) })
    const other = await issue()
    const find = authenticate()
    nowMs += 60_000
    expect(await find(secret)).toBeUndefined()
    expect(await find(other.secret)).toBeDefined()
    const used = async () => {
      const { tokens } = await admin().listTokens({})
      return new Map(tokens.map((each) => [each.id, each.lastUsedAt]))
    }
    const uses = await until(used, (found) => found.get(other.id) !== undefined)
    expect(uses.get(id)).toBeUndefined()
  })

  test('refuses a token with a known id and another secret', async () => {
    const { id, secret } = await issue()
    const forged = newTokenSecret(id).secret
    const find = authenticate()
    expect(await find(forged)).toBeUndefined()
    expect(await find(secret)).toBeDefined()
    expect(await find(forged)).toBeUndefined()
  })

  test('returns the businesses that a token is restricted to', async () => {
    const { id: businessId } = await service.business()
    const { secret } = await issue({ businessIds: [businessId] })
    expect(await authenticate()(secret)).toMatchObject({ businessIds: new Set([businessId]) })
    expect((await authenticate()((await issue()).secret))!.businessIds).toBeUndefined()
  })

  test('accepts no bootstrap token if none is set', async () => {
    expect(await authenticate()(ADMIN_TOKEN)).toMatchObject({ tokenId: 'bootstrap' })
    const none = authenticate({ bootstrapToken: undefined })
    expect(await none(ADMIN_TOKEN)).toBeUndefined()
    expect(await none('undefined')).toBeUndefined()
  })
})

test('ends the streams of a revoked token at every instance, and no others', async () => {
  const instance = await startInstance(service.url)
  try {
    const revoked = await issue({ scopes: ['events:subscribe'] })
    const kept = await issue({ scopes: ['events:subscribe'] })
    const open = (token: string, at: { grpcUrl: string }) => {
      const client = clientAt(at.grpcUrl, token)
      return client.subscribe({})[Symbol.asyncIterator]()
    }
    const ending = [open(revoked.secret, service), open(revoked.secret, instance)]
    const unaffected = open(kept.secret, instance)
    // The first item is a checkpoint: the subscription is established.
    for (const stream of [...ending, unaffected]) expect((await stream.next()).done).toBe(false)
    await admin().revokeToken({ tokenId: revoked.id })
    for (const stream of ending) {
      await expect(stream.next()).rejects.toMatchObject({ code: Code.Unauthenticated })
    }
    const { key } = await service.business()
    await service.post('generateVirtualAccount/', key, {
      ...{ reference: 'r', email: 'a@example.com', phone: '08012345678' },
      ...{ firstName: 'A', lastName: 'O', bank: '9PSB' },
    })
    expect((await unaffected.next()).value.item.case).toBe('event')
    await unaffected.return?.()
  } finally {
    await instance.close()
  }
})

test('ends the stream of a revoked token although its subscriber does not read', async () => {
  const instance = await startInstance(service.url)
  const { hostname, port } = new URL(instance.httpUrl)
  const socket = connect(Number(port), hostname)
  try {
    // Some 16 MB: more than the buffers between the two hold.
    await writeEvents(service.database.durablePool, 4_000, { businessId: 'x'.repeat(2_000) })
    await sequence(service.database.durablePool)
    const { id, secret } = await issue({ scopes: ['events:subscribe'] })
    socket.pause().write(subscribeOverConnect(secret))
    await until(
      async () => socket.readableLength,
      (length) => length >= socket.readableHighWaterMark,
      20_000,
    )
    const open = async () => {
      const response = await fetch(`${instance.httpUrl}/metrics`, {
        headers: { connection: 'close' },
      })
      return Number(/^inflow_connections\{server="http"\} (\d+)$/m.exec(await response.text())?.[1])
    }
    expect(await open()).toBe(2)
    await admin().revokeToken({ tokenId: id })
    // The connection of the metrics request remains.
    await until(open, (count) => count === 1)
  } finally {
    socket.destroy()
    await instance.close()
  }
})

/** A request of the Connect protocol for the whole log, in JSON. */
function subscribeOverConnect(token: string): Buffer {
  const message = Buffer.from('{"beginning":true}')
  const envelope = Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message])
  const head = [
    'POST /inflow.event.v1.EventService/Subscribe HTTP/1.1',
    'Host: x',
    'Content-Type: application/connect+json',
    'Connect-Protocol-Version: 1',
    `Authorization: Bearer ${token}`,
    `Content-Length: ${envelope.length}`,
  ]
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), envelope])
}

function clientAt(grpcUrl: string, token: string) {
  return grpcClient(EventService, grpcUrl, token)
}
