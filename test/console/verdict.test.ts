import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { TimelineDeliverySchema } from '../../gen/inflow/overview/v1/timeline_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionSchema,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { DeliveryStatus } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { verdictOf } from '../../src/console/pages/verdict.ts'

const NOW_MS = 1_795_000_000_000
const { SUCCESS, FAILED, REVERSED } = TransactionStatus

const payment = (of: Partial<Transaction>) =>
  create(TransactionSchema, { status: SUCCESS, ...of } as Transaction)

const delivery = (host: string, status: DeliveryStatus, attemptCount = 0, error = '') =>
  create(TimelineDeliverySchema, {
    endpointUrl: `https://${host}/hook`,
    delivery: {
      id: `dlv_${host}`,
      status,
      attemptCount,
      failure: status === DeliveryStatus.FAILED ? 'the last attempt failed' : '',
      dueAt: timestampFromMs(NOW_MS + 720_000),
      latestAttempt: { error },
    },
  })

const delivered = delivery('a.example', DeliveryStatus.DELIVERED, 1)

test.each([
  [{ status: FAILED }, [], 'bad', 'The bank reports that it failed: nothing was credited.'],
  [
    { status: REVERSED },
    [],
    'good',
    'Reversed: the money is in no balance. No webhook endpoint gets it.',
  ],
  [{ imported: true }, [], 'neutral', 'Imported from another provider: it is in no balance.'],
  [
    { settled: true },
    [delivered, delivery('b.example', DeliveryStatus.PENDING)],
    'good',
    'Received and settled. On its way to a.example and b.example.',
  ],
  [
    { holdState: HoldState.HELD },
    [delivered],
    'waiting',
    'On hold, as it differs from the terms of its account: accept it or return it. Delivered to a.example.',
  ],
  [{ holdState: HoldState.ACCEPTED }, [delivered], 'good', 'Received. Delivered to a.example.'],
  [
    {},
    [delivered, delivery('shop.example', DeliveryStatus.PENDING, 2, 'responded with 500')],
    'bad',
    'Received. shop.example: responded with 500. Next attempt in 12 min.',
  ],
  [
    {},
    [
      delivery('old.example', DeliveryStatus.FAILED, 10, 'responded with 500'),
      delivery('shop.example', DeliveryStatus.PENDING, 2, 'responded with 500'),
    ],
    'bad',
    'Received. old.example does not have it: the last attempt failed.',
  ],
] as const)('a payment that is %j: %#', (of, deliveries, tone, text) => {
  const verdict = verdictOf(payment(of as Partial<Transaction>), deliveries, NOW_MS)
  expect([verdict.tone, verdict.text]).toEqual([tone, text])
})

test('what can be sent now is the delivery that is late', () => {
  const late = delivery('shop.example', DeliveryStatus.PENDING, 1, 'responded with 500')
  expect(verdictOf(payment({}), [late, delivered], NOW_MS).delivery).toBe(late.delivery)
  expect(verdictOf(payment({}), [delivered], NOW_MS).delivery).toBeUndefined()
})
