import { create, type DescMethod } from '@bufbuild/protobuf'
import { createContextValues } from '@connectrpc/connect'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { SCOPES, type Scope } from '../../../src/auth/caller.ts'
import { readPolicies, readPolicy } from '../../../src/auth/method-policy.ts'
import { Fault } from '../../../src/core/errors.ts'
import { authentication } from '../../../src/server/interceptors/authentication.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { until } from '../rest/rest.ts'
import { allMethods, nameOf, type Outcome, protocolsOf } from './protocols.ts'
import { HAPPY, SCOPE_SERVICES } from './rows.ts'
import { type Scene, setScene } from './scene.ts'

// All that is refused here comes from one address.
const service = useService({ RATE_LIMIT_FAILED: 'off' })
const methods = await allMethods()

let scene: Scene
let credentials: Record<string, string | undefined>

beforeAll(async () => {
  scene = await setScene(service)
  const other = await service.business('Other')
  const businesses = service.client(BusinessService)
  const revoked = await businesses.issueKey({ businessId: scene.businessId })
  await businesses.revokeKey({ keyId: revoked.key!.id })
  await until(
    () => service.post('listEvents/', revoked.secretKey, {}),
    (answer) => answer.status === 401,
  )
  const expired = await businesses.issueKey({ businessId: scene.businessId })
  const expiredToken = await issue({ name: 'expired', scopes: ['admin'] })
  const revokedToken = await issue({ name: 'revoked', scopes: ['admin'] })
  const { pool } = service.database
  const ended = "expires_at = now() - interval '1 s' where id = $1"
  await pool.query(`update api_key set ${ended}`, [expired.key!.id])
  await pool.query(`update internal_token set ${ended}`, [expiredToken.token!.id])
  await service.client(AdminService).revokeToken({ tokenId: revokedToken.token!.id })
  credentials = {
    none: undefined,
    empty: '',
    'the scheme alone': 'Bearer ',
    garbage: 'Bearer garbage',
    'an unknown key': `Bearer sk_live_${'0'.repeat(26)}_${'A'.repeat(43)}`,
    'a revoked key': `Bearer ${revoked.secretKey}`,
    'an expired key': `Bearer ${expired.secretKey}`,
    'an unknown token': `Bearer it_${'0'.repeat(26)}_${'A'.repeat(43)}`,
    'a malformed token': `Bearer it_${'0'.repeat(26)}_short`,
    'a revoked token': `Bearer ${revokedToken.secret}`,
    'an expired token': `Bearer ${expiredToken.secret}`,
    'a token of the right id and another secret': `Bearer ${forged(expiredToken.secret)}`,
    'a key of another scheme': `Basic ${scene.key}`,
    'a key without a scheme': scene.key,
    'a token of another scheme': `Token ${ADMIN_TOKEN}`,
    'a token without a scheme': ADMIN_TOKEN,
    'a token and more': `Bearer ${ADMIN_TOKEN}x`,
    'a token but for its end': `Bearer ${ADMIN_TOKEN.slice(0, -1)}`,
    'a business key': `Bearer ${scene.key}`,
    "another business's key": `Bearer ${other.key}`,
    'the admin token': `Bearer ${ADMIN_TOKEN}`,
  }
  for (const scope of SCOPES) {
    const { secret } = await issue({ name: scope, scopes: [scope] })
    credentials[`a token of scope ${scope}`] = `Bearer ${secret}`
  }
  const restricted = { name: 'restricted', scopes: [...SCOPES], businessIds: [scene.businessId] }
  credentials['a restricted token'] = `Bearer ${(await issue(restricted)).secret}`
})

afterAll(() => scene?.close())

const issue = (wanted: { name: string; scopes: string[]; businessIds?: string[] }) =>
  service.client(AdminService).issueToken(wanted)

/** The same token, but for its random part. */
const forged = (secret: string) => secret.slice(0, -43) + 'A'.repeat(43)

const BUSINESS_KEYS = ['a business key', "another business's key"]
const TOKENS = [
  'the admin token',
  ...SCOPES.map((scope) => `a token of scope ${scope}`),
  'a restricted token',
]

const DENIED = { code: 'PERMISSION_DENIED', reason: 'permission_denied' }

