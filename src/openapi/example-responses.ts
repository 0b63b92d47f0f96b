import { create, type DescMessage, type JsonObject, toJson } from '@bufbuild/protobuf'
import { RequeryResultSchema } from '../../gen/inflow/thirdparty/v2/payment_pb.ts'
import {
  PayoutBankPageSchema,
  PayoutPageSchema,
  PayoutSchema,
  ResolvedAccountSchema,
} from '../../gen/inflow/thirdparty/v2/payout_pb.ts'
import {
  SettlementPageSchema,
  StatementPageSchema,
} from '../../gen/inflow/thirdparty/v2/settlement_pb.ts'
import {
  EventPageSchema,
  HeldPaymentPageSchema,
  TransactionPageSchema,
} from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import {
  BalanceSchema,
  TransactionSchema,
  VirtualAccountSchema,
} from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import { VirtualAccountPageSchema } from '../../gen/inflow/thirdparty/v2/virtual_account_pb.ts'
import {
  DeletedWebhookSchema,
  DeliveryPageSchema,
  DeliverySchema,
  TestEventSchema,
  WebhookListSchema,
  WebhookSchema,
} from '../../gen/inflow/thirdparty/v2/webhook_pb.ts'

const REFERENCE = 'R-ACDEFGHJKMNPQRTWXY34'
const SESSION_ID = '090286261120100000123456789012'
const AT = '2026-11-20 10:00:00'
const EARLIER = '2026-11-20 09:00:00'
const ENDPOINT_ID = 'ep_01kah6j1yhsf9h1t2b3c4d5e6f'
const EVENT_ID = 'evt_01kah6j1yhsf9h1t2b3c4d5e6f'
const SETTLEMENT_ID = 'stl_01kah6j1yhsf9h1t2b3c4d5e6f'
const CURRENCY = 'NGN'

const BANK_ACCOUNT = {
  accountNumber: '5012345678',
  accountName: 'Oja/Ada Obi',
  bankName: '9 Payment Service Bank',
  bankId: '9PSB',
  createdAt: EARLIER,
}

const METADATA = { order: '1042' }

const PAYER = {
  accountNumber: '0123456789',
  accountName: 'NGOZI EZE',
  bankCode: '000013',
  bankName: 'GTBank',
}

const CUSTOMER = { firstName: 'Ada', lastName: 'Obi', email: 'ada@example.com' }

const created = {
  reference: REFERENCE,
  account: [BANK_ACCOUNT],
  meta: CUSTOMER,
  terms: { amount: 2_000, amountRule: 'EXACT', expiresAt: AT, singleUse: false, status: 'ACTIVE' },
  metadata: METADATA,
}

const listed = {
  reference: REFERENCE,
  account: [BANK_ACCOUNT],
  meta: { ...CUSTOMER, email: 'ada.obi@example.com', phone: '08012345678' },
  merchantReference: 'order-1',
  status: 'ACTIVE',
}

const found = {
  ...created,
  merchantReference: 'order-1',
  status: 'ACTIVE',
  customer: 'Ada Obi',
}

const payment = {
  reference: REFERENCE,
  sessionId: SESSION_ID,
  transactionRef: SESSION_ID,
  amount: 1_500.5,
  status: 'SUCCESS',
  isSettled: false,
  method: 'bank_transfer',
  bank: '9PSB',
  nuban: '5012345678',
  accountName: 'Oja/Ada Obi',
  customer: 'Ada Obi',
  email: 'ada@example.com',
  createdAt: AT,
}

const held = { ...payment, expectedAmount: 2_000, variance: 'UNDERPAID', metadata: METADATA }

const settledPayment = {
  ...payment,
  isSettled: true,
  payer: PAYER,
  currency: CURRENCY,
  narration: 'Order 1042',
  fee: 7.5,
  net: 1_493,
  settledAt: '2026-11-21 06:00:00',
  splits: 0,
}

const webhook = {
  endpointId: ENDPOINT_ID,
  url: 'https://shop.example.com/webhooks',
  kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED'],
  description: 'shop',
  concurrency: 10,
  status: 'ENABLED',
  createdAt: AT,
  profile: 'STANDARD',
}

const delivery = {
  deliveryId: 'dlv_01kah6j1yhsf9h1t2b3c4d5e6f',
  endpointId: ENDPOINT_ID,
  eventId: EVENT_ID,
  event: 'PAYMENT_NOTIFICATION',
  attemptCount: 1,
  createdAt: AT,
  latestAttempt: {
    number: 1,
    startedAt: AT,
    latencyMs: 42,
    statusCode: 500,
    responseBody: 'Internal Server Error',
    error: 'the endpoint responded 500',
  },
}

const payout = {
  payoutId: 'pay_01kah6j1yhsf9h1t2b3c4d5e6f',
  reference: 'salary-7',
  purpose: 'PAYOUT',
  status: 'APPROVED',
  amount: 15_000,
  fee: 25,
  duty: 50,
  currency: CURRENCY,
  ...PAYER,
  narration: 'Salary of November',
  createdAt: EARLIER,
}

const paid = { ...payout, status: 'PAID', sessionId: SESSION_ID, completedAt: AT }

const balance = { pending: 1_500.5, available: 4_479, fees: 22.5, currency: CURRENCY }

/** @param data as REST writes it */
function response<Desc extends DescMessage>(
  message: string,
  schema: Desc,
  data: Parameters<typeof create<Desc>>[1],
): JsonObject {
  const json = toJson(schema, create(schema, data), { alwaysEmitImplicit: true }) as JsonObject
  return { status: true, message, data: json }
}

