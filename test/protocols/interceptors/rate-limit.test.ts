import { Code, createClient, type Transport } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { captureLog } from '../../support/captured-log.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { byHand, startProxy, type TcpProxy } from '../../support/proxy.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { PROTOCOLS } from '../matrix/protocols.ts'
import { asJson, GET_TRANSACTION, send, until } from '../rest/rest.ts'
import { call, expectAbout, few, NONE, statuses, wrongKey } from './limited-calls.ts'

const service = useService({ RATE_LIMIT_KEY: '1000/2000', RATE_LIMIT_ADDRESS: '2000/4000' })
const businesses = () => service.client(BusinessService)

/** Instances on a database that can be taken away, which take this machine for their proxy. */
let wire: TcpProxy
/** Limits keys and addresses. */
let limited: Instance
/** Limits tokens and failures. */
let guarded: Instance

const start = (rateLimits: object) =>
  startInstance(wire.through, {
    trustedProxies: ['127.0.0.0/8'],
    rateLimits: { ...NONE, ...rateLimits },
    streamsPerTokenMax: 2,
  })

beforeAll(async () => {
  wire = await startProxy(service.url, byHand)
  limited = await start({ key: few(5), address: few(6) })
  guarded = await start({ token: few(3), failed: few(4) })
})

afterAll(async () => {
  for (const instance of [limited, guarded]) await instance?.close()
  await wire?.block()
})

const NO_LIMIT = [undefined, undefined, undefined]

describe('a key', () => {
  test('gets its limit with every response, and Retry-After beyond its burst', async () => {
    const { key } = await service.business()
    for (const remaining of [4, 3, 2, 1, 0]) {
      const answer = await call(limited, key)
      expect(answer).toMatchObject({ status: 404, retryAfter: undefined })
      expect(answer.limit.slice(0, 2)).toEqual(['5', `${remaining}`])
      expectAbout(answer.limit[2], (5 - remaining) * 120)
    }
    const refused = await call(limited, key)
    expect(refused).toMatchObject({ status: 429, code: 'rate_limited' })
    expectAbout(refused.retryAfter, 120)
    expect(refused.limit.slice(0, 2)).toEqual(['5', '0'])
    expectAbout(refused.limit[2], 600)
  })

  test('gets the same headers over Connect and gRPC-Web, with successes and errors', async () => {
    const { key } = await service.business()
    const seen: unknown[] = []
    for (const [type, body] of [
      ['application/json', '{}'],
      ['application/json', '{"limit":-1}'],
      ['application/grpc-web+json', Buffer.from([0, 0, 0, 0, 2, 0x7b, 0x7d])],
      ['application/json', '{}'],
      ['application/json', '{}'],
      ['application/json', '{}'],
    ] as const) {
      const { status, headers } = await send(limited.httpUrl, {
        path: '/inflow.thirdparty.v2.ThirdPartyService/ListEvents',
        headers: { 'content-type': type, authorization: `Bearer ${key}` },
        body,
      })
      seen.push([status, headers['ratelimit-limit'], headers['ratelimit-remaining']])
      expect(Number(headers['ratelimit-reset'])).toBeGreaterThan(0)
    }
    expect(seen).toEqual([
      [200, '5', '4'],
      [400, '5', '3'],
      [200, '5', '2'],
      [200, '5', '1'],
      [200, '5', '0'],
      [429, '5', '0'],
    ])
  })

  test('does not spend another key’s limit, nor one when it is not valid', async () => {
    const [first, second] = [await service.business(), await service.business()]
    expect(await statuses(6, () => call(limited, first.key))).toContain(429)
    expect((await call(limited, second.key)).limit[1]).toBe('4')
    const unknown = await call(limited, wrongKey())
    expect(unknown).toMatchObject({ status: 401, limit: NO_LIMIT })
  })
})

