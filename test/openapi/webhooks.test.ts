import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  approveRecipient,
  data,
  openByKey,
  type ScopedBusiness,
  scopedBusiness,
} from '../thirdparty/scene.ts'
import { document, faultsAt } from './document.ts'

const service = useSharedService()
let business: ScopedBusiness
let seller: ScopedBusiness
let receiver: Receiver

beforeAll(async () => {
  business = await scopedBusiness(service)
  seller = await scopedBusiness(service)
  await approveRecipient(service, business.id, seller.id)
  receiver = await startReceiver()
})

afterAll(() => receiver?.close())

/** Recorded after days or by earlier versions: they have examples only. */
const SLOW = ['ENDPOINT_FAILING', 'ENDPOINT_DISABLED', 'PAYMENT_ACCEPTED']

test('the webhooks that a receiver gets are as the document states them', async () => {
  const { live: key } = business
  const kinds = Object.keys(document.webhooks).filter((kind) => kind !== 'ENDPOINT_TEST')
  const created = await data(service, key, 'createWebhook', {
    url: receiver.url,
    kinds,
  })
  const sold = await data(service, seller.live, 'createWebhook', { url: `${receiver.url}?seller` })
  await data(service, key, 'testWebhook', { endpointId: created.endpoint_id })
  const split = { recipients: [{ businessId: seller.id, percentage: '20' }] }
  const { number } = await openByKey(service, key, {
    reference: 'w-1',
    split,
    metadata: { a: 'b' },
  })
  const pay = (accountNumber: string, sessionId: string, amountMinor: bigint) =>
    service.client(SandboxService).simulateTransfer({ accountNumber, sessionId, amountMinor })
  await pay(number, 'w-session-1', 150_050n)
  await service.client(SettlementService).settle({ businessId: business.id, force: true })
  const client = service.client(TransactionService)
  const { transaction } = await client.getTransaction({
    businessId: business.id,
    sessionId: 'w-session-1',
  })
  await client.reverseTransaction({ transactionId: transaction!.id, reason: 'test' })
  const oneTime = await openByKey(service, key, {
    reference: 'w-2',
    amount: '2000',
    singleUse: true,
  })
  await pay(oneTime.number, 'w-session-2', 150_050n)
  await pay(oneTime.number, 'w-session-3', 150_050n)
  await data(service, key, 'acceptPayment', { session_id: 'w-session-2' })
  await data(service, key, 'returnPayment', { session_id: 'w-session-3' })
  await data(service, key, 'closeVirtualAccount', { reference: 'w-1' })
  const expected = Object.keys(document.webhooks).filter((kind) => !SLOW.includes(kind))
  const received = () => new Set(receiver.requests.map(({ rawBody }) => JSON.parse(rawBody).event))
  await waitFor(() => expect([...received()].sort()).toEqual([...expected].sort()))
  for (const request of receiver.requests) {
    judge(request)
    const isSellers = request.path.includes('seller')
    expect(isGenuine(request, isSellers ? sold.secret : created.secret)).toBe(true)
    expect(isGenuine({ ...request, rawBody: `${request.rawBody} ` }, created.secret)).toBe(false)
  }
})

/** Verifies a webhook step by step as the document says, without a library. */
function isGenuine({ headers, rawBody }: ReceivedRequest, secret: string): boolean {
  const timestamp = `${headers['webhook-timestamp']}`
  if (Math.abs(Date.now() / 1_000 - Number(timestamp)) > 300) return false
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signed = `${headers['webhook-id']}.${timestamp}.${rawBody}`
  const result = createHmac('sha256', key).update(signed).digest('base64')
  return `${headers['webhook-signature']}`.split(' ').includes(`v1,${result}`)
}

function judge({ rawBody, headers }: ReceivedRequest): void {
  const body = JSON.parse(rawBody)
  const { parameters } = document.webhooks[body.event].post
  for (const { $ref } of parameters) {
    const { name } = document.components.parameters[$ref.split('/').at(-1)]
    expect([body.event, name, typeof headers[name]]).toEqual([body.event, name, 'string'])
  }
  const signing = Object.keys(headers).filter((name) => /^(webhook|x-wiaxy)-/.test(name))
  expect(signing.sort()).toEqual(Object.keys(document.components.parameters).sort())
  const place = ['webhooks', body.event, 'post', 'requestBody', 'content', 'application/json']
  expect([body.event, faultsAt([...place, 'schema'], body)], rawBody).toEqual([body.event, []])
  const wrong = { ...body, data: { ...body.data, sequence: '1', more: 1 } }
  expect(faultsAt([...place, 'schema'], wrong)).toHaveLength(2)
}