/** A response of each REST path, by the name of its rpc. */
export const RESPONSES: Readonly<Record<string, JsonObject>> = {
  GenerateVirtualAccount: response('Account reserved', VirtualAccountSchema, created),
  GetTransaction: response('Transaction retrieved', TransactionSchema, payment),
  GetVirtualAccount: response('Account retrieved', VirtualAccountSchema, found),
  ListTransactions: response('Transactions retrieved', TransactionPageSchema, {
    transactions: [settledPayment],
  }),
  AcceptPayment: response('Payment accepted', TransactionSchema, {
    ...held,
    holdState: 'ACCEPTED',
  }),
  ReturnPayment: response('Return requested', TransactionSchema, {
    ...held,
    holdState: 'RETURN_REQUESTED',
  }),
  ListHeldPayments: response('Held payments retrieved', HeldPaymentPageSchema, {
    transactions: [{ ...held, holdState: 'HELD', payer: PAYER, currency: CURRENCY, narration: '' }],
  }),
  ListEvents: response('Events retrieved', EventPageSchema, {
    events: [
      {
        event: 'PAYMENT_NOTIFICATION',
        data: {
          type: 'RESERVED_ACCOUNT_TRANSACTION',
          reference: REFERENCE,
          merchantReference: 'order-1',
          transactionRef: SESSION_ID,
          wiaxyRef: SESSION_ID,
          amount: '1500.50',
          status: 'SUCCESS',
          method: 'bank_transfer',
          createdAt: AT,
          account: BANK_ACCOUNT,
          payer: PAYER,
          eventId: EVENT_ID,
          sequence: 42,
          live: true,
          epoch: 1,
        },
      },
    ],
    epoch: 1,
    hasMore: false,
    nextAfter: 42,
  }),
  GetBalance: response('Balance retrieved', BalanceSchema, { ...balance, reserved: 15_075 }),
  UpdateVirtualAccount: response('Account updated', VirtualAccountSchema, listed),
  UpgradeVirtualAccount: response('Account upgraded', VirtualAccountSchema, {
    ...found,
    customerAccounts: { accounts: [found] },
  }),
  CloseVirtualAccount: response('Account closed', VirtualAccountSchema, {
    ...listed,
    status: 'CLOSED',
  }),
  ListVirtualAccounts: response('Accounts retrieved', VirtualAccountPageSchema, {
    accounts: [listed],
  }),
  ListSettlements: response('Settlements retrieved', SettlementPageSchema, {
    settlements: [
      {
        settlementId: SETTLEMENT_ID,
        status: 'COMPLETED',
        transactionCount: 3,
        grossAmount: 4_501.5,
        fees: 22.5,
        netAmount: 4_479,
        currency: CURRENCY,
        cutOffAt: '2026-11-20 00:00:00',
        startedAt: '2026-11-20 06:00:00',
        completedAt: '2026-11-20 06:00:01',
      },
    ],
  }),
  GetStatement: response('Statement retrieved', StatementPageSchema, {
    openingBalance: { ...balance, pending: 0 },
    entries: [
      {
        sequence: 42,
        event: 'PAYMENT_NOTIFICATION',
        bookedAt: AT,
        sessionId: SESSION_ID,
        pending: 1_500.5,
      },
    ],
    closingBalance: balance,
  }),
  CreateWebhook: response('Webhook created', WebhookSchema, {
    ...webhook,
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  }),
  ListWebhooks: response('Webhooks retrieved', WebhookListSchema, { webhooks: [webhook] }),
  UpdateWebhook: response('Webhook updated', WebhookSchema, webhook),
  DeleteWebhook: response('Webhook deleted', DeletedWebhookSchema, { endpointId: ENDPOINT_ID }),
  TestWebhook: response('Test event sent', TestEventSchema, { eventId: EVENT_ID }),
  ListDeliveries: response('Deliveries retrieved', DeliveryPageSchema, {
    deliveries: [
      { ...delivery, status: 'FAILED', completedAt: AT, failure: 'the endpoint responded 500' },
    ],
  }),
  Redeliver: response('Delivery sent again', DeliverySchema, {
    ...delivery,
    status: 'PENDING',
    dueAt: AT,
  }),
  SkipDelivery: response('Delivery skipped', DeliverySchema, {
    ...delivery,
    status: 'FAILED',
    completedAt: AT,
    failure: 'the endpoint responded 500',
  }),
  SimulatePayment: response('Payment simulated', TransactionSchema, payment),
  RequeryTransaction: response('Payments requested from the bank', RequeryResultSchema, {
    reference: REFERENCE,
    found: 1,
    recorded: 1,
  }),
  ListBanks: response('Banks retrieved', PayoutBankPageSchema, {
    banks: [{ bankCode: PAYER.bankCode, bankName: PAYER.bankName }],
  }),
  ResolveAccountName: response('Account name resolved', ResolvedAccountSchema, {
    ...PAYER,
    resolution: 'AYb3kq1mV0xq4nC7gkq0',
    expiresAt: AT,
  }),
  CreatePayout: response('Payout requested', PayoutSchema, payout),
  GetPayout: response('Payout retrieved', PayoutSchema, paid),
  ListPayouts: response('Payouts retrieved', PayoutPageSchema, { payouts: [paid] }),
  CancelPayout: response('Payout cancelled', PayoutSchema, {
    ...payout,
    status: 'CANCELLED',
    completedAt: AT,
  }),
  RefundTransaction: response('Refund requested', PayoutSchema, {
    ...payout,
    reference: 'refund-3',
    purpose: 'REFUND',
    amount: 500,
    fee: 0,
    duty: 0,
    narration: `Refund ${SESSION_ID}`,
    refundedTransaction: SESSION_ID,
    refundable: 1_000.5,
  }),
}
