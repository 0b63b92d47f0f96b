import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import {
  HOSTILITIES,
  type HostileReceiver,
  redirectTo,
  startBrokenTls,
  startHostile,
} from '../webhooks/sender/hostile.ts'

const PAYMENTS = 300
const BATCH = 50
// Recover sends waiting retries at once, but not attempts in progress: hence the short lease.
const service = useService({ WEBHOOK_LEASE_SECONDS: '30' })

const hostile = new Map<string, HostileReceiver>()
const endpoints = new Map<string, string>()
let well: Receiver
let canary: Receiver
let wellId: string
let accountNumber: string
let startedMs: number

beforeAll(async () => {
  startedMs = Date.now()
  well = await startReceiver()
  canary = await startReceiver()
  for (const [name, misbehave] of Object.entries(HOSTILITIES)) {
    hostile.set(name, await startHostile(misbehave))
  }
  hostile.set('redirects inward', await startHostile(redirectTo(canary.url)))
  hostile.set('breaks TLS', await startBrokenTls())

  const { id: businessId } = await service.business()
  const client = service.client(WebhookService)
  for (const [name, receiver] of hostile) {
    const { endpoint } = await client.createEndpoint({ businessId, url: receiver.url })
    endpoints.set(name, endpoint!.id)
  }
  // The last in round-robin order.
  const { endpoint } = await client.createEndpoint({ businessId, url: well.url })
  wellId = endpoint!.id
  ;({ accountNumber } = await openAccountOver(grpcTransport(service.grpcUrl), { businessId }))
})
afterAll(async () => {
  await Promise.all([...hostile.values(), well, canary].map((receiver) => receiver.close()))
})

async function countIn(endpointId: string, state: string): Promise<number> {
  const { rows } = await service.database.durablePool.query(
    'select count(*)::int as count from webhook_delivery where endpoint_id = $1 and state = $2',
    [endpointId, state],
  )
  return rows[0].count
}

async function payAll(): Promise<void> {
  for (let at = 0; at < PAYMENTS; at += BATCH) {
    await service.client(TransactionService).recordPayments({
      payments: Array.from({ length: BATCH }, (_, index) => ({
        bank: Bank.BANK_PROVIDUS,
        accountNumber,
        sessionId: `HOSTILE-${at + index}`,
        amountMinor: 100n,
      })),
    })
  }
}

test('a healthy endpoint gets every delivery while hostile ones block their own', async () => {
  await payAll()
  await well.waitFor((requests) => requests.length >= PAYMENTS)
  await waitUntil(async () => (await countIn(wellId, 'DELIVERED')) === PAYMENTS)
  const ids = new Set(well.requests.map((request) => request.headers['webhook-id']))
  expect(ids.size).toBe(PAYMENTS)
  // An attempt that a busy machine does not store in time is made again.
  expect(well.requests.length).toBeLessThan(1.1 * PAYMENTS)

  // The others were all attempted, and none of their deliveries completed.
  for (const [name, endpointId] of endpoints) {
    expect(await countIn(endpointId, 'DELIVERED'), name).toBe(0)
    expect(await countIn(endpointId, 'PENDING'), name).toBe(PAYMENTS)
  }
  for (const name of ['hangs', 'trickles its response']) {
    const receiver = hostile.get(name)!
    expect(receiver.requests, name).toBeGreaterThan(0)
    await waitUntil(async () => receiver.open > 0)
  }
  expect(hostile.get('redirects inward')!.requests).toBeGreaterThan(0)
  expect(canary.requests).toHaveLength(0)
})

test('hostile endpoints receive every delivery once they heal', async () => {
  const client = service.client(WebhookService)
  const since = timestampFromMs(startedMs)
  for (const receiver of hostile.values()) receiver.heal()
  // An untrusted certificate is healed by a change of URL.
  const good = await startHostile(() => undefined)
  good.heal()
  await hostile.get('breaks TLS')!.close()
  const broken = endpoints.get('breaks TLS')!
  await client.updateEndpoint({ endpointId: broken, url: good.url })
  hostile.set('breaks TLS', good)

  for (const [name, endpointId] of endpoints) {
    await waitUntil(async () => {
      await client.recover({ endpointId, since })
      return (await countIn(endpointId, 'DELIVERED')) === PAYMENTS
    })
    expect(hostile.get(name)!.acknowledged.size, name).toBe(PAYMENTS)
  }
  expect(canary.requests).toHaveLength(0)

  const { deliveries } = await client.listDeliveries({ endpointId: broken, pageSize: 200 })
  const attempted = deliveries.filter((delivery) => delivery.attemptCount > 1)
  const errors = await Promise.all(
    attempted.slice(0, 5).map(async ({ id }) => {
      const { attempts } = await client.getDelivery({ deliveryId: id })
      return attempts[0]?.error
    }),
  )
  for (const error of errors) expect(error).toMatch(/^TLS certificate /)
})
