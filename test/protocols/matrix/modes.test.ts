import { beforeAll, describe, expect, test } from 'vitest'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { useSharedService } from '../../support/service.ts'
import { openByKey, scopedBusiness } from '../../thirdparty/scene.ts'
import { creation, until } from '../rest/rest.ts'
import { type Outcome, oneInTurn, PROTOCOLS, REST } from './protocols.ts'
import { DEAF_URL, holdPayouts } from './scene.ts'
import { TO } from './thirdparty-rows.ts'

const service = useSharedService()

type Mode = 'live' | 'test'
const MODES = ['live', 'test'] as const
const otherOf = (mode: Mode): Mode => (mode === 'live' ? 'test' : 'live')

/** The other mode, and another business. */
type Whose = Mode | 'stranger'
const othersOf = (mode: Mode): readonly Whose[] => [otherOf(mode), 'stranger']

/** What a business has in one mode: an account of a reference of its own, and one that all share. */
interface Things {
  readonly key: string
  readonly reference: string
  /** Of its accounts. */
  readonly numbers: readonly string[]
  /** An endpoint of its events, and one of the deliveries to it with its event. */
  readonly endpointId: string
  readonly deliveryId: string
  readonly eventId: string
  /** A request for a payout, which awaits an approval. */
  readonly payout: Readonly<Record<string, string>>
}

let things: Record<Whose, Things>

const pay = (accountNumber: string, sessionId: string) =>
  service.client(SandboxService).simulateTransfer({ accountNumber, sessionId, amountMinor: 100n })

beforeAll(async () => {
  const made = async (whose: Whose, businessId: string, key: string): Promise<Things> => {
    const created = await service.post('createWebhook/', key, { url: DEAF_URL })
    const { endpoint_id: endpointId } = created.body.data
    await openByKey(service, key, { reference: 'shared', firstName: whose })
    const { reference, number } = await openByKey(service, key, { reference: `only-${whose}` })
    // More than is paid is expected: these payments are held.
    const terms = { reference: `expecting-${whose}`, amount: 5 }
    const expecting = await openByKey(service, key, terms)
    const shared = (name: string) => (whose === 'stranger' ? `${name}-theirs` : `${name}-shared`)
    for (const sessionId of [`session-${whose}`, shared('session')]) await pay(number, sessionId)
    const held = [`held-${whose}`, shared('accepted'), shared('returned')]
    for (const sessionId of held) await pay(expecting.number, sessionId)
    await until(
      () => service.post('listEvents/', key, {}),
      ({ body }) => body.data.events.length === 5 + held.length,
    )
    const { body } = await until(
      () => service.post('listDeliveries/', key, { endpointId }),
      (answer) => answer.body.data.deliveries.length > 0,
    )
    const [{ delivery_id: deliveryId, event_id: eventId }] = body.data.deliveries
    const numbers = [number, expecting.number]
    const inMode = { businessId, live: whose !== 'test' }
    const { settlements } = await service
      .client(SettlementService)
      .settle({ ...inMode, force: true })
    expect(settlements).toHaveLength(1)
    const { beneficiary } = await service
      .client(PayoutService)
      .resolveAccountName({ ...inMode, ...TO })
    const accountName = beneficiary!.accountName
    const payout = { reference: `payout-${whose}`, amount: '0.10', accountName, ...TO }
    await holdPayouts(service, businessId)
    await service.client(ThirdPartyService, key).createPayout(payout)
    return { key, reference, numbers, endpointId, deliveryId, eventId, payout }
  }
  const [own, stranger] = [await scopedBusiness(service), await scopedBusiness(service)]
  things = {
    live: await made('live', own.id, own.live),
    test: await made('test', own.id, own.test),
    stranger: await made('stranger', stranger.id, stranger.live),
  }
})

type Request = Readonly<Record<string, string>>
type Naming = (other: Whose) => readonly Request[]

const byReference =
  (more: Request = {}): Naming =>
  (other) => [
    { reference: things[other].reference, ...more },
    { reference: `only-${other}`, ...more },
  ]
const byEndpoint: Naming = (other) => [{ endpointId: things[other].endpointId }]
const byDelivery: Naming = (other) => [{ deliveryId: things[other].deliveryId }]
const byHeld: Naming = (other) => [{ sessionId: `held-${other}` }]
const PHONE = { phone: '08087654321' }
const BVN = { bvn: '22212345678' }

/** Requests that name what the caller may not see. The others name nothing that exists. */
const NAMING: Readonly<Record<string, Naming>> = {
  getTransaction: (other) => [{ sessionId: `session-${other}` }],
  getVirtualAccount: byReference(),
  listTransactions: byReference(),
  acceptPayment: byHeld,
  returnPayment: byHeld,
  updateVirtualAccount: byReference(PHONE),
  upgradeVirtualAccount: byReference(BVN),
  closeVirtualAccount: byReference(),
  updateWebhook: byEndpoint,
  deleteWebhook: byEndpoint,
  testWebhook: byEndpoint,
  listDeliveries: (other) => [...byEndpoint(other), { eventId: things[other].eventId }],
  redeliver: byDelivery,
  skipDelivery: byDelivery,
  simulatePayment: (other) => [
    ...byReference({ amount: '1' })(other),
    { sessionId: `session-${other}` },
  ],
  requeryTransaction: byReference(),
  getPayout: (other) => [{ reference: `payout-${other}` }],
  cancelPayout: (other) => [{ reference: `payout-${other}` }],
  refundTransaction: (other) => [{ sessionId: `session-${other}` }],
}
const NAMES_NOTHING =
  /^(generateVirtualAccount|list(HeldPayments|Events|VirtualAccounts|Settlements|Webhooks|Banks|Payouts)|get(Balance|Statement)|createWebhook|resolveAccountName|createPayout)$/

