import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { KEY_SCOPES } from '../../../src/auth/caller.ts'
import { useSharedService } from '../../support/service.ts'
import { creation, golden, until } from '../rest/rest.ts'
import { type Outcome, PROTOCOLS, REST } from './protocols.ts'
import { DEAF_URL } from './scene.ts'

const service = useSharedService()

type Mode = 'live' | 'test'
const MODES = ['live', 'test'] as const
const otherOf = (mode: Mode): Mode => (mode === 'live' ? 'test' : 'live')

/** What a business has in one mode: an account of a reference of its own, and one that both share. */
interface Things {
  readonly key: string
  readonly reference: string
  /** Of its accounts. */
  readonly numbers: readonly string[]
  /** An endpoint of its events, and one of the deliveries to it with its event. */
  readonly endpointId: string
  readonly deliveryId: string
  readonly eventId: string
}

let things: Record<Mode, Things>

/** A business with a key of each mode. */
async function business(): Promise<Record<Mode, string>> {
  const { id: businessId } = await service.business()
  const businesses = service.client(BusinessService)
  const issue = async (mode: Mode) => {
    const test = mode === 'test'
    return (await businesses.issueKey({ businessId, test, scopes: [...KEY_SCOPES] })).secretKey
  }
  return { live: await issue('live'), test: await issue('test') }
}

async function open(key: string, overrides: Record<string, unknown>) {
  const { status, body } = await service.post('generateVirtualAccount/', key, creation(overrides))
  expect(status, JSON.stringify(body)).toBe(200)
  return { reference: body.data.reference, number: body.data.account[0].account_number } as {
    reference: string
    number: string
  }
}

const pay = (accountNumber: string, sessionId: string) =>
  service.client(SandboxService).simulateTransfer({ accountNumber, sessionId, amountMinor: 100n })

beforeAll(async () => {
  const keys = await business()
  const made = async (mode: Mode): Promise<Things> => {
    const key = keys[mode]
    const created = await service.post('createWebhook/', key, { url: DEAF_URL })
    const { endpoint_id: endpointId } = created.body.data
    await open(key, { reference: 'shared', firstName: mode })
    const { reference, number } = await open(key, { reference: `only-${mode}` })
    await pay(number, `session-${mode}`)
    await pay(number, 'session-shared')
    // More than is paid is expected: these payments are held.
    const expecting = await open(key, { reference: `expecting-${mode}`, amount: 5 })
    const held = [`held-${mode}`, 'accepted-shared', 'returned-shared']
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
    return { key, reference, numbers, endpointId, deliveryId, eventId }
  }
  things = { live: await made('live'), test: await made('test') }
})

type Request = Record<string, unknown>

