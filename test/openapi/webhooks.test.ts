import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Payout, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS, simulatedName } from '../../src/banks/sandbox.ts'
import { settleAll } from '../overview/scene.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { issueToken, useSharedService } from '../support/service.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
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
  await settleAll(service, business.id, 1n)
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
  await payOut()
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

const PAYEE = { bankCode: '000013', accountNumber: nuban('058', 145_700_001) }
const REJECTED = { bankCode: '000013', accountNumber: nuban('058', Number(MAGIC_ACCOUNTS.rejects)) }

/** Payouts and refunds that are paid and returned, that fail, and that are cancelled. */
async function payOut(): Promise<void> {
  const { id: businessId, live: key } = business
  const payouts = service.client(PayoutService)
  const { number } = await openByKey(service, key, { reference: 'w-3' })
  const pay = async (sessionId: string, account = PAYEE) => {
    const payer = { name: simulatedName(account.accountNumber), ...account }
    const payment = {
      bank: Bank.BANK_9PSB,
      accountNumber: number,
      amountMinor: 150_050n,
      sessionId,
    }
    const client = service.client(TransactionService)
    return (await client.recordPayment({ ...payment, payer })).transaction!.id
  }
  const [transactionId, rejectedId] = [await pay('w-session-4'), await pay('w-session-5', REJECTED)]
  await waitUntil(async () => {
    const settled = await service.client(SettlementService).settle({ businessId, force: true })
    return settled.settlements.length === 1
  })
  const issued = await issueToken(service, ['payouts:approve'])
  const operator = service.client(PayoutService, issued.secret)
  const policy = { businessId, approvalAboveMinor: 500n }
  await payouts.updatePayoutPolicy({ policy })
  const request = async (amountMinor: bigint, account = PAYEE) => {
    const { resolution } = await payouts.resolveAccountName({ businessId, ...account })
    const reference = `w-${amountMinor}-${account.accountNumber}`
    return payouts.createPayout({
      businessId,
      reference,
      amountMinor,
      beneficiary: account,
      resolution,
    })
  }
  const returned = async ({ payout }: { payout?: Payout | undefined }) => {
    const payoutId = payout!.id
    await waitUntil(
      async () => (await payouts.getPayout({ payoutId })).payout?.status === PayoutStatus.PAID,
    )
    const decision = PayoutDecision.MARK_RETURNED
    await operator.resolvePayout({ payoutId, decision, note: 'x' })
  }
  await returned(await request(100n))
  await returned(await payouts.refundTransaction({ transactionId, amountMinor: 100n }))
  await request(100n, REJECTED)
  await payouts.refundTransaction({ transactionId: rejectedId, amountMinor: 100n })
  const waiting = [
    await request(501n),
    await payouts.refundTransaction({ transactionId, amountMinor: 501n }),
  ]
  for (const { payout } of waiting) await payouts.cancelPayout({ payoutId: payout!.id })
}

/** Verifies a webhook step by step as the document says, without a library. */
function isGenuine({ headers, rawBody, at }: ReceivedRequest, secret: string): boolean {
  const timestamp = `${headers['webhook-timestamp']}`
  if (Math.abs(at / 1_000 - Number(timestamp)) > 300) return false
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