describe('a business', () => {
  test('has a limit of its own for each of its keys within a second, and again the default', async () => {
    const { id, key } = await service.business()
    const other = (await businesses().issueKey({ businessId: id })).secretKey
    const change = { businessId: id, rateLimitPerSecond: 1, rateLimitBurst: 3 }
    const { business } = await businesses().updateBusiness(change)
    expect(business).toMatchObject({ rateLimitPerSecond: 1, rateLimitBurst: 3 })
    expect((await businesses().getBusiness({ businessId: id })).business).toEqual(business)
    for (const each of [key, other]) {
      await until(
        () => call(service, each),
        ({ limit }) => limit[0] === '3',
      )
      // All at once, as each second gives one more.
      await until(
        () => Promise.all(Array.from({ length: 12 }, () => call(service, each))),
        (answers) => answers.some(({ status }) => status === 429),
      )
    }
    await businesses().updateBusiness({ businessId: id, rateLimitPerSecond: 0 })
    await until(
      () => call(service, key),
      ({ limit }) => limit[0] === '2000',
    )
  })

  test('has a default burst of twice its rate', async () => {
    const { id, key } = await service.business()
    await businesses().updateBusiness({ businessId: id, rateLimitPerSecond: 700 })
    expect((await call(service, key)).limit[0]).toBe('1400')
  })

  test.each([
    [{ rateLimitPerSecond: -1 }, 'rateLimitPerSecond'],
    [{ rateLimitBurst: 5 }, 'rateLimitBurst'],
    [{ rateLimitPerSecond: 2, rateLimitBurst: 121 }, 'rateLimitBurst'],
  ])('is refused %j, and stays as it was', async (change, field) => {
    const { id } = await service.business('Before')
    const refused = businesses().updateBusiness({ businessId: id, name: 'After', ...change })
    await expect(refused).rejects.toThrow(`Invalid request: ${field}`)
    expect((await businesses().getBusiness({ businessId: id })).business).toMatchObject({
      name: 'Before',
      rateLimitPerSecond: 0,
      rateLimitBurst: 0,
    })
  })
})

describe('an address', () => {
  test('has one limit over all keys, and an IPv6 network is one address', async () => {
    for (const addresses of [
      ['203.0.113.1', '::ffff:203.0.113.1'],
      ['2001:db8:1:2::1', '2001:DB8:1:2:ffff::9'],
    ]) {
      const keys = [(await service.business()).key, (await service.business()).key]
      const seen: number[] = []
      for (let each = 0; each < 7; each++) {
        const answer = await call(limited, keys[each % 2], addresses[each % 2])
        seen.push(answer.status)
        if (each === 6) {
          expect(answer.code).toBe('rate_limited')
          expectAbout(answer.retryAfter, 100)
        }
      }
      expect(seen).toEqual([404, 404, 404, 404, 404, 404, 429])
    }
    const { key } = await service.business()
    expect((await call(limited, key, '203.0.113.2')).status).toBe(404)
    expect((await call(limited, key, '2001:db8:1:3::1')).status).toBe(404)
  })

  test('is limited without a credential, too', async () => {
    const seen = await statuses(7, () => call(limited, undefined, '203.0.113.3'))
    expect(seen).toEqual([401, 401, 401, 401, 401, 401, 429])
  })

  test('of this machine has no limit, nor have internal services', async () => {
    const { id } = await service.business()
    expect(await statuses(20, () => call(limited, undefined))).not.toContain(429)
    const method = BusinessService.method.getBusiness
    for (let each = 0; each < 20; each++) {
      const authorization = `Bearer ${ADMIN_TOKEN}`
      const request = { businessId: id }
      const outcome = await PROTOCOLS['Connect in JSON']!(limited, {
        method,
        request,
        authorization,
      })
      expect(outcome).toHaveProperty('messages')
    }
  })
})

test('a token can have a limit, which holds while the database is unavailable', async () => {
  const method = AccountService.method.listAccounts
  const authorization = `Bearer ${ADMIN_TOKEN}`
  const { id } = await service.business()
  const list = () =>
    PROTOCOLS['Connect in JSON']!(guarded, { method, request: { businessId: id }, authorization })
  expect(await list()).toHaveProperty('messages')
  await wire.block()
  try {
    expect(await list()).toMatchObject({ reason: 'unavailable' })
    expect(await list()).toMatchObject({ reason: 'unavailable' })
    expect(await list()).toMatchObject({ reason: 'rate_limited' })
  } finally {
    await wire.unblock()
  }
})

