import type { JsonObject } from '@bufbuild/protobuf'

const ENDPOINT = { endpointId: 'ep_01kah6j1yhsf9h1t2b3c4d5e6f' }
const SESSION = { session_id: '090286261120100000123456789012' }

/** A request of each REST path, by the name of its rpc. */
export const REQUESTS: Readonly<Record<string, JsonObject>> = {
  GenerateVirtualAccount: {
    reference: 'order-1',
    email: 'ada@example.com',
    phone: '08012345678',
    firstName: 'Ada',
    lastName: 'Obi',
    bank: '9PSB',
    amount: '2000.00',
    expiresIn: 3600,
    metadata: { order: '1042' },
  },
  GetTransaction: SESSION,
  GetVirtualAccount: { reference: 'order-1' },
  ListTransactions: { page_size: 50, status: 'SUCCESS', from: '2026-11-01 00:00:00' },
  AcceptPayment: SESSION,
  ReturnPayment: { ...SESSION, reason: 'The order was cancelled' },
  ListHeldPayments: { page_size: 50 },
  ListEvents: { after: 41, limit: 100, kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED'] },
  GetBalance: {},
  UpdateVirtualAccount: { reference: 'order-1', email: 'ada.obi@example.com' },
  UpgradeVirtualAccount: { customer: 'ada@example.com', bvn: '22212345678' },
  CloseVirtualAccount: { reference: 'order-1' },
  ListVirtualAccounts: { pageSize: 50, status: 'ACTIVE' },
  ListSettlements: { pageSize: 50 },
  GetStatement: { from: '2026-11-01 00:00:00', to: '2026-12-01 00:00:00', pageSize: 50 },
  CreateWebhook: {
    url: 'https://shop.example.com/webhooks',
    kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED'],
    description: 'shop',
    options: { rateLimit: 20 },
  },
  ListWebhooks: {},
  UpdateWebhook: { ...ENDPOINT, enabled: true },
  DeleteWebhook: ENDPOINT,
  TestWebhook: ENDPOINT,
  ListDeliveries: { ...ENDPOINT, status: 'FAILED', pageSize: 50 },
  Redeliver: { deliveryId: 'dlv_01kah6j1yhsf9h1t2b3c4d5e6f' },
  SkipDelivery: { deliveryId: 'dlv_01kah6j1yhsf9h1t2b3c4d5e6f' },
  SimulatePayment: { reference: 'order-1', amount: '1500.50', payerName: 'NGOZI EZE' },
  RequeryTransaction: { reference: 'order-1' },
}
