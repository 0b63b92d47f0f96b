import { afterEach, beforeEach, expect, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { CUSTOMER } from '../../protocols/matrix/scene.ts'
import { type Receiver, startReceiver } from '../../support/receiver.ts'
import { useSharedService } from '../../support/service.ts'

const service = useSharedService()
const webhooks = () => service.client(WebhookService)
const receivers: Receiver[] = []
let businessId: string

beforeEach(async () => {
  businessId = (await service.business()).id
})

afterEach(async () => {
  for (const receiver of receivers.splice(0)) await receiver.close()
})

async function endpoint(inTest: boolean) {
  const receiver = await startReceiver()
  receivers.push(receiver)
  const created = await webhooks().createEndpoint({ businessId, url: receiver.url, test: inTest })
  expect(created.endpoint!.live).toBe(!inTest)
  return { id: created.endpoint!.id, receiver }
}

/** Simulates a payment in a mode. @returns its session id */
async function pay(inTest: boolean): Promise<string> {
  const { account } = await service.client(AccountService).createAccount({
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_9PSB,
    test: inTest,
    ...CUSTOMER,
  })
  const transfer = { accountNumber: account!.accountNumber, amountMinor: 100n }
  return (await service.client(SandboxService).simulateTransfer(transfer)).sessionId
}

/** The events received so far: kind, mode and session or endpoint of each. */
function received({ receiver }: { receiver: Receiver }) {
  return receiver.requests.map(({ rawBody }) => {
    const { event, data } = JSON.parse(rawBody)
    return [event, data.live, data.transaction_ref ?? data.endpoint.endpoint_id]
  })
}

test('an endpoint receives only the events of its mode', async () => {
  const [live, inTest] = [await endpoint(false), await endpoint(true)]
  const sessions = { test: [await pay(true)], live: [await pay(false)] }
  sessions.test.push(await pay(true))
  sessions.live.push(await pay(false))
  await inTest.receiver.waitFor((requests) => requests.length >= 2)
  await live.receiver.waitFor((requests) => requests.length >= 2)
  const { rows } = await service.database.durablePool.query(
    `select e.live, l.live as event_live, count(*)::int from webhook_delivery d
      join webhook_endpoint e on e.id = d.endpoint_id join event_log l on l.position = d.position
      where e.business_id = $1 group by 1, 2 order by 1`,
    [businessId],
  )
  expect(rows).toEqual([
    { live: false, event_live: false, count: 2 },
    { live: true, event_live: true, count: 2 },
  ])
  expect(received(live).sort()).toEqual(
    sessions.live.map((session) => ['PAYMENT_NOTIFICATION', true, session]).sort(),
  )
  expect(received(inTest).sort()).toEqual(
    sessions.test.map((session) => ['PAYMENT_NOTIFICATION', false, session]).sort(),
  )
})

test.each([false, true])(
  'an event about an endpoint, test %s, is sent in its mode only',
  async (mode) => {
    const own = await endpoint(mode)
    const gone = await endpoint(mode)
    const other = await endpoint(!mode)
    gone.receiver.answer({ status: 410 })
    const live = !mode
    await webhooks().sendTestEvent({ endpointId: gone.id })
    await own.receiver.waitFor((requests) => requests.length === 1)
    expect(received(own)).toEqual([['ENDPOINT_DISABLED', live, gone.id]])
    expect(received(gone)).toEqual([['ENDPOINT_TEST', live, gone.id]])
    // A later event in the other mode is the first that the other endpoint receives.
    const sessionId = await pay(!mode)
    await other.receiver.waitFor((requests) => requests.length === 1)
    expect(received(other)).toEqual([['PAYMENT_NOTIFICATION', mode, sessionId]])
    // Sequence 1 is the creation of the account.
    expect(JSON.parse(other.receiver.requests[0]!.rawBody).data.sequence).toBe(2)
  },
)

test('each mode has its own limit of endpoints', async () => {
  const url = 'https://example.com/'
  for (let i = 0; i < 50; i++) await webhooks().createEndpoint({ businessId, url, test: true })
  const refused = webhooks().createEndpoint({ businessId, url, test: true })
  await expect(refused).rejects.toThrow(/at most 50 endpoints in each mode/)
  expect((await webhooks().createEndpoint({ businessId, url })).endpoint!.live).toBe(true)
})
