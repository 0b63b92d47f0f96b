import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { ServiceProcess } from './service-process.ts'

/** A business that receives payments and webhooks. */
interface PaidBusiness {
  /** At 9PSB. */
  readonly accountNumber: string
  addEndpoints(urls: readonly string[]): Promise<void>
  /** Enables or disables the endpoints that it was created with. */
  enable(enabled: boolean): Promise<void>
  /** Records payments, and waits until each has its deliveries to the first endpoints. */
  pay(payments: number): Promise<void>
}

const DISPATCH_LIMIT_MS = 30_000

/** Creates a business with endpoints and one account. */
export async function openPaidBusiness(
  service: ServiceProcess,
  urls: readonly string[],
): Promise<PaidBusiness> {
  const transport = createGrpcTransport({
    baseUrl: `http://${service.grpcAddress}`,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${service.adminToken}`)
        return next(request)
      },
    ],
  })
  const { business } = await createClient(BusinessService, transport).createBusiness({ name: 'B' })
  const businessId = business?.id ?? ''
  const { account } = await createClient(AccountService, transport).createAccount({
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_9PSB,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
  })
  const webhookClient = createClient(WebhookService, transport)
  const endpointIds: string[] = []
  for (const url of urls) {
    const { endpoint } = await webhookClient.createEndpoint({ businessId, url })
    endpointIds.push(endpoint?.id ?? '')
  }
  const transactions = createClient(TransactionService, transport)
  const events = createClient(EventService, transport)
  const accountNumber = account?.accountNumber ?? ''
  let number = 0
  return {
    accountNumber,
    async addEndpoints(more) {
      for (const url of more) await webhookClient.createEndpoint({ businessId, url })
    },
    async enable(enabled) {
      await Promise.all(
        endpointIds.map((endpointId) => webhookClient.updateEndpoint({ endpointId, enabled })),
      )
    },
    async pay(payments) {
      const stream = events.subscribe({})[Symbol.asyncIterator]()
      await stream.next()
      for (let left = payments; left > 0; left -= 500) {
        const batch = Array.from({ length: Math.min(left, 500) }, () => {
          number += 1
          return { bank: Bank.BANK_9PSB, accountNumber, sessionId: `W${number}`, amountMinor: 100n }
        })
        await transactions.recordPayments({ payments: batch })
      }
      let last = ''
      for (let seen = 0; seen < payments; ) {
        const { item } = (await stream.next()).value ?? {}
        if (item?.case !== 'event') continue
        last = item.value.id
        seen += 1
      }
      await stream.return?.()
      await dispatched(webhookClient, last, urls.length)
    },
  }
}

/** Waits until an event, and so every one before it, has its deliveries. */
async function dispatched(
  client: Client<typeof WebhookService>,
  eventId: string,
  endpoints: number,
): Promise<void> {
  const untilMs = performance.now() + DISPATCH_LIMIT_MS
  for (;;) {
    const { deliveries } = await client.listDeliveries({ eventId, pageSize: 100 })
    if (deliveries.length === endpoints) return
    if (performance.now() > untilMs) throw new Error('webhooks: no deliveries were created')
  }
}
