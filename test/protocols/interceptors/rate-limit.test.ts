import { Code, createClient, type Transport } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { type Instance, startInstance, startWire, type Wire } from '../../support/instance.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { PROTOCOLS } from '../matrix/protocols.ts'
import { send, until } from '../rest/rest.ts'
import { call, expectAbout, few, NONE, statuses, wrongKey } from './limited-calls.ts'

const service = useService({ RATE_LIMIT_KEY: '1000/2000', RATE_LIMIT_ADDRESS: '2000/4000' })
const businesses = () => service.client(BusinessService)

/** Instances on a database that can be taken away, which take this machine for their proxy. */
let wire: Wire
let byKey: Instance
let byAddress: Instance
let byToken: Instance

beforeAll(async () => {
  wire = await startWire(service.url)
  const start = (rateLimits: object) =>
    startInstance(wire.url, {
      trustedProxies: ['127.0.0.0/8'],
      rateLimits: { ...NONE, ...rateLimits },
      streamsPerTokenMax: 2,
    })
  byKey = await start({ key: few(5) })
  byAddress = await start({ address: few(6) })
  byToken = await start({ token: few(3) })
})

afterAll(async () => {
  for (const instance of [byKey, byAddress, byToken]) await instance?.close()
  await wire?.close()
})

const NO_LIMIT = [undefined, undefined, undefined]