/** The same request about what exists nowhere. */
const nowhere = (request: Request): Request =>
  Object.fromEntries(
    Object.entries(request).map(([name, value]) => [
      name,
      /^reference$|Id$/.test(name) ? 'nowhere' : value,
    ]),
  )

/** What a key finds. */
const OWN: Readonly<Record<string, (mode: Mode) => readonly Readonly<Record<string, unknown>>[]>> =
  {
    generateVirtualAccount: (mode) => [creation({ reference: 'shared', firstName: mode })],
    getTransaction: (mode) => [{ sessionId: `session-${mode}` }, { sessionId: 'session-shared' }],
    getVirtualAccount: (mode) => [...byReference()(mode), { reference: 'shared' }],
    listTransactions: (mode) => [{}, { reference: `only-${mode}` }],
    acceptPayment: () => [{ sessionId: 'accepted-shared' }],
    returnPayment: () => [{ sessionId: 'returned-shared' }],
    listHeldPayments: () => [{}],
    listEvents: () => [{}],
    getBalance: () => [{}],
    updateVirtualAccount: (mode) => [{ reference: `only-${mode}`, ...PHONE }],
    upgradeVirtualAccount: (mode) => [{ reference: `only-${mode}`, ...BVN }],
    closeVirtualAccount: () => [{ reference: 'shared' }],
    listVirtualAccounts: () => [{}, { status: 'ACTIVE' }, { pageSize: 1 }],
    listSettlements: () => [{}],
    getStatement: () => [{}],
    // Each call needs a URL of its own, or an endpoint of its own.
    createWebhook: () => [],
    deleteWebhook: () => [],
    listWebhooks: () => [{}],
    updateWebhook: (mode) => [{ endpointId: things[mode].endpointId, description: mode }],
    testWebhook: byEndpoint,
    listDeliveries: (mode) => NAMING['listDeliveries']!(mode),
    redeliver: byDelivery,
    // Only a pending delivery can be skipped.
    skipDelivery: () => [],
    simulatePayment: (mode) => (mode === 'live' ? [] : [{ reference: 'only-test', amount: '1' }]),
    requeryTransaction: (mode) => [{ reference: `only-${mode}` }],
    listBanks: () => [{ pageSize: 1 }],
    resolveAccountName: () => [TO],
    createPayout: (mode) => [things[mode].payout],
    getPayout: (mode) => [{ reference: `payout-${mode}` }],
    listPayouts: () => [{}, { status: 'PENDING_APPROVAL' }, { pageSize: 1 }],
    cancelPayout: (mode) => [{ reference: `payout-${mode}` }],
    refundTransaction: (mode) => [
      { ...things[mode].payout, sessionId: `session-${mode}`, reference: `refund-${mode}` },
    ],
  }

const METHODS = ThirdPartyService.methods.map((method) => [method.localName, method] as const)

test('every method is here', () => {
  const names = METHODS.map(([name]) => name)
  expect(names.filter((name) => NAMING[name] === undefined && !NAMES_NOTHING.test(name))).toEqual(
    [],
  )
})

describe.each(MODES)('a %s key sees nothing of the other mode, nor of another business', (mode) => {
  test.each(METHODS)('by %s', async (name, method) => {
    const authorization = `Bearer ${things[mode].key}`
    const all = [['REST', REST] as const, ...Object.entries(PROTOCOLS)]
    const protocols = oneInTurn(all, name.length)
    for (const [protocol, call] of protocols) {
      const ask = (request: Readonly<Record<string, unknown>>) =>
        call(service, { method, request, authorization })
      for (const other of othersOf(mode)) {
        for (const theirs of NAMING[name]?.(other) ?? []) {
          const expected = await ask(nowhere(theirs))
          expect([protocol, theirs, await ask(theirs)]).toEqual([protocol, theirs, expected])
        }
      }
      for (const request of OWN[name]!(mode)) {
        const outcome: Outcome = await ask(request)
        expect([protocol, outcome]).toEqual([protocol, { messages: [expect.anything()] }])
        const text = JSON.stringify(outcome)
        for (const other of othersOf(mode)) {
          const { reference, numbers, endpointId } = things[other]
          const named = ['only', 'session', 'held', 'payout'].map((what) => `${what}-${other}`)
          for (const foreign of [reference, ...numbers, endpointId, ...named]) {
            expect([protocol, text]).not.toEqual([protocol, expect.stringContaining(foreign)])
          }
        }
        if (name === 'listEvents') expect(text).not.toContain(`"live":${mode !== 'live'}`)
      }
    }
  })
})

test('a page of one mode leads to nothing of the other', async () => {
  for (const mode of MODES) {
    const page = { page_size: 1 }
    const { body } = await service.post('listTransactions/', things[mode].key, page)
    expect(body.data.next_page_token).toMatch(/./)
    const next = { ...page, page_token: body.data.next_page_token }
    const there = await service.post('listTransactions/', things[otherOf(mode)].key, next)
    for (const { nuban } of there.body.data.transactions) {
      expect(things[otherOf(mode)].numbers).toContain(nuban)
    }
  }
})