/** Requests that name a resource of the other mode, each beside one that names an unknown resource. */
const NAMING: Readonly<Record<string, (other: Mode) => readonly (readonly [Request, Request])[]>> =
  {
    generateVirtualAccount: () => [],
    getTransaction: (other) => [[{ sessionId: `session-${other}` }, { sessionId: 'nowhere' }]],
    getVirtualAccount: (other) => [
      [{ reference: things[other].reference }, { reference: 'nowhere' }],
      [{ reference: `only-${other}` }, { reference: 'nowhere' }],
    ],
    listTransactions: (other) => [
      [{ reference: things[other].reference }, { reference: 'nowhere' }],
      [{ reference: `only-${other}` }, { reference: 'nowhere' }],
    ],
    acceptPayment: (other) => [[{ sessionId: `held-${other}` }, { sessionId: 'nowhere' }]],
    returnPayment: (other) => [[{ sessionId: `held-${other}` }, { sessionId: 'nowhere' }]],
    listHeldPayments: () => [],
    listEvents: () => [],
    getBalance: () => [],
    updateVirtualAccount: (other) => [
      [
        { reference: things[other].reference, ...PHONE },
        { reference: 'nowhere', ...PHONE },
      ],
      [
        { reference: `only-${other}`, ...PHONE },
        { reference: 'nowhere', ...PHONE },
      ],
    ],
    upgradeVirtualAccount: (other) => [
      [
        { reference: things[other].reference, bvn: '22212345678' },
        { reference: 'nowhere', bvn: '22212345678' },
      ],
      [
        { reference: `only-${other}`, bvn: '22212345678' },
        { reference: 'nowhere', bvn: '22212345678' },
      ],
    ],
    closeVirtualAccount: (other) => [
      [{ reference: things[other].reference }, { reference: 'nowhere' }],
      [{ reference: `only-${other}` }, { reference: 'nowhere' }],
    ],
    listVirtualAccounts: () => [],
    listSettlements: () => [],
    getStatement: () => [],
    createWebhook: () => [],
    listWebhooks: () => [],
    updateWebhook: ofEndpoint,
    deleteWebhook: ofEndpoint,
    testWebhook: ofEndpoint,
    listDeliveries: (other) => [
      ...ofEndpoint(other),
      [{ eventId: things[other].eventId }, { eventId: 'evt_nowhere' }],
    ],
    redeliver: (other) => [
      [{ deliveryId: things[other].deliveryId }, { deliveryId: 'dlv_nowhere' }],
    ],
    skipDelivery: (other) => [
      [{ deliveryId: things[other].deliveryId }, { deliveryId: 'dlv_nowhere' }],
    ],
    simulatePayment: (other) => [
      [
        { reference: things[other].reference, amount: '1' },
        { reference: 'nowhere', amount: '1' },
      ],
      [{ sessionId: `session-${other}` }, { sessionId: 'nowhere' }],
    ],
    requeryTransaction: (other) => [
      [{ reference: things[other].reference }, { reference: 'nowhere' }],
    ],
  }

function ofEndpoint(other: Mode): [Request, Request][] {
  return [[{ endpointId: things[other].endpointId }, { endpointId: 'ep_nowhere' }]]
}

const PHONE = { phone: '08087654321' }

/** What a key finds, by what the response must and must not contain. */
const OWN: Readonly<Record<string, (mode: Mode) => readonly Request[]>> = {
  generateVirtualAccount: (mode) => [creation({ reference: 'shared', firstName: mode })],
  getTransaction: (mode) => [{ sessionId: `session-${mode}` }, { sessionId: 'session-shared' }],
  getVirtualAccount: (mode) => [
    { reference: things[mode].reference },
    { reference: `only-${mode}` },
    { reference: 'shared' },
  ],
  listTransactions: (mode) => [{}, { reference: `only-${mode}` }],
  acceptPayment: () => [{ sessionId: 'accepted-shared' }],
  returnPayment: () => [{ sessionId: 'returned-shared' }],
  listHeldPayments: () => [{}],
  listEvents: () => [{}],
  getBalance: () => [{}],
  updateVirtualAccount: (mode) => [{ reference: `only-${mode}`, ...PHONE }],
  upgradeVirtualAccount: (mode) => [{ reference: `only-${mode}`, bvn: '22212345678' }],
  closeVirtualAccount: () => [{ reference: 'shared' }],
  listVirtualAccounts: () => [{}, { status: 'ACTIVE' }, { pageSize: 1 }],
  listSettlements: () => [{}],
  getStatement: () => [{}],
  // Each call needs a URL of its own, or an endpoint of its own.
  createWebhook: () => [],
  deleteWebhook: () => [],
  listWebhooks: () => [{}],
  updateWebhook: (mode) => [{ endpointId: things[mode].endpointId, description: mode }],
  testWebhook: (mode) => [{ endpointId: things[mode].endpointId }],
  listDeliveries: (mode) => [
    { endpointId: things[mode].endpointId },
    { eventId: things[mode].eventId },
  ],
  redeliver: (mode) => [{ deliveryId: things[mode].deliveryId }],
  // Only a pending delivery can be skipped.
  skipDelivery: () => [],
  simulatePayment: (mode) => (mode === 'live' ? [] : [{ reference: 'only-test', amount: '1' }]),
  requeryTransaction: (mode) => [{ reference: `only-${mode}` }],
}

