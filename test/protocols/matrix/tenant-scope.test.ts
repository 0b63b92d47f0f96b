import type { DescMethod, JsonValue } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { SCOPES } from '../../../src/auth/caller.ts'
import { readPolicies, readPolicy, type TenantScope } from '../../../src/auth/method-policy.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { until } from '../rest/rest.ts'
import { allMethods, nameOf, type Outcome, PROTOCOLS, type Protocol } from './protocols.ts'
import { HAPPY, TAKE } from './rows.ts'
import { CUSTOMER, type Request, type Scene, setScene } from './scene.ts'

const service = useService()
const methods = (await allMethods()).filter((method) => readPolicy(method).credential === 'token')

let scene: Scene
let strangerId: string
/** Of the businesses of the scene. */
let own: string
/** Of a business that has an account, a payment into it, and its settlement. */
let stranger: string

beforeAll(async () => {
  scene = await setScene(service)
  strangerId = (await service.business('Stranger')).id
  const account = { businessId: strangerId, reference: 'theirs', bank: Bank.BANK_9PSB, ...CUSTOMER }
  const opened = await service.client(AccountService).createAccount(account)
  const { accountNumber } = opened.account!
  await service.client(SandboxService).simulateTransfer({ accountNumber, amountMinor: 700n })
  await until(
    () => service.client(SettlementService).settle({ businessId: strangerId, force: true }),
    ({ settlements }) => settlements.length === 1,
  )
  own = await issue([scene.businessId, scene.otherBusinessId])
  stranger = await issue([strangerId])
})

afterAll(() => scene?.close())

async function issue(businessIds: string[]): Promise<string> {
  const wanted = { name: 'restricted', scopes: [...SCOPES], businessIds }
  return (await service.client(AdminService).issueToken(wanted)).secret
}

const EACH = methods.map((method) => [nameOf(method), method] as const)
const SOME_PROTOCOLS: readonly Protocol[] = [
  PROTOCOLS['gRPC from grpc-js']!,
  PROTOCOLS['Connect in JSON']!,
]

async function overProtocols(
  method: DescMethod,
  request: Request,
  token: string,
  take = 1,
): Promise<Outcome[]> {
  const authorization = `Bearer ${token}`
  const calls = SOME_PROTOCOLS.map((call) =>
    call(service, { method, request, authorization, take }),
  )
  return Promise.all(calls)
}

const codesOf = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => ('messages' in outcome ? 'OK' : outcome.code))

/** Everything that a call could have changed, but for what changes by itself. */
async function everything(): Promise<unknown> {
  const { pool } = service.database
  // Events of earlier calls become deliveries by themselves.
  await until(
    () =>
      pool.query<{ quiet: boolean }>(
        `select (select count(*) from outbox) = (select count(*) from event_log)
        and (select max(position) from event_log) = (select position from webhook_dispatcher)
        as quiet`,
      ),
    ({ rows }) => rows[0]!.quiet,
    10_000,
  )
  const { rows } = await pool.query("select tablename from pg_tables where schemaname = 'public'")
  const byItself =
    /^(sequencer|webhook_dispatcher|webhook_attempt|internal_token|master_key_holder|outbox|event_.*)$/
  const found: Record<string, unknown> = {}
  for (const { tablename } of rows.filter((row) => !byItself.test(row.tablename))) {
    // Of a delivery, what sending it again changes.
    const what = tablename === 'webhook_delivery' ? "t.id || ' ' || t.schedule_from" : 't::text'
    const all = await pool.query(
      `select count(*), md5(string_agg(${what}, '|' order by ${what})) from "${tablename}" t`,
    )
    found[tablename] = all.rows[0]
  }
  return found
}

function businessesIn(value: JsonValue): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, each]) =>
    name === 'businessId' && each !== '' ? [String(each)] : businessesIn(each),
  )
}

function tenantScopeOf(method: DescMethod): TenantScope {
  const policy = readPolicy(method)
  if (policy.credential !== 'token') throw new Error(`${method.name} is not for tokens`)
  return policy.tenantScope
}

test('a service does not start with a method whose policy is missing or names no field', () => {
  readPolicies(methods)
  const [method] = methods
  expect(tenantScopeOf(method!).by).toBe('business')
  const proto = { ...method!.proto, options: undefined }
  const without = { ...method!, name: 'Unknown', proto } as unknown as DescMethod
  expect(() => readPolicies([without])).toThrow(/^inflow\.\w+\.v1\.\w+\.Unknown has no option/)
  const fieldless = { ...method!, input: { ...method!.input, fields: [] } } as unknown as DescMethod
  expect(() => readPolicies([fieldless])).toThrow(/has no scalar field business_id/)
})

