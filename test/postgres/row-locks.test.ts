import { describe, expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { recordConflicts } from '../../src/transactions/conflicts.ts'
import { creation } from '../protocols/rest/rest.ts'
import { lockWaits } from '../support/database.ts'
import { startReceiver } from '../support/receiver.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { scopedBusiness } from '../thirdparty/scene.ts'
import { openAccount, paymentInto, storedOf, transactionsOf } from '../transactions/fixture.ts'

const service = useService()

/** Starts a change, which then waits for the audit log with its row locked. */
async function startChange(change: () => Promise<unknown>): Promise<{ end(): Promise<void> }> {
  const { durablePool } = service.database
  const holder = await durablePool.connect()
  await holder.query('begin')
  await holder.query('select from audit_head for update')
  const changing = change()
  // It is awaited at the end.
  changing.catch(() => undefined)
  await waitUntil(async () => (await lockWaits(durablePool)) === 1)
  let held = true
  const end = async (): Promise<void> => {
    if (!held) return
    held = false
    await holder.query('rollback')
    holder.release()
    await changing
  }
  onTestFinished(end)
  return { end }
}

test('changes by secret keys that wait for the audit log leave connections to others', async () => {
  const { test: key } = await scopedBusiness(service)
  const url = 'https://receiver.example/bounded'
  const created = await service.post('createWebhook/', key, { url })
  const { endpoint_id: endpointId } = created.body.data
  const account = await service.post('generateVirtualAccount/', key, creation())
  const { reference } = account.body.data
  const { durablePool } = service.database
  const calls: Promise<unknown>[] = []
  const change = await startChange(() => {
    const first = service.post('updateWebhook/', key, { endpointId, description: 'first' })
    calls.push(first)
    return first
  })
  for (let i = 0; i < 10; i++) {
    calls.push(
      service.post('updateWebhook/', key, { endpointId, description: `${i}` }),
      service.post('createWebhook/', key, { url: `${url}/${i}` }),
      service.post('updateVirtualAccount/', key, { reference, firstName: `Ada${'a'.repeat(i)}` }),
      service.post('testWebhook/', key, { endpointId }),
    )
  }
  await waitUntil(async () => (await lockWaits(durablePool)) === 4)
  // A call that needs a connection of the same pool gets one.
  const other = await service.post('listDeliveries/', key, { endpointId })
  expect(other.status).toBe(200)
  expect(await lockWaits(durablePool)).toBe(4)
  await change.end()
  const statuses = (await Promise.all(calls)).map((call) => (call as { status: number }).status)
  expect(new Set(statuses)).toEqual(new Set([200]))
})

describe('a change in progress does not hold up what refers to its row', () => {
  test('a business: its new accounts', async () => {
    const { id: businessId, key } = await service.business()
    const change = await startChange(() =>
      service.client(BusinessService).updateBusiness({ businessId, name: 'Renamed' }),
    )
    const { status } = await service.post('generateVirtualAccount/', key, creation())
    expect(status).toBe(200)
    await change.end()
  })

  test('an endpoint: its new deliveries', async () => {
    const receiver = await startReceiver()
    onTestFinished(receiver.close)
    const { businessId, number } = await openAccount(service)
    const webhooks = service.client(WebhookService)
    const { endpoint } = await webhooks.createEndpoint({ businessId, url: receiver.url })
    const endpointId = endpoint!.id
    const change = await startChange(() =>
      webhooks.updateEndpoint({ endpointId, description: 'changed' }),
    )
    await transactionsOf(service).recordPayment(paymentInto(number, { sessionId: 'locked-1' }))
    const { rawBody } = await receiver.next()
    expect(rawBody).toContain('locked-1')
    await change.end()
  })

  test('a transaction: reports that contradict it', async () => {
    const { number } = await openAccount(service)
    const payment = paymentInto(number, { sessionId: 'locked-2' })
    const { transaction } = await transactionsOf(service).recordPayment(payment)
    const change = await startChange(() =>
      transactionsOf(service).reverseTransaction({ transactionId: transaction!.id, reason: 'x' }),
    )
    const { durablePool } = service.database
    const facts = { sessionId: 'locked-2', accountNumber: number, amountMinor: 7n }
    const reported = { ...facts, status: 'SUCCESS' } as const
    const report = { bank: '9PSB', transactionId: transaction!.id, reported } as const
    const onConflict = () => undefined
    await recordConflicts(createTestRuntime(service.database), { onConflict }, [report])
    expect((await storedOf(durablePool, 'locked-2')).conflicts).toHaveLength(1)
    await change.end()
  })
})