describe('a token', () => {
  /** Opens a stream. Resolves once the server has answered. */
  async function openStream(transport: Transport, token: string) {
    const cancel = new AbortController()
    const opened = Promise.withResolvers<void>()
    const options = {
      headers: { authorization: `Bearer ${token}` },
      signal: cancel.signal,
      onHeader: () => opened.resolve(),
    }
    const read = async (): Promise<void> => {
      const stream = createClient(EventService, transport).subscribe({}, options)
      for await (const _item of stream) opened.resolve()
    }
    read().catch(opened.reject)
    await opened.promise
    return { close: () => cancel.abort() }
  }

  test('has a bounded number of streams; those that ended count no more', async () => {
    const grpc = createGrpcTransport({ baseUrl: limited.grpcUrl })
    const connect = createConnectTransport({ baseUrl: limited.httpUrl, httpVersion: '1.1' })
    const admin = service.client(AdminService)
    const issue = async (name: string) =>
      (await admin.issueToken({ name, scopes: ['events:subscribe'] })).secret
    const [token, other] = [await issue('feed'), await issue('other')]
    const first = await openStream(grpc, token)
    const second = await openStream(connect, token)
    for (const transport of [grpc, connect]) {
      await expect(
        createClient(EventService, transport)
          .subscribe({}, { headers: { authorization: `Bearer ${token}` } })
          [Symbol.asyncIterator]()
          .next(),
      ).rejects.toMatchObject({
        code: Code.ResourceExhausted,
        rawMessage: 'The credential has 2 streams open, and may have no more: close some first',
      })
    }
    const others = await openStream(grpc, other)
    for (const { close } of [first, second]) {
      close()
      await until(
        () => openStream(grpc, token).catch(() => undefined),
        (stream) => stream !== undefined,
      ).then((stream) => stream?.close())
    }
    others.close()
  })
})

test('two instances together admit as much as one', async () => {
  // test/auth/rate-limits/many-callers has how exactly they share.
  const { id, key } = await service.business()
  const { keys } = await businesses().listKeys({ businessId: id })
  const other = await start({ key: few(5) })
  try {
    expect(await statuses(5, () => call(limited, key))).not.toContain(429)
    await waitFor(async () => {
      const { rows } = await service.database.durablePool.query(
        'select tokens < 0.5 as spent from rate_bucket where name = $1',
        [`key ${keys[0]!.id}`],
      )
      expect(rows).toEqual([{ spent: true }])
    })
    await until(
      () => call(other, key),
      ({ status }) => status === 429,
    )
  } finally {
    await other.close()
  }
})

const LIST_ACCOUNTS = '/inflow.account.v1.AccountService/ListAccounts'

/** A call without fields, from an address that the proxy vouches for. */
const post = (at: { httpUrl: string }, path: string, credential: string, address: string) =>
  send(at.httpUrl, {
    path,
    headers: { ...asJson(credential), 'x-forwarded-for': address },
    body: '{}',
  })

/** A business with a key that another provider made. */
async function importedKey() {
  const { id } = await service.business()
  const key = `another-providers-${id}`
  await businesses().importKey({ businessId: id, secretKey: key })
  return { id, key }
}