describe('a token of other businesses neither sees nor moves anything', () => {
  test.each(EACH)('%s', async (name, method) => {
    const request = await HAPPY[name]!(scene, `stranger-${name}`)
    const before = await everything()
    const outcomes = await overProtocols(method, request, stranger, TAKE[name])
    expect(await everything()).toEqual(before)
    const scope = tenantScopeOf(method)
    if (scope.by === 'owned') {
      // To the letter what is said of what does not exist.
      const nobodys = Object.keys(scope.fields).map((field) => [field, 'x_nobody'])
      const missing = { ...request, ...Object.fromEntries(nobodys) }
      expect(outcomes).toEqual(await overProtocols(method, missing, ADMIN_TOKEN))
    } else if (scope.by === 'filtered' && scope.field === undefined) {
      for (const outcome of outcomes) expect(outcome).toHaveProperty('messages')
    } else {
      expect(codesOf(outcomes)).toEqual(SOME_PROTOCOLS.map(() => 'PERMISSION_DENIED'))
    }
    const text = JSON.stringify(outcomes)
    for (const id of [scene.businessId, scene.otherBusinessId]) expect(text).not.toContain(id)
  })
})

describe('naming an unknown business gets the same response as naming another', () => {
  const naming = EACH.filter(([, method]) => 'field' in tenantScopeOf(method))
  test.each(naming)('%s', async (name, method) => {
    const scope = tenantScopeOf(method) as { by: string; field: string }
    const named = (id: string) => ({ [scope.field]: scope.by === 'businesses' ? [id] : id })
    const request = await HAPPY[name]!(scene, `nobody-${name}`)
    const others = await overProtocols(method, { ...request, ...named(scene.businessId) }, stranger)
    const nobodys = await overProtocols(method, { ...request, ...named('biz_nobody') }, stranger)
    expect(nobodys).toEqual(others)
  })
})

describe('a token of the business itself', () => {
  test.each(EACH)('%s', async (name, method) => {
    const makes = await Promise.all(
      SOME_PROTOCOLS.map((_, index) =>
        HAPPY[name]!(scene, `own-${name}-${index}`.replace('.', '-')),
      ),
    )
    const before = await everything()
    const outcomes = await Promise.all(
      SOME_PROTOCOLS.map((call, index) =>
        call(service, {
          method,
          request: makes[index]!,
          authorization: `Bearer ${own}`,
          take: TAKE[name] ?? 1,
        }),
      ),
    )
    if (tenantScopeOf(method).by === 'unrestricted') {
      expect(codesOf(outcomes)).toEqual(SOME_PROTOCOLS.map(() => 'PERMISSION_DENIED'))
      expect(await everything()).toEqual(before)
    } else {
      expect(codesOf(outcomes)).toEqual(SOME_PROTOCOLS.map(() => 'OK'))
    }
  })
})

test('a restricted token resolves no account with a number, and learns of none', async () => {
  const resolve = AccountService.method.resolveAccount
  const { businessId, accountNumber: theirs } = scene
  const request = (await HAPPY[nameOf(resolve)]!(scene, 'claimed')) as Request
  const issued = await issue([businessId])
  const numbers = [theirs, '4000000001', await numberOfStranger()]
  const before = await everything()
  for (const number of numbers) {
    const claim = {
      ...request,
      resolution: { case: 'opened' as const, value: { accountNumber: number } },
    }
    for (const outcome of await overProtocols(resolve, claim, issued)) {
      expect(outcome).toMatchObject({
        code: 'PERMISSION_DENIED',
        message: 'The token is restricted to businesses, and opened needs one that is not',
      })
    }
  }
  expect(await everything()).toEqual(before)
  const [first] = SOME_PROTOCOLS
  const authorization = `Bearer ${issued}`
  expect(await first!(service, { method: resolve, request, authorization })).toHaveProperty(
    'messages',
  )
})

async function numberOfStranger(): Promise<string> {
  const { accounts } = await service.client(AccountService).listAccounts({ businessId: strangerId })
  return accounts[0]!.accountNumber
}

describe('a list of all businesses holds only the token’s own', () => {
  const filtered = EACH.filter(([, method]) => /filtered|businesses/.test(tenantScopeOf(method).by))
  test.each(filtered)('%s', async (name, method) => {
    const stream = method.methodKind === 'server_streaming'
    const request: Request = stream ? { start: { case: 'beginning', value: true } } : {}
    // The stranger's is the last event of the log: all others would come before it.
    for (const outcome of await overProtocols(method, request, stranger, 2)) {
      const messages = (outcome as { messages: JsonValue[] }).messages
      const all = name === 'BusinessService.ListBusinesses' ? [strangerId] : businessesIn(messages)
      expect(new Set(all)).toEqual(new Set([strangerId]))
      expect(JSON.stringify(messages)).not.toContain(scene.businessId)
      expect(JSON.stringify(messages)).toContain(strangerId)
    }
  })
})