/** Whether the scopes of one of TOKENS open a method. */
function allows(kind: string, method: DescMethod, scopes: readonly Scope[]): boolean {
  const scope = /^a token of scope (.+)$/.exec(kind)?.[1] as Scope | undefined
  if (scope === undefined || scope === 'admin') return true
  expect(SCOPE_SERVICES[scope].test(nameOf(method))).toBe(scopes.includes(scope))
  return scopes.includes(scope)
}

/** Whether the call got as far as the method, whatever came of it there. */
function opened(outcome: Outcome): boolean {
  return 'messages' in outcome || outcome.code !== 'UNAUTHENTICATED'
}

describe('only the credential of its policy opens an rpc, over every protocol', () => {
  test.each(methods.map((method) => [nameOf(method), method] as const))(
    '%s',
    async (name, method) => {
      const policy = readPolicy(method)
      const opens = policy.credential === 'secret key' ? BUSINESS_KEYS : TOKENS
      for (const [protocol, call] of protocolsOf(method)) {
        const outcomes = await Promise.all(
          Object.entries(credentials).map(async ([kind, authorization]) => {
            // An empty request: only an accepted caller gets the error about required fields.
            const outcome = await call(service, { method, request: {}, authorization })
            return [kind, outcome] as const
          }),
        )
        const open = outcomes.filter(([, outcome]) => opened(outcome)).map(([kind]) => kind)
        expect([protocol, open]).toEqual([protocol, opens])
        for (const [kind, outcome] of outcomes) {
          if (opens.includes(kind)) {
            const allowed =
              policy.credential === 'secret key' || allows(kind, method, policy.scopes)
            // An empty request is refused for what it lacks before it is for whose it is.
            if (!allowed) expect([protocol, kind, outcome]).toMatchObject([protocol, kind, DENIED])
            else if (kind !== 'a restricted token') {
              expect([protocol, kind, outcome]).not.toMatchObject([protocol, kind, DENIED])
            }
            continue
          }
          const what = policy.credential
          expect([protocol, kind, outcome]).toEqual([
            protocol,
            kind,
            {
              code: 'UNAUTHENTICATED',
              reason: 'unauthorized',
              message: `A valid ${what} is required: Authorization: Bearer <${what}>`,
              violations: [],
              retryAfterSeconds: undefined,
            },
          ])
        }
      }
      expect(HAPPY[name], 'rows.ts has a row').toBeDefined()
    },
  )
})

describe('scopes', () => {
  const opensFor = async (method: DescMethod, scopes: readonly Scope[]): Promise<boolean> => {
    const interceptor = authentication(
      {
        secretKey: async () => undefined,
        token: async () => ({ kind: 'internal', tokenId: 't', name: 't', scopes: new Set(scopes) }),
      },
      readPolicies(methods),
    )
    let called = false
    const request = {
      stream: false as const,
      service: method.parent,
      method,
      requestMethod: 'POST',
      url: '',
      signal: new AbortController().signal,
      header: new Headers({ authorization: 'Bearer token' }),
      contextValues: createContextValues(),
      message: create(method.input),
    }
    try {
      await interceptor(async () => {
        called = true
        return {} as never
      })(request as never)
    } catch (error) {
      expect(error).toBeInstanceOf(Fault)
      expect((error as Fault).reason).toMatch(/^(permission_denied|unauthorized)$/)
    }
    return called
  }

  const internal = methods.filter((method) => readPolicy(method).credential === 'token')

  test.each(SCOPES)('%s allows its methods and no others', async (scope) => {
    for (const method of internal) {
      const name = nameOf(method)
      const open = await opensFor(method, [scope])
      if (open) expect(name).toMatch(SCOPE_SERVICES[scope])
      if (scope === 'read' && open) expect([name, method.idempotency]).toEqual([name, 1])
      if (scope === 'admin') expect([name, open]).toEqual([name, true])
    }
  })

  test('read allows every rpc without side effects, and each stream needs its scope', async () => {
    for (const method of internal.filter((each) => each.idempotency === 1)) {
      expect([nameOf(method), await opensFor(method, ['read'])]).toEqual([nameOf(method), true])
    }
  })

  test('a token without scopes allows nothing, and no token allows a business’s rpc', async () => {
    for (const method of methods) {
      const scopes = internal.includes(method) ? [] : SCOPES
      expect([nameOf(method), await opensFor(method, scopes)]).toEqual([nameOf(method), false])
    }
  })
})
