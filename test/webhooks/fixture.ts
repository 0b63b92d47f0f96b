import { randomBytes } from 'node:crypto'
import { create, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import { AccountSchema, AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  TransactionSchema,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { createTimeText } from '../../src/core/clock.ts'
import { newId, newReference } from '../../src/core/ids.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import type { Database } from '../../src/postgres/orm.ts'
import type { Runtime } from '../../src/postgres/runtime.ts'
import { CONCURRENCY_LIMITS } from '../../src/webhooks/deliveries/concurrency-limiter.ts'
import { dispatchEvents } from '../../src/webhooks/dispatch.ts'
import { createWebhooks, type WebhooksOptions } from '../../src/webhooks/webhooks.ts'
import { sequence } from '../support/events.ts'
import { createTestRuntime } from '../support/runtime.ts'

const LOOPBACK = ['127.0.0.0/8', '::1/128']

export const timeText = createTimeText('Africa/Lagos')
export const encrypter = createEncrypter(randomBytes(32))

/** Webhooks that may be sent to receivers on this machine. */
export function openWebhooks(database: Database, options: Partial<WebhooksOptions & Runtime> = {}) {
  return createWebhooks(createTestRuntime(database, options), {
    encrypter,
    timeText,
    bankNames: readConfig({}).bankNames,
    allowHttp: true,
    allowedCidrs: LOOPBACK,
    retentionDays: 30,
    leaseMs: 60_000,
    requestTimeoutMs: 15_000,
    retryScheduleMs: [50, 50, 50],
    // Short pauses, so that tests of repeated failures are fast.
    concurrencyLimits: { ...CONCURRENCY_LIMITS, rejectedPauseMaxMs: 1, noResponsePauseMaxMs: 1 },
    ...options,
  })
}

export async function addBusiness({ durablePool }: Database): Promise<string> {
  const id = newId('biz', Date.now())
  await durablePool.query(
    `insert into business (id, name, alias, created_at) values ($1, $2, $2, now())`,
    [id, 'Test'],
  )
  return id
}

/** An event as a transaction writes it to the outbox. */
export interface TestEvent {
  readonly id: string
  readonly businessId: string
  readonly kind: string
  readonly payload: Uint8Array
  /** Absent: live. */
  readonly live?: boolean
}

const AT = Date.UTC(2026, 10, 20, 9, 0, 0)

export function paymentEvent(businessId: string, amountMinor = 150_050n): TestEvent {
  const id = newId('evt', Date.now())
  const transaction = create(TransactionSchema, {
    id: newId('txn', Date.now()),
    businessId,
    accountReference: 'R-ACDEFGHJKMNPQRTWXY34',
    merchantReference: 'order-1',
    sessionId: '090286261120100000123456789012',
    amountMinor,
    currency: 'NGN',
    status: TransactionStatus.SUCCESS,
    bank: Bank.BANK_9PSB,
    accountNumber: '5010000001',
    accountName: 'Test/Ada Obi',
    customerName: 'Ada Obi',
    customerEmail: 'ada@example.com',
    paidAt: timestampFromMs(AT),
    accountCreatedAt: timestampFromMs(AT - 3_600_000),
    payer: {
      name: 'Ngozi Ệkwueme',
      accountNumber: '0123456789',
      bankCode: '000013',
      bankName: 'GTBank',
    },
  })
  return eventOf(id, businessId, 'PAYMENT_NOTIFICATION', {
    case: 'transaction',
    value: transaction,
  })
}

export function accountEvent(businessId: string): TestEvent {
  const id = newId('evt', Date.now())
  const account = create(AccountSchema, {
    id: newId('acc', Date.now()),
    businessId,
    reference: newReference(),
    merchantReference: 'order-2',
    bank: Bank.BANK_SAFEHAVEN,
    bankName: 'Safe Haven Microfinance Bank',
    accountNumber: '8010000002',
    accountName: 'Test/Ada Obi',
    status: AccountStatus.ACTIVE,
    createdAt: timestampFromMs(AT),
  })
  return eventOf(id, businessId, 'ACCOUNT_CREATED', { case: 'account', value: account })
}

type Payload = NonNullable<Parameters<typeof create<typeof EventSchema>>[1]>['payload']

function eventOf(id: string, businessId: string, kind: string, payload: Payload): TestEvent {
  const event = create(EventSchema, {
    id,
    businessId,
    kind,
    occurredAt: timestampFromMs(AT),
    ...(payload ? { payload } : {}),
  })
  return { id, businessId, kind, payload: toBinary(EventSchema, event) }
}

/** Writes events to the outbox in one commit, and numbers them as the sequencer does. */
export async function logEvents(
  { durablePool }: Database,
  events: readonly TestEvent[],
): Promise<void> {
  await durablePool.query(
    `insert into outbox
        (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
      select event_id, business_id, live, kind, $5, payload, 'txn_test',
        (kind = 'PAYMENT_NOTIFICATION')::int
      from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $6::boolean[])
        with ordinality as g(event_id, business_id, kind, payload, live, number)
      order by number`,
    [
      events.map((event) => event.id),
      events.map((event) => event.businessId),
      events.map((event) => event.kind),
      events.map((event) => Buffer.from(event.payload)),
      new Date(AT),
      events.map((event) => event.live ?? true),
    ],
  )
  await sequence(durablePool)
}

/** Dispatches the next events, and claims no delivery unless allotments are given. */
export const dispatchNow = (
  pool: Pool,
  overrides: Partial<Parameters<typeof dispatchEvents>[1]> = {},
) =>
  dispatchEvents(pool, {
    idPrefix: 'dlv_0000000000',
    nowMs: Date.now(),
    eventsMax: 1_000,
    leaseMs: 60_000,
    allotments: [],
    pausedBeforeMs: 0,
    recentFrom: 0n,
    ...overrides,
  })