describe('wrong keys', () => {
  test('are refused by address without a look-up', async () => {
    const at = '203.0.113.10'
    const seen = await statuses(5, () => call(guarded, wrongKey(), at))
    expect(seen).toEqual([401, 401, 401, 401, 429])
    await wire.block()
    try {
      const refused = await call(guarded, wrongKey(), at)
      expect(refused).toMatchObject({ status: 429, code: 'rate_limited' })
      expectAbout(refused.retryAfter, 150)
      // From elsewhere it is looked up, and so cannot be answered.
      expect((await call(guarded, wrongKey(), '203.0.113.11')).status).toBe(503)
    } finally {
      await wire.unblock()
    }
  })

  test.each([
    ['203.0.113.12', () => service.business()],
    ['203.0.113.14', importedKey],
  ])('do not lock out a key that was valid before, at the same address %s', async (at, issue) => {
    const [known, fresh] = [await issue(), await issue()]
    expect((await call(guarded, known.key, at)).status).toBe(404)
    expect(await statuses(6, () => call(guarded, wrongKey(), at))).toContain(429)
    expect(await statuses(6, () => call(guarded, known.key, at))).not.toContain(429)
    expect((await call(guarded, fresh.key, '203.0.113.13')).status).toBe(404)
    // Once revoked, it is as wrong as any.
    const { keys } = await businesses().listKeys({ businessId: known.id })
    for (const { id: keyId } of keys) await businesses().revokeKey({ keyId })
    const refused = await until(
      () => call(guarded, known.key, at),
      ({ status }) => status !== 404,
    )
    expect(refused.status).toBe(401)
    // A refresh that began before the revocation may let it in once more.
    await until(
      () => call(guarded, known.key, at),
      ({ status }) => status === 429,
    )
  })

  test('are counted over every protocol, like tokens; a call without a credential is not', async () => {
    expect(await statuses(10, () => call(guarded, undefined))).not.toContain(429)
    const method = AccountService.method.listAccounts
    const codes: unknown[] = []
    for (const through of Object.values(PROTOCOLS)) {
      for (let each = 0; each < 2; each++) {
        const authorization = 'Bearer no-token-of-ours'
        codes.push(await through(guarded, { method, request: {}, authorization }))
      }
    }
    expect(codes.slice(0, 4)).not.toContainEqual(
      expect.objectContaining({ reason: 'rate_limited' }),
    )
    for (const outcome of codes.slice(4)) {
      expect(outcome).toMatchObject({ code: 'RESOURCE_EXHAUSTED', reason: 'rate_limited' })
    }
    // These were malformed; a well-formed credential is still looked up.
    expect(await call(guarded, wrongKey())).toMatchObject({ status: 401 })
  })
})

describe('the log of refused calls', () => {
  const { log, lines } = captureLog()
  const lineOf = (requestId: string | undefined) =>
    lines.find((line) => line['request_id'] === requestId)

  test('names the address, and the key, token or claimed id, and never a secret', async () => {
    const instance = await startInstance(wire.through, { trustedProxies: ['127.0.0.0/8'] }, log)
    try {
      const { id, key } = await service.business()
      const { secretKey: bound } = await businesses().issueKey({
        businessId: id,
        allowedCidrs: ['198.51.100.0/24'],
      })
      const admin = service.client(AdminService)
      const { secret: token, token: reader } = await admin.issueToken({
        name: 'reader',
        scopes: ['events:subscribe'],
      })
      const guess = 'A'.repeat(43)
      const get = async (path: string, credential: string) => {
        const { headers } = await post(instance, path, credential, '203.0.113.50')
        return lineOf(headers['x-request-id'] as string)
      }
      const [rest, connect] = [GET_TRANSACTION, LIST_ACCOUNTS]
      const { keys } = await businesses().listKeys({ businessId: id })
      const common = { msg: 'call refused', address: '203.0.113.50' }
      const first = keys.find((each) => each.allowedCidrs.length === 0)!
      expect(await get(rest, key.slice(0, -43) + guess)).toMatchObject({
        ...common,
        status: 'UNAUTHENTICATED',
        claimed_id: first.id,
      })
      expect(await get(rest, bound)).toMatchObject({
        ...common,
        status: 'PERMISSION_DENIED',
        business_id: id,
        key_id: expect.stringMatching(/^key_/),
      })
      expect(await get(connect, token)).toMatchObject({
        ...common,
        status: 'PERMISSION_DENIED',
        token_id: reader!.id,
      })
      expect(await get(connect, token.slice(0, -43) + guess)).toMatchObject({
        ...common,
        claimed_id: reader!.id,
      })
      const malformed = await get(connect, 'hidden-secret')
      expect(malformed).toMatchObject({ ...common, status: 'UNAUTHENTICATED' })
      expect(malformed).not.toHaveProperty('claimed_id')
      const text = JSON.stringify(lines)
      for (const secret of [guess, 'hidden-secret', bound.slice(-43), token.slice(-43)]) {
        expect(text).not.toContain(secret)
      }
    } finally {
      await instance.close()
    }
  })
})