describe('a key', () => {
  test('gets its limit with every response, and Retry-After beyond its burst', async () => {
    const { key } = await service.business()
    for (const remaining of [4, 3, 2, 1, 0]) {
      const answer = await call(byKey, key)
      expect(answer).toMatchObject({ status: 404, retryAfter: undefined })
      expect(answer.limit.slice(0, 2)).toEqual(['5', `${remaining}`])
      expectAbout(answer.limit[2], (5 - remaining) * 120)
    }
    const refused = await call(byKey, key)
    expect(refused).toMatchObject({ status: 429, code: 'rate_limited' })
    expectAbout(refused.retryAfter, 120)
    expect(refused.limit.slice(0, 2)).toEqual(['5', '0'])
    expectAbout(refused.limit[2], 600)
  })

  test('is refused alike over every protocol, with a retry delay', async () => {
    const { key } = await service.business()
    expect(await statuses(5, () => call(byKey, key))).not.toContain(429)
    const method = ThirdPartyService.method.getTransaction
    for (const [protocol, through] of Object.entries(PROTOCOLS)) {
      const request = { sessionId: '1' }
      const outcome = await through(byKey, { method, request, authorization: `Bearer ${key}` })
      expect([protocol, outcome]).toEqual([
        protocol,
        {
          code: 'RESOURCE_EXHAUSTED',
          reason: 'rate_limited',
          message: expect.stringMatching(/^Too many requests with this key; try again in \d+ s$/),
          violations: [],
          retryAfterSeconds: expect.any(Number),
        },
      ])
      expectAbout((outcome as { retryAfterSeconds?: number }).retryAfterSeconds, 120)
    }
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
      const { status, headers } = await send(byKey.httpUrl, {
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
    expect(await statuses(6, () => call(byKey, first.key))).toContain(429)
    expect((await call(byKey, second.key)).limit[1]).toBe('4')
    const unknown = await call(byKey, wrongKey())
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
      // A second without a call gives one more.
      expect(await statuses(12, () => call(service, each))).toContain(429)
    }
    await businesses().updateBusiness({ businessId: id, rateLimitPerSecond: 0 })
    const again = await until(
      () => call(service, key),
      ({ status }) => status === 404,
    )
    expect(again.limit[0]).toBe('2000')
  })

  test('has a default burst of twice its rate', async () => {
    const { id, key } = await service.business()
    await businesses().updateBusiness({ businessId: id, rateLimitPerSecond: 700 })
    expect((await call(service, key)).limit[0]).toBe('1400')
  })

  test.each([
    [{ rateLimitPerSecond: -1 }, 'rateLimitPerSecond'],
    [{ rateLimitPerSecond: 1_000_001 }, 'rateLimitPerSecond'],
    [{ rateLimitBurst: 5 }, 'rateLimitBurst'],
    [{ rateLimitPerSecond: 0, rateLimitBurst: 5 }, 'rateLimitBurst'],
    [{ rateLimitPerSecond: 2, rateLimitBurst: 121 }, 'rateLimitBurst'],
    [{ rateLimitPerSecond: 2, rateLimitBurst: -1 }, 'rateLimitBurst'],
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
    const keys = [(await service.business()).key, (await service.business()).key]
    for (const addresses of [
      ['203.0.113.1', '::ffff:203.0.113.1'],
      ['2001:db8:1:2::1', '2001:DB8:1:2:ffff::9'],
    ]) {
      const seen: number[] = []
      for (let each = 0; each < 7; each++) {
        const answer = await call(byAddress, keys[each % 2], addresses[each % 2])
        seen.push(answer.status)
        if (each === 6) {
          expect(answer.code).toBe('rate_limited')
          expectAbout(answer.retryAfter, 100)
        }
      }
      expect(seen).toEqual([404, 404, 404, 404, 404, 404, 429])
    }
    expect((await call(byAddress, keys[0], '203.0.113.2')).status).toBe(404)
    expect((await call(byAddress, keys[0], '2001:db8:1:3::1')).status).toBe(404)
  })

  test('is limited without a credential, too', async () => {
    const seen = await statuses(7, () => call(byAddress, undefined, '203.0.113.3'))
    expect(seen).toEqual([401, 401, 401, 401, 401, 401, 429])
  })

  test('of this machine has no limit, nor have internal services', async () => {
    const { id, key } = await service.business()
    expect(await statuses(20, () => call(byAddress, key))).not.toContain(429)
    const method = BusinessService.method.getBusiness
    for (let each = 0; each < 20; each++) {
      const authorization = `Bearer ${ADMIN_TOKEN}`
      const request = { businessId: id }
      const outcome = await PROTOCOLS['Connect in JSON']!(byAddress, {
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
    PROTOCOLS['Connect in JSON']!(byToken, { method, request: { businessId: id }, authorization })
  expect(await list()).toHaveProperty('messages')
  await wire.cut()
  try {
    expect(await list()).toMatchObject({ reason: 'unavailable' })
    expect(await list()).toMatchObject({ reason: 'unavailable' })
    expect(await list()).toMatchObject({ reason: 'rate_limited' })
  } finally {
    await wire.mend()
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
    const grpc = createGrpcTransport({ baseUrl: byAddress.grpcUrl })
    const connect = createConnectTransport({ baseUrl: byAddress.httpUrl, httpVersion: '1.1' })
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

test('health, readiness and metrics have no limit', async () => {
  for (const path of ['healthz', 'readyz', 'metrics']) {
    for (let each = 0; each < 20; each++) {
      const answer = await fetch(`${byAddress.httpUrl}/${path}`, {
        headers: { 'x-forwarded-for': '203.0.113.20' },
      })
      expect(answer.status).toBe(200)
      await answer.text()
    }
  }
})

test('two instances together admit as much as one', async () => {
  const start = () => startInstance(service.url, { rateLimits: { ...NONE, key: few(8) } })
  const instances = [await start(), await start()] as const
  const { durablePool } = service.database
  // test/auth/rate-limits/many-callers has how exactly they share.
  const shared = (most: number) =>
    waitFor(async () => {
      const { rows } = await durablePool.query('select tokens from rate_bucket where burst = 8')
      expect(rows).toEqual([{ tokens: expect.toSatisfy((tokens) => Number(tokens) < most) }])
    })
  try {
    const { key } = await service.business()
    const [first, second] = instances
    expect(await statuses(8, () => call(first, key))).not.toContain(429)
    await shared(0.5)
    expect((await call(second, key)).status).toBe(404)
    await shared(-0.5)
    let admitted = 1
    await until(
      () => call(second, key),
      ({ status }) => status === 429 || ++admitted > 8,
    )
    expect(admitted).toBeLessThan(8)
  } finally {
    for (const instance of instances) await instance.close()
  }
})
