import type { DescMethod, JsonValue } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { Resource } from '../../../gen/inflow/auth/v1/policy_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { PauseScope } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { SCOPES } from '../../../src/auth/caller.ts'
import { CUSTOMER } from '../../support/opened-account.ts'
import { ADMIN_TOKEN, issueToken, useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { until } from '../rest/rest.ts'
import { type Asked, confinedVerdict, confinementOf, isForTokens, type Verdict } from './oracle.ts'
import { allMethods, nameOf, oneInTurn, PROTOCOLS } from './protocols.ts'
import { HAPPY, TAKE } from './rows.ts'
import {
  DEAF_URL,
  holdPayouts,
  openAccount,
  PAYOUT_REFERENCE,
  type Request,
  requestPayout,
  type Scene,
  setScene,
  settleOnce,
} from './scene.ts'
import { snapshotOf } from './snapshot.ts'
import { type WireOutcome, wireProtocolsOf } from './wire.ts'

const service = useService()
const methods = (await allMethods()).filter(isForTokens)
const EACH = methods.map((method) => [nameOf(method), method] as const)

let scene: Scene
let strangerId: string
/** Of the businesses of the scene. */
let own: string
/** Of a business that has called the API, and has an account, a payment into it and its settlement, and a held payment. */
let stranger: string
/** A resource of the scene's businesses, of each kind. */
let resources: Readonly<Record<Resource, string>>
/** Requests about the scene's businesses that would succeed. */
const requests = new Map<DescMethod, Request>()

beforeAll(async () => {
  scene = await setScene(service)
  const { id, key } = await service.business('Stranger')
  strangerId = id
  await service.post('getBalance/', key, {})
  await until(
    () => service.client(BusinessService).listApiRequests({ businessId: id }),
    ({ requests: logged }) => logged.length === 1,
  )
  const theirs = { service, businessId: strangerId }
  const { accountNumber } = await openAccount(theirs, 'theirs')
  await service.client(SandboxService).simulateTransfer({ accountNumber, amountMinor: 700n })
  // And one that is held.
  const held = await openAccount(theirs, 'expecting', { amountMinor: 800n })
  const short = { accountNumber: held.accountNumber, amountMinor: 700n }
  await service.client(SandboxService).simulateTransfer(short)
  await settleOnce(service, strangerId)
  await holdPayouts(service, strangerId)
  await requestPayout(service, strangerId)
  const pause = { scope: PauseScope.BUSINESS, businessId: strangerId, reason: 'x' }
  await service.client(PayoutService).pausePayouts(pause)
  const endpoint = { businessId: strangerId, url: DEAF_URL }
  await service.client(WebhookService).createEndpoint(endpoint)
  own = (await issueToken(service, SCOPES, [scene.businessId, scene.otherBusinessId])).secret
  stranger = (await issueToken(service, SCOPES, [strangerId])).secret
  for (const [name, method] of EACH) {
    requests.set(method, await HAPPY[name]!(scene, `stranger-${name}`.replace('.', '-')))
  }
  resources = await findResources()
  await service.client(SessionService).createPortalLink({ businessId: strangerId })
})

afterAll(() => scene?.close())

async function findResources(): Promise<Record<Resource, string>> {
  const idOf = async (query: string, value: string) =>
    (await service.database.durablePool.query<{ id: string }>(query, [value])).rows[0]!.id
  const { businessId, endpointId, deliveryId, revokedKeyId } = scene
  return {
    [Resource.UNSPECIFIED]: '',
    [Resource.KEY]: revokedKeyId,
    [Resource.ENDPOINT]: endpointId,
    [Resource.DELIVERY]: deliveryId,
    [Resource.EVENT]: await idOf(
      `select event_id as id from event_log
        where position = (select position from webhook_delivery where id = $1)`,
      deliveryId,
    ),
    [Resource.BUSINESS]: businessId,
    [Resource.TRANSACTION]: await idOf(
      'select id from transaction where business_id = $1 limit 1',
      businessId,
    ),
    [Resource.PORTAL_LINK]: scene.portalLinkId,
    [Resource.PAYOUT]: scene.payoutId,
  }
}

/** What names a resource together with a field. */
const BESIDE: Readonly<Record<string, Request>> = {
  'PayoutService.GetPayout businessId': { reference: PAYOUT_REFERENCE },
}

async function ask(method: DescMethod, request: Request, token: string) {
  const authorization = `Bearer ${token}`
  const protocols = oneInTurn(wireProtocolsOf(method), methods.indexOf(method))
  return Promise.all(
    protocols.map(async ([protocol, call]) => {
      return [protocol, await call(service, { method, request, authorization })] as const
    }),
  )
}

function expectCode(outcomes: readonly (readonly [string, WireOutcome])[], verdict: Verdict) {
  for (const [protocol, { code }] of outcomes) expect([protocol, code]).toEqual([protocol, verdict])
}

/** A request that names businesses as asked, in the field by which the method is confined. */
function asking(method: DescMethod, asked: Asked): Request {
  const { rule, field } = confinementOf(method)
  const request = requests.get(method)!
  if (field === undefined) return request
  const ids = { own: [strangerId], foreign: [scene.businessId], none: [], both: [] as string[] }
  const named = asked === 'both' ? [strangerId, scene.businessId] : ids[asked]
  return { ...request, [field]: rule === 'businesses' ? named : (named[0] ?? '') }
}

describe('a restricted token neither sees nor moves anything of other businesses', () => {
  let before: unknown
  beforeAll(async () => {
    before = await snapshotOf(service)
  })

  test.each(EACH)('%s', async (_name, method) => {
    const { rule, field, owned } = confinementOf(method)
    const asked: Asked[] = rule === 'businesses' ? ['foreign', 'both', 'none'] : ['foreign', 'none']
    for (const each of rule === 'owned' ? [] : asked) {
      const verdict = confinedVerdict(method, each)
      if (verdict === 'OPEN') continue
      const outcomes = await ask(method, asking(method, each), stranger)
      expectCode(outcomes, verdict)
      for (const [, { bytes }] of outcomes) expect(bytes).not.toContain(scene.businessId)
    }
    if (rule === 'refused') {
      expectCode(await ask(method, requests.get(method)!, own), 'PERMISSION_DENIED')
    }
    // Every field by which a business or a resource can be named: another's is as an unknown one.
    if (field !== undefined) {
      const naming = (id: string) => ({ [field]: rule === 'businesses' ? [id] : id })
      const request = requests.get(method)!
      const unknown = await ask(method, { ...request, ...naming('biz_unknown') }, stranger)
      const found = await ask(method, { ...request, ...naming(scene.businessId) }, stranger)
      expect(found).toEqual(unknown)
    }
    for (const { field: name, resource } of owned) {
      const alone = Object.fromEntries(owned.map((each) => [each.field, '']))
      const naming = (id: string) => ({
        ...requests.get(method)!,
        ...alone,
        [name]: id,
        ...BESIDE[`${nameOf(method)} ${name}`],
      })
      const foreign = await ask(method, naming(resources[resource]!), stranger)
      for (const token of [stranger, ADMIN_TOKEN]) {
        expect([name, foreign]).toEqual([name, await ask(method, naming('x_unknown'), token)])
      }
      for (const [, { bytes }] of foreign) expect(bytes).not.toContain(scene.businessId)
    }
  })

  test('and changes nothing', async () => {
    expect(await snapshotOf(service)).toEqual(before)
  })
})

describe('a resource can be named by its own token', () => {
  const reading = EACH.filter(([, method]) => method.idempotency === 1)
  const named = reading.flatMap(([name, method]) =>
    confinementOf(method).owned.map((owned) => ({ name, method, ...owned })),
  )
  test.each(named)('$name by $field', async ({ name, method, field, resource }) => {
    const beside = BESIDE[`${name} ${field}`]
    const request = { [field]: resources[resource], ...beside }
    // A delivery may be attempted between two calls.
    const found = await waitFor(async () => {
      const mine = await ask(method, request, own)
      expectCode(mine, 'OK' as Verdict)
      // These say less to restricted tokens: see test/overview and test/payouts.
      if (!['OverviewService.GetTimeline', 'PayoutService.GetPayout'].includes(name)) {
        expect(mine).toEqual(await ask(method, request, ADMIN_TOKEN))
      }
      return mine
    })
    expect(found).not.toEqual(await ask(method, { [field]: 'x_unknown', ...beside }, own))
  })
})

const SOME_PROTOCOLS = [PROTOCOLS['gRPC from grpc-js']!, PROTOCOLS['Connect in JSON']!]

test.each(EACH)(
  '%s is open to a token of the business itself, as its policy says',
  async (name, method) => {
    const request = await HAPPY[name]!(scene, `own-${name}`.replace('.', '-'))
    const call = { method, request, authorization: `Bearer ${own}`, take: TAKE[name] ?? 1 }
    const outcome = await SOME_PROTOCOLS[methods.indexOf(method) % 2]!(service, call)
    const code = 'messages' in outcome ? 'OPEN' : outcome.code
    expect(code).toBe(confinedVerdict(method, 'own'))
  },
)

test('a restricted token resolves no account with a number, and learns of none', async () => {
  const resolve = AccountService.method.resolveAccount
  const { accountNumber: theirs } = scene
  const authorization = `Bearer ${own}`
  const request = (await HAPPY[nameOf(resolve)]!(scene, 'claimed')) as Request
  const numbers = [theirs, '4000000001', await numberOfStranger()]
  const before = await snapshotOf(service)
  for (const number of numbers) {
    const claim = {
      ...request,
      resolution: { case: 'opened' as const, value: { accountNumber: number } },
    }
    for (const call of SOME_PROTOCOLS) {
      const outcome = await call(service, { method: resolve, request: claim, authorization })
      expect(outcome).toMatchObject({
        code: 'PERMISSION_DENIED',
        message: 'The token is restricted to businesses; only an unrestricted token may set opened',
      })
    }
  }
  expect(await snapshotOf(service)).toEqual(before)
  const [first] = SOME_PROTOCOLS
  expect(await first!(service, { method: resolve, request, authorization })).toHaveProperty(
    'messages',
  )
})

async function numberOfStranger(): Promise<string> {
  const { accounts } = await service.client(AccountService).listAccounts({ businessId: strangerId })
  return accounts[0]!.accountNumber
}

describe('a list of all businesses holds only the token’s own', () => {
  const lists = EACH.filter(([, method]) =>
    /filter|businesses/.test(confinementOf(method).rule),
  ).filter(([name]) => !NAME_NO_BUSINESS.has(name))
  test.each(lists)('%s', async (name, method) => {
    expect(confinedVerdict(method, 'none')).toBe('OPEN')
    const stream = method.methodKind === 'server_streaming'
    const request: Request = stream
      ? { start: { case: 'beginning', value: true } }
      : (NEEDED[name] ?? {})
    const authorization = `Bearer ${stranger}`
    const call = SOME_PROTOCOLS[methods.indexOf(method) % 2]!
    // The stranger's is the last event of the log: all others would come before it.
    const outcome = await call(service, { method, request, authorization, take: 2 })
    const messages = (outcome as { messages: JsonValue[] }).messages
    const all = name === 'BusinessService.ListBusinesses' ? [strangerId] : businessesIn(messages)
    expect(new Set(all)).toEqual(new Set([strangerId]))
    expect(JSON.stringify(messages)).not.toContain(scene.businessId)
    expect(JSON.stringify(messages)).toContain(strangerId)
  })
})

/**
 * The catalogue is the same for all, and some are about the caller; test/webhooks/lists, test/settlement/calendar,
 * test/transactions/summarize and test/overview look at the sums.
 */
const NAME_NO_BUSINESS: ReadonlySet<string> = new Set([
  'WebhookService.ListEventKinds',
  'OverviewService.GetOverview',
  'SessionService.GetCaller',
  'SessionService.CreateSignInCode',
  'PayoutService.ListBanks',
  'WebhookService.GetEndpointStatistics',
  'SettlementService.GetSettlementCalendar',
  'TransactionService.SummarizeTransactions',
])

/** What a list of all businesses needs. */
const NEEDED: Readonly<Record<string, Request>> = {
  'TransactionService.ListTransactions': { live: true },
  // The customers of all businesses have one address.
  'OverviewService.Search': { query: CUSTOMER.email },
}

function businessesIn(value: JsonValue): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, each]) =>
    name === 'businessId' && each !== '' ? [String(each)] : businessesIn(each),
  )
}
