import { create } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { CreateAccountRequestSchema } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { IssueKeyRequestSchema } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { SubscribeRequestSchema } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import {
  RecordPaymentRequestSchema,
  RecordPaymentsRequestSchema,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import {
  CreateEndpointRequestSchema,
  RecoverRequestSchema,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { createCheck } from '../../../src/server/interceptors/validation.ts'

const check = createCheck()

const PAYMENT = {
  bank: Bank.BANK_9PSB,
  accountNumber: '0123456789',
  sessionId: 's',
  amountMinor: 1n,
}
const NULL = 'must not contain the character U+0000'

test('a valid message has no faults', () => {
  expect(check(RecordPaymentRequestSchema, create(RecordPaymentRequestSchema, PAYMENT))).toEqual([])
})

test('white space around texts is trimmed before validation', () => {
  const message = create(RecordPaymentRequestSchema, { ...PAYMENT, sessionId: '\t s \u00a0' })
  expect(check(RecordPaymentRequestSchema, message)).toEqual([])
  expect(message.sessionId).toBe('s')
})

test('white space is trimmed in messages inside and in lists of texts, but not in lists of messages, secrets and metadata', () => {
  const account = create(CreateAccountRequestSchema, {
    businessId: 'biz_1',
    idNumber: ' 12345678901',
    // The details of an account are compared with those of a repeat, so they stay as earlier versions stored them.
    allowedPayers: [{ name: 'Ada Obi ' }],
    metadata: { k: ' v ' },
  })
  check(CreateAccountRequestSchema, account)
  expect(account).toMatchObject({
    idNumber: '12345678901',
    allowedPayers: [{ name: 'Ada Obi ' }],
    metadata: { k: ' v ' },
  })
  const endpoint = create(CreateEndpointRequestSchema, {
    kinds: [' PAYMENT_NOTIFICATION ', 'ACCOUNT_CREATED'],
    options: {
      headers: { headers: [{ name: ' x-a ', value: ' v ' }] },
      authentication: {
        method: { case: 'basic', value: { username: ' ada ', password: ' p ' } },
      },
      clientCertificate: { privateKeyPem: 'key\n' },
    },
  })
  check(CreateEndpointRequestSchema, endpoint)
  expect(endpoint).toMatchObject({
    kinds: ['PAYMENT_NOTIFICATION', 'ACCOUNT_CREATED'],
    options: {
      headers: { headers: [{ name: ' x-a ', value: ' v ' }] },
      authentication: {
        method: { case: 'basic', value: { username: 'ada', password: ' p ' } },
      },
      clientCertificate: { privateKeyPem: 'key\n' },
    },
  })
  const payment = create(RecordPaymentRequestSchema, { ...PAYMENT, payer: { name: ' Ada ' } })
  expect(check(RecordPaymentRequestSchema, payment)).toEqual([])
  expect(payment.payer?.name).toBe('Ada')
})

test('faults have JSON names, in the order of the schema, with indexes in lists', () => {
  const faults = check(
    CreateEndpointRequestSchema,
    create(CreateEndpointRequestSchema, { kinds: ['OK', 'not ok'], description: 'x'.repeat(201) }),
  )
  expect(faults.map((fault) => fault.field)).toEqual([
    'businessId',
    'url',
    'kinds[1]',
    'description',
  ])
})

test('U+0000 is a fault in any text, of messages inside and of lists too', () => {
  const payer = { name: '\0', bankName: 'x\0' }
  const payment = create(RecordPaymentRequestSchema, { ...PAYMENT, narration: 'a\0', payer })
  expect(check(RecordPaymentRequestSchema, payment)).toEqual([
    { field: 'payer.name', message: NULL },
    { field: 'payer.bankName', message: NULL },
    { field: 'narration', message: NULL },
  ])
  const subscription = create(SubscribeRequestSchema, { businessIds: ['ok', '\0'] })
  expect(check(SubscribeRequestSchema, subscription)).toEqual([
    { field: 'businessIds', message: NULL },
  ])
})

test('a broken rule of a field takes precedence over U+0000 in it', () => {
  const payment = create(RecordPaymentRequestSchema, { ...PAYMENT, sessionId: 'a\0' })
  const faults = check(RecordPaymentRequestSchema, payment)
  expect(faults.map((fault) => fault.field)).toEqual(['sessionId'])
  expect(faults[0]?.message).not.toBe(NULL)
})

test('the payments of a batch are not validated with it: an invalid one does not affect others', () => {
  const payments = [{ narration: '\0' }, {}]
  const batch = create(RecordPaymentsRequestSchema, { payments })
  expect(check(RecordPaymentsRequestSchema, batch)).toEqual([])
})

const TIMES = {
  'before the year 1': { seconds: -62_135_596_801n },
  'after the year 9999': { seconds: 253_402_300_800n },
  'as far as int64': { seconds: 2n ** 63n - 1n },
  'of less than no nanoseconds': { seconds: 1n, nanos: -1 },
  'of a whole second of nanoseconds': { seconds: 1n, nanos: 1_000_000_000 },
}

test.each(Object.entries(TIMES))('a time %s is a fault, in a message and in a oneof', (_, time) => {
  const recover = create(RecoverRequestSchema, { endpointId: 'ep_1', since: time })
  expect(check(RecoverRequestSchema, recover)).toMatchObject([{ field: 'since' }])
  const key = create(IssueKeyRequestSchema, { businessId: 'biz_1', expiresAt: time })
  expect(check(IssueKeyRequestSchema, key)).toMatchObject([{ field: 'expiresAt' }])
  const start = { case: 'since' as const, value: time }
  const subscription = create(SubscribeRequestSchema, { start })
  expect(check(SubscribeRequestSchema, subscription)).toMatchObject([{ field: 'since' }])
})

test('the first and the last second that a time may be have no fault', () => {
  for (const seconds of [253_402_300_799n, -62_135_596_800n]) {
    const recover = create(RecoverRequestSchema, { endpointId: 'ep_1', since: { seconds } })
    expect(check(RecoverRequestSchema, recover)).toEqual([])
  }
})
