import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { AccountStatus } from '../../../gen/inflow/account/v1/account_pb.ts'
import { EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import { PayoutStatus } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { SettlementStatus } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { DisabledReason, EndpointStatus } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { readConfig } from '../../../src/config/config.ts'
import { createTimeText } from '../../../src/core/clock.ts'
import { STANDARD_FORMAT } from '../../../src/webhooks/endpoints/request-format.ts'
import {
  createToEventBody,
  createToWebhookBody,
  encodeEventBody,
} from '../../../src/webhooks/sender/body.ts'

type Payload = MessageInitShape<typeof EventSchema>['payload']

const at = (minutes: number) => timestampFromMs(Date.UTC(2026, 10, 20, 9, minutes))

const FORMATS = [createTimeText('Africa/Lagos'), readConfig({}).bankNames] as const

/** An event that occurred at 10:30 in Lagos. */
function entryOf(payload: Payload, kind = 'KIND') {
  const event = create(EventSchema, payload ? { payload } : {})
  return {
    position: 7n,
    eventId: 'evt_1',
    businessId: 'biz_1',
    live: false,
    businessSequence: 42n,
    epoch: 3,
    kind,
    occurredAtMs: Date.UTC(2026, 10, 20, 9, 30),
    payload: toBinary(EventSchema, event),
  }
}

/** The decoded body of an event. */
const bodyOf = (payload: Payload) =>
  JSON.parse(encodeEventBody(createToEventBody(...FORMATS)(entryOf(payload))))
const identity = { event_id: 'evt_1', sequence: 42, live: false, epoch: 3 }
const account = { bank: Bank.BANK_PALMPAY, accountNumber: '6610000001', accountName: 'Ada' }
const bankAccount = {
  account_number: '6610000001',
  account_name: 'Ada',
  bank_name: 'PalmPay',
  bank_id: 'PALMPAY',
}

describe('the body of', () => {
  test('a settlement states what is paid out, once as its amount', () => {
    const value = {
      id: 'set_1',
      status: SettlementStatus.COMPLETED,
      transactionCount: 3n,
      grossMinor: 10_000n,
      feesMinor: 150n,
      netMinor: 9_850n,
      currency: 'NGN',
      cutOffAt: at(0),
      completedAt: at(5),
    }
    expect(bodyOf({ case: 'settlement', value })).toEqual({
      event: 'KIND',
      data: {
        type: 'SETTLEMENT',
        amount: '98.50',
        status: 'COMPLETED',
        created_at: '2026-11-20 10:05:00',
        settlement: {
          settlement_id: 'set_1',
          transaction_count: 3,
          gross_amount: '100.00',
          fees: '1.50',
          net_amount: '98.50',
          cut_off_at: '2026-11-20 10:00:00',
          currency: 'NGN',
        },
        ...identity,
      },
    })
  })

  test('an endpoint states since when it fails and is disabled, if it does and is', () => {
    const enabled = { id: 'ep_1', url: 'https://shop.example', description: 'shop' }
    const shown = { endpoint_id: 'ep_1', url: 'https://shop.example', description: 'shop' }
    const data = { type: 'WEBHOOK_ENDPOINT', created_at: '2026-11-20 10:30:00', ...identity }
    const ofEnabled = { ...enabled, status: EndpointStatus.ENABLED }
    expect(bodyOf({ case: 'endpoint', value: ofEnabled }).data).toEqual({
      ...data,
      status: 'ENABLED',
      endpoint: shown,
    })
    const disabled = {
      ...enabled,
      status: EndpointStatus.DISABLED,
      failingSince: at(1),
      disabledAt: at(2),
      disabledReason: DisabledReason.FAILING,
    }
    expect(bodyOf({ case: 'endpoint', value: disabled }).data).toEqual({
      ...data,
      status: 'DISABLED',
      endpoint: {
        ...shown,
        failing_since: '2026-11-20 10:01:00',
        disabled_at: '2026-11-20 10:02:00',
        disabled_reason: 'FAILING',
      },
    })
  })

  test('an account states its bank, and when the event occurred', () => {
    const value = {
      ...account,
      reference: 'R-1',
      merchantReference: 'order-1',
      status: AccountStatus.CLOSED,
    }
    const { data } = bodyOf({ case: 'account', value: { ...value, createdAt: at(3) } })
    const expected = {
      type: 'RESERVED_ACCOUNT',
      reference: 'R-1',
      merchant_reference: 'order-1',
      status: 'CLOSED',
      created_at: '2026-11-20 10:30:00',
      account: { ...bankAccount, created_at: '2026-11-20 10:03:00' },
      ...identity,
    }
    expect(JSON.stringify(data)).toBe(JSON.stringify(expected))
  })

  test('a payment by an unknown payer, at an unknown time, has empty texts', () => {
    const value = {
      ...account,
      accountReference: 'R-1',
      merchantReference: 'order-1',
      sessionId: 's-1',
      amountMinor: 5n,
      status: TransactionStatus.REVERSED,
    }
    expect(bodyOf({ case: 'transaction', value }).data).toEqual({
      type: 'UNKNOWN',
      reference: 'R-1',
      merchant_reference: 'order-1',
      transaction_ref: 's-1',
      wiaxy_ref: 's-1',
      amount: '0.05',
      status: 'REVERSED',
      method: 'bank_transfer',
      created_at: '',
      account: { ...bankAccount, created_at: '' },
      payer: { account_number: '', account_name: '', bank_code: '', bank_name: '' },
      ...identity,
    })
  })

  test('a status of a later release is UNKNOWN', () => {
    const value = { ...account, status: 99 as TransactionStatus }
    expect(bodyOf({ case: 'transaction', value }).data.status).toBe('UNKNOWN')
  })

  test('an event of no business, or without a payload, does not exist', () => {
    expect(() => bodyOf({ case: 'unmatchedPayment', value: {} })).toThrow('belongs to no business')
    expect(() => bodyOf(undefined)).toThrow('event evt_1 has a payload')
  })
})

describe('in the wiaxy profile', () => {
  const value = {
    id: 'pay_1',
    reference: 'salary-7',
    status: PayoutStatus.FAILED,
    amountMinor: 150_050n,
    beneficiary: { bankCode: '000013', accountNumber: '0123456789' },
  }
  const wiaxyOf = (kind: string, more: object = {}) => {
    const entry = entryOf({ case: 'payout', value: { ...value, ...more } }, kind)
    const format = { ...STANDARD_FORMAT, profile: 'WIAXY' as const }
    return JSON.parse(createToWebhookBody(...FORMATS)(entry, 41, format))
  }

  test.each([
    ['PAYOUT_PAID', 'successful', { sessionId: 's-1' }, 's-1'],
    ['PAYOUT_FAILED', 'failed', {}, 'pay_1'],
    ['PAYOUT_RETURNED', 'failed', { sessionId: 's-1' }, 's-1'],
  ])('%s is a disbursement that was %s', (kind, status, more, sent) => {
    const { event, data } = wiaxyOf(kind, more)
    expect(event).toBe('DISBURSEMENT_NOTIFICATION')
    expect(data).toMatchObject({
      type: 'PAYOUT',
      event_kind: kind,
      status,
      amount: '1500.50',
      reference: 'pay_1',
      merchant_reference: 'salary-7',
      transaction_ref: sent,
      wiaxy_ref: sent,
      payout: { payout_id: 'pay_1', reference: 'salary-7', account_number: '0123456789' },
      ...identity,
    })
  })

  test.each(['PAYOUT_REQUESTED', 'PAYOUT_CANCELLED', 'REFUND_PAID', 'REFUND_FAILED'])(
    '%s keeps its name and its body',
    (kind) => {
      const { event, data } = wiaxyOf(kind)
      expect([event, data.status]).toEqual([kind, 'FAILED'])
      expect(data).not.toHaveProperty('wiaxy_ref')
    },
  )
})
