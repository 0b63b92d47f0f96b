import type { JsonObject, MessageInitShape } from '@bufbuild/protobuf'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'

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

type Methods = typeof ThirdPartyService.method

/** The data of each response, as the contract types it. */
type Data = {
  readonly [Name in keyof Methods & string as Capitalize<Name>]?: Extract<
    MessageInitShape<Methods[Name]['output']>,
    { data?: unknown }
  >['data']
}

/** The data of a response of each REST path, by the name of its rpc. Fields have their TypeScript names. */
export const RESPONSES: Readonly<Record<string, JsonObject>> = {
  GenerateVirtualAccount: created,
  GetTransaction: payment,
  GetVirtualAccount: found,
  ListTransactions: {
    transactions: [settledPayment],
  },
  AcceptPayment: {
    ...held,
    holdState: 'ACCEPTED',
  },
  ReturnPayment: {
    ...held,
    holdState: 'RETURN_REQUESTED',
  },
  ListHeldPayments: {
    transactions: [{ ...held, holdState: 'HELD', payer: PAYER, currency: CURRENCY, narration: '' }],
  },
  ListEvents: {
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
  },
  GetBalance: { ...balance, reserved: 15_075 },
  UpdateVirtualAccount: listed,
  UpgradeVirtualAccount: {
    ...found,
    customerAccounts: { accounts: [found] },
  },
  CloseVirtualAccount: {
    ...listed,
    status: 'CLOSED',
  },
  ListVirtualAccounts: {
    accounts: [listed],
  },
  ListSettlements: {
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
  },
  GetStatement: {
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
  },
  CreateWebhook: {
    ...webhook,
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  },
  ListWebhooks: { webhooks: [webhook] },
  UpdateWebhook: webhook,
  DeleteWebhook: { endpointId: ENDPOINT_ID },
  TestWebhook: { eventId: EVENT_ID },
  ListDeliveries: {
    deliveries: [
      { ...delivery, status: 'FAILED', completedAt: AT, failure: 'the endpoint responded 500' },
    ],
  },
  Redeliver: {
    ...delivery,
    status: 'PENDING',
    dueAt: AT,
  },
  SkipDelivery: {
    ...delivery,
    status: 'FAILED',
    completedAt: AT,
    failure: 'the endpoint responded 500',
  },
  SimulatePayment: payment,
  RequeryTransaction: {
    reference: REFERENCE,
    found: 1,
    recorded: 1,
  },
  ListBanks: {
    banks: [{ bankCode: PAYER.bankCode, bankName: PAYER.bankName }],
  },
  ResolveAccountName: {
    ...PAYER,
    resolution: 'AYb3kq1mV0xq4nC7gkq0',
    expiresAt: AT,
  },
  CreatePayout: payout,
  GetPayout: paid,
  ListPayouts: { payouts: [paid] },
  CancelPayout: {
    ...payout,
    status: 'CANCELLED',
    completedAt: AT,
  },
  RefundTransaction: {
    ...payout,
    reference: 'refund-3',
    purpose: 'REFUND',
    amount: 500,
    fee: 0,
    duty: 0,
    narration: `Refund ${SESSION_ID}`,
    refundedTransaction: SESSION_ID,
    refundable: 1_000.5,
  },
} satisfies Data