describe.each(MODES)('a %s key sees nothing of the other mode', (mode) => {
  test.each(ThirdPartyService.methods.map((method) => [method.localName, method] as const))(
    'by %s, over any protocol',
    async (name, method) => {
      const authorization = `Bearer ${things[mode].key}`
      const other = otherOf(mode)
      for (const [protocol, call] of [...Object.entries(PROTOCOLS), ['REST', REST] as const]) {
        const ask = (request: Request) => call(service, { method, request, authorization })
        for (const [theirs, nobodys] of NAMING[name]!(other)) {
          expect([protocol, await ask(theirs)]).toEqual([protocol, await ask(nobodys)])
        }
        for (const request of OWN[name]!(mode)) {
          const outcome: Outcome = await ask(request)
          expect([protocol, outcome]).toEqual([protocol, { messages: [expect.anything()] }])
          const text = JSON.stringify(outcome)
          const { reference, numbers, endpointId } = things[other]
          const foreigners = [
            reference,
            ...numbers,
            endpointId,
            `only-${other}`,
            `session-${other}`,
          ]
          for (const foreign of [...foreigners, `held-${other}`]) {
            expect([protocol, text]).not.toEqual([protocol, expect.stringContaining(foreign)])
          }
          if (name === 'listEvents') expect(text).not.toContain(`"live":${other === 'live'}`)
        }
      }
    },
  )

  test('byte for byte', async () => {
    const { key } = things[mode]
    const other = otherOf(mode)
    for (const [path, theirs, nobodys] of [
      ['getTransaction/', { session_id: `session-${other}` }, { session_id: 'nowhere' }],
      ['getVirtualAccount/', { reference: things[other].reference }, { reference: 'nowhere' }],
      ['getVirtualAccount/', { reference: `only-${other}` }, { reference: 'nowhere' }],
    ] as const) {
      const answers = [
        await service.post(path, key, theirs),
        await service.post(path, key, nobodys),
      ]
      const [first, second] = answers.map(({ status, text }) => [status, golden(text)])
      expect(first).toEqual(second)
      expect(first?.[0]).toBe(404)
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

/** What one caller does next, in one mode. */
const step = fc.record({
  live: fc.boolean(),
  reference: fc.nat(3),
  /** Undefined: only the account. */
  session: fc.option(fc.nat(5), { nil: undefined }),
})

test('each mode keeps its own data, and its events count without a gap', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const keys = await business()
      const run = `run-${keys.live.slice(-8)}`
      const owed = { live: new Set<string>(), test: new Set<string>() }
      const paid = { live: new Set<string>(), test: new Set<string>() }
      // All at once: the same reference and the same session, in both modes.
      await Promise.all(
        steps.map(async ({ live, reference, session }) => {
          const mode: Mode = live ? 'live' : 'test'
          const { number } = await open(keys[mode], { reference: `r-${reference}` })
          owed[mode].add(number)
          if (session === undefined) return
          // One session is one payment in a mode: its account follows from it.
          const payer = await open(keys[mode], { reference: 'payer' })
          owed[mode].add(payer.number)
          await pay(payer.number, `${run}-${session}`)
          paid[mode].add(`${run}-${session}`)
        }),
      )
      for (const mode of MODES) {
        const count = owed[mode].size + paid[mode].size
        const { body } = await until(
          () => service.post('listEvents/', keys[mode], {}),
          (answer) => answer.body.data.events.length >= count,
        )
        const events: { event: string; data: Record<string, unknown> }[] = body.data.events
        expect(events.map(({ data }) => data['sequence'])).toEqual(
          Array.from({ length: count }, (_, index) => index + 1),
        )
        expect(new Set(events.map(({ data }) => data['live']))).toEqual(
          new Set(count > 0 ? [mode === 'live'] : []),
        )
        const list = await service.post('listTransactions/', keys[mode], { page_size: 200 })
        const sessions = list.body.data.transactions.map(
          (transaction: { session_id: string }) => transaction.session_id,
        )
        expect(sessions.sort()).toEqual([...paid[mode]].sort())
      }
      for (const number of owed.live) expect(owed.test.has(number)).toBe(false)
    }),
    { numRuns: 12 },
  )
})
