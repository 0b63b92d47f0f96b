import { fromBinary } from '@bufbuild/protobuf'
import { beforeAll, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { traceparentOf } from '../../src/events/message.ts'
import { readLog } from '../../src/events/read-log.ts'
import { toMessage } from '../../src/relay/message.ts'
import { notify, payee, payment } from '../notifications/scene.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  return () => receiver.close()
})

const SPAN = '00f067aa0ba902b7'
let traces = 0
const newTraceparent = (flags = '01') => {
  traces += 1
  return `00-${String(traces).padStart(32, 'a')}-${SPAN}-${flags}`
}

const REPORT = { bank: Bank.BANK_9PSB, amountMinor: 150_050n }

async function openEndpoint(businessId: string): Promise<void> {
  await service.client(WebhookService).createEndpoint({ businessId, url: receiver.url })
}

/** The traceparent of each event of a payment, in order. */
async function eventsOf(businessId: string, sessionId: string) {
  const { events } = await service.client(EventService).listEvents({ businessId })
  return events
    .filter(({ payload: { value } }) => (value as { sessionId?: string }).sessionId === sessionId)
    .map(({ kind, traceparent }) => [kind, traceparent])
}

/** The requests that report a payment to its business. */
const requestsOf = (sessionId: string) =>
  receiver
    .waitFor((all) => all.some(({ rawBody }) => rawBody.includes(sessionId)))
    .then((all) => all.filter(({ rawBody }) => rawBody.includes(sessionId)))

test.each(['client', 'connectClient'] as const)(
  'a payment keeps the traceparent of the call, over %s, and it comes out in events, webhooks and the relay',
  async (protocol) => {
    const to = await payee(service)
    await openEndpoint(to.businessId)
    const traceparent = newTraceparent()
    const sessionId = `kept-${protocol}`
    const transactions = service[protocol](TransactionService)
    await transactions.recordPayment(
      { ...REPORT, accountNumber: to.accountNumber, sessionId },
      { headers: { traceparent } },
    )
    const { businessId } = to
    const { transaction } = await transactions.getTransaction({ businessId, sessionId })
    expect(transaction!.traceparent).toBe(traceparent)
    const listed = await transactions.listTransactions({ businessId })
    expect(listed.transactions[0]!.traceparent).toBe(traceparent)

    const [request] = await requestsOf(sessionId)
    expect(request!.headers['traceparent']).toBe(traceparent)
    expect(JSON.parse(request!.rawBody).data.traceparent).toBe(traceparent)
    expect(await eventsOf(businessId, sessionId)).toEqual([['PAYMENT_NOTIFICATION', traceparent]])

    const { entries } = await readLog(service.database.durablePool, 1n, 1_000)
    const entry = entries.find(({ payload }) => traceparentOf(payload) === traceparent)!
    const message = toMessage(entry, 1, 'protobuf')
    expect(message.traceparent).toBe(traceparent)
    const published = fromBinary(EventSchema, message.body)
    expect(published.traceparent).toBe(traceparent)
    // The event has it once.
    expect(published.payload.value).toMatchObject({ sessionId, traceparent: '' })
  },
)

test('each payment of a batch, and each of one statement, keeps its own', async () => {
  const { accountNumber, businessId } = await payee(service)
  const client = service.client(TransactionService)
  const calls = Array.from({ length: 20 }, (_, at) => ({
    sessionId: `own-${at}`,
    traceparent: at % 3 === 0 ? undefined : newTraceparent(),
  }))
  const batch = newTraceparent()
  const inBatch = ['batch-1', 'batch-2'].map((sessionId) => ({
    ...REPORT,
    accountNumber,
    sessionId,
  }))
  await Promise.all([
    client.recordPayments({ payments: inBatch }, { headers: { traceparent: batch } }),
    ...calls.map(({ sessionId, traceparent }) =>
      client.recordPayment(
        { ...REPORT, accountNumber, sessionId },
        traceparent === undefined ? {} : { headers: { traceparent } },
      ),
    ),
  ])
  const { transactions } = await client.listTransactions({ businessId, pageSize: 100 })
  const kept = new Map(transactions.map((each) => [each.sessionId, each.traceparent]))
  for (const { sessionId, traceparent = '' } of calls) expect(kept.get(sessionId)).toBe(traceparent)
  for (const { sessionId } of inBatch) expect(kept.get(sessionId)).toBe(batch)
})

test('a payment that was PENDING keeps the trace in which it arrived, or else that of the final report', async () => {
  const { accountNumber, businessId } = await payee(service)
  const client = service.client(TransactionService)
  const [arrived, final] = [newTraceparent(), newTraceparent()]
  const report = async (sessionId: string, status: TransactionStatus, traceparent?: string) =>
    client.recordPayment(
      { ...REPORT, accountNumber, sessionId, status },
      traceparent === undefined ? {} : { headers: { traceparent } },
    )
  const { PENDING, SUCCESS } = TransactionStatus
  await report('arrived', PENDING, arrived)
  await report('arrived', SUCCESS, final)
  await report('later', PENDING)
  await report('later', SUCCESS, final)
  for (const [sessionId, expected] of [
    ['arrived', arrived],
    ['later', final],
  ] as const) {
    await waitFor(async () => {
      expect(await eventsOf(businessId, sessionId)).toEqual([['PAYMENT_NOTIFICATION', expected]])
    })
    const { transaction } = await client.getTransaction({ businessId, sessionId })
    expect(transaction!.traceparent).toBe(expected)
  }
})

test('a later event of a payment carries its trace, not that of the call that caused it', async () => {
  const { accountNumber, businessId } = await payee(service)
  const client = service.client(TransactionService)
  const traceparent = newTraceparent()
  const { transaction } = await client.recordPayment(
    { ...REPORT, accountNumber, sessionId: 'to-reverse' },
    { headers: { traceparent } },
  )
  await client.reverseTransaction(
    { transactionId: transaction!.id, reason: 'test' },
    { headers: { traceparent: newTraceparent() } },
  )
  await waitFor(async () => {
    expect(await eventsOf(businessId, 'to-reverse')).toEqual([
      ['PAYMENT_NOTIFICATION', traceparent],
      ['PAYMENT_REVERSED', traceparent],
    ])
  })
})

test('a notification of a bank may bring one, also to a payment that is only recorded by a retry', async () => {
  const to = await payee(service)
  const paid = payment(to.accountNumber)
  const traceparent = newTraceparent()
  const send = (body: object) =>
    fetch(`${service.httpUrl}/banks/9psb/notifications`, {
      method: 'POST',
      headers: { 'x-signature': 'genuine', traceparent },
      body: JSON.stringify(body),
    })
  bank.payments.set(paid.key, paid)
  bank.mishaps.set('GET payments', [500])
  await send(paid)
  await service.database.durablePool.query(
    "update bank_notification set next_try_at = now() where state = 'PENDING'",
  )
  await waitFor(async () => {
    expect(await eventsOf(to.businessId, paid.session)).toEqual([
      ['PAYMENT_NOTIFICATION', traceparent],
    ])
  })
  const plain = payment(to.accountNumber)
  bank.payments.set(plain.key, plain)
  await notify(service, plain)
  await waitFor(async () => {
    expect(await eventsOf(to.businessId, plain.session)).toEqual([['PAYMENT_NOTIFICATION', '']])
  })
})