describe('a flood of wrong credentials from one address', () => {
  const AT = '203.0.113.40'
  const LIMITS = { failed: few(40), address: few(400) }

  /** Sends wrong credentials of every kind, over several connections, until it is stopped. */
  function startFlood(target: () => Instance, kinds: readonly (string | undefined)[]) {
    let stopped = false
    const seen = new Map<string, Set<number>>()
    const attack = async (): Promise<void> => {
      while (!stopped) {
        for (const credential of kinds) {
          const at = target()
          const instance = at.httpUrl
          // The instance that is being replaced refuses connections.
          const { status } = await call(at, credential, AT).catch(() => ({ status: 0 }))
          seen.set(instance, (seen.get(instance) ?? new Set()).add(status))
        }
      }
    }
    const attackers = Array.from({ length: 8 }, attack)
    return {
      /** Resolves once the instance refuses the flood without looking. */
      repelled: ({ httpUrl }: Instance) =>
        until(
          async () => seen.get(httpUrl),
          (statuses) => statuses?.has(429) === true,
        ),
      async stop() {
        stopped = true
        await Promise.all(attackers)
      },
    }
  }

  test('lets every right one in, at the first attempt after a restart, and those issued meanwhile', async () => {
    const [used, unused] = [await service.business(), await service.business()]
    const admin = service.client(AdminService)
    const { secret: token } = await admin.issueToken({ name: 'reader', scopes: ['read'] })
    let instance = await start(LIMITS)
    expect((await call(instance, used.key, AT)).status).toBe(404)
    const guess = 'A'.repeat(43)
    const flood = startFlood(
      () => instance,
      [
        undefined,
        'nonsense',
        wrongKey(),
        used.key.slice(0, -43) + guess,
        `it_${'0'.repeat(26)}_${guess}`,
        token.slice(0, -43) + guess,
      ],
    )
    try {
      await flood.repelled(instance)
      const old = instance
      instance = await start(LIMITS)
      await old.close()
      await flood.repelled(instance)
      const beganMs = performance.now()
      const answers = [
        (await call(instance, used.key, AT)).status,
        (await call(instance, unused.key, AT)).status,
        (await post(instance, LIST_ACCOUNTS, token, AT)).status,
        (await post(instance, LIST_ACCOUNTS, ADMIN_TOKEN, AT)).status,
      ]
      const tookMs = performance.now() - beganMs
      process.stdout.write(`four right credentials in ${Math.round(tookMs)} ms under the flood\n`)
      expect(answers).toEqual([404, 404, 200, 200])
      const { key: issued } = await service.business()
      await until(
        () => call(instance, issued, AT),
        ({ status }) => status === 404,
      )
    } finally {
      await flood.stop()
      await instance.close()
    }
  })

  test('does not spend the limit of the address, which right keys share', async () => {
    const { key } = await service.business()
    const instance = await start({ failed: few(3), address: few(6) })
    try {
      const [at, other] = ['203.0.113.41', '203.0.113.42']
      expect((await call(instance, key, at)).status).toBe(404)
      expect(await statuses(20, () => call(instance, wrongKey(), at))).toContain(429)
      expect(await statuses(20, () => call(instance, undefined, at))).toContain(429)
      expect(await statuses(6, () => call(instance, key, at))).toEqual([
        404, 404, 404, 404, 404, 429,
      ])
      // Malformed ones do not spend the look-ups of well-formed ones.
      expect(await statuses(6, () => call(instance, 'nonsense', other))).toContain(429)
      expect((await call(instance, wrongKey(), other)).status).toBe(401)
      const { key: imported } = await importedKey()
      expect((await call(instance, imported, other)).status).toBe(404)
    } finally {
      await instance.close()
    }
  })
})
