import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { type Instance, startInstance, startWire, type Wire } from '../../support/instance.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { PROTOCOLS } from '../matrix/protocols.ts'
import { asJson, GET_TRANSACTION, send, until } from '../rest/rest.ts'
import { call, expectAbout, few, NONE, statuses, wrongKey } from './limited-calls.ts'

const service = useService()
const businesses = () => service.client(BusinessService)

/** On a database that can be taken away. Takes this machine for its proxy. */
let wire: Wire
let byFailure: Instance

const start = (rateLimits: object) =>
  startInstance(wire.url, {
    trustedProxies: ['127.0.0.0/8'],
    rateLimits: { ...NONE, ...rateLimits },
  })

beforeAll(async () => {
  wire = await startWire(service.url)
  byFailure = await start({ failed: few(4) })
})

afterAll(async () => {
  await byFailure?.close()
  await wire?.close()
})

const LIST_ACCOUNTS = '/inflow.account.v1.AccountService/ListAccounts'

/** A call without fields, from an address that the proxy vouches for. */
const post = (at: { httpUrl: string }, path: string, credential: string, address: string) =>
  send(at.httpUrl, {
    path,
    headers: { ...asJson(credential), 'x-forwarded-for': address },
    body: '{}',
  })

describe('wrong keys', () => {
  test('are refused by address without a look-up', async () => {
    const at = '203.0.113.10'
    const seen = await statuses(5, () => call(byFailure, wrongKey(), at))
    expect(seen).toEqual([401, 401, 401, 401, 429])
    await wire.cut()
    try {
      const refused = await call(byFailure, wrongKey(), at)
      expect(refused).toMatchObject({ status: 429, code: 'rate_limited' })
      expectAbout(refused.retryAfter, 150)
      // From elsewhere it is looked up, and so cannot be answered.
      expect((await call(byFailure, wrongKey(), '203.0.113.11')).status).toBe(503)
    } finally {
      await wire.mend()
    }
  })

  test('do not lock out a key that was valid before, at the same address', async () => {
    const at = '203.0.113.12'
    const [known, fresh] = [await service.business(), await service.business()]
    expect((await call(byFailure, known.key, at)).status).toBe(404)
    expect(await statuses(6, () => call(byFailure, wrongKey(), at))).toContain(429)
    expect(await statuses(6, () => call(byFailure, known.key, at))).not.toContain(429)
    expect((await call(byFailure, fresh.key, '203.0.113.13')).status).toBe(404)
    // Once revoked, it is as wrong as any.
    const { keys } = await businesses().listKeys({ businessId: known.id })
    await businesses().revokeKey({ keyId: keys[0]!.id })
    const refused = await until(
      () => call(byFailure, known.key, at),
      ({ status }) => status !== 404,
    )
    expect(refused.status).toBe(401)
    expect((await call(byFailure, known.key, at)).status).toBe(429)
  })

  test('do not lock out a valid key that was once used for a token method', async () => {
    const at = '203.0.113.14'
    const { key } = await service.business()
    expect((await call(byFailure, key, at)).status).toBe(404)
    expect((await post(byFailure, LIST_ACCOUNTS, key, at)).status).toBe(401)
    expect((await call(byFailure, key, at)).status).toBe(404)
    expect(await statuses(6, () => call(byFailure, wrongKey(), at))).toContain(429)
    expect(await statuses(6, () => call(byFailure, key, at))).not.toContain(429)
  })

  test('are counted over every protocol, like tokens; a call without a credential is not', async () => {
    expect(await statuses(10, () => call(byFailure, undefined))).not.toContain(429)
    const method = AccountService.method.listAccounts
    const codes: unknown[] = []
    for (const through of Object.values(PROTOCOLS)) {
      for (let each = 0; each < 2; each++) {
        const authorization = 'Bearer no-token-of-ours'
        codes.push(await through(byFailure, { method, request: {}, authorization }))
      }
    }
    expect(codes.slice(0, 4)).not.toContainEqual(
      expect.objectContaining({ reason: 'rate_limited' }),
    )
    for (const outcome of codes.slice(4)) {
      expect(outcome).toMatchObject({ code: 'RESOURCE_EXHAUSTED', reason: 'rate_limited' })
    }
    // These were malformed; a well-formed credential is still looked up.
    expect(await call(byFailure, wrongKey())).toMatchObject({ status: 401 })
  })
})

describe('the log of refused calls', () => {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) })
  const lineOf = (requestId: string | undefined) =>
    lines.find((line) => line['request_id'] === requestId)

  test('names the address, and the key, token or claimed id, and never a secret', async () => {
    const instance = await startInstance(wire.url, { trustedProxies: ['127.0.0.0/8'] }, log)
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
        ...[404, 404, 404, 404, 404],
        429,
      ])
      // Malformed ones do not spend the look-ups of well-formed ones.
      expect(await statuses(6, () => call(instance, 'nonsense', other))).toContain(429)
      expect((await call(instance, wrongKey(), other)).status).toBe(401)
    } finally {
      await instance.close()
    }
  })
})
