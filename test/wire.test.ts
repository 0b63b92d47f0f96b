import { create, type DescMessage, fromBinary, type Message, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { EventSchema } from '../gen/inflow/event/v1/event_pb.ts'
import {
  ListEventsResponseSchema,
  SubscribeResponseSchema,
} from '../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionSchema } from '../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import { TransactionSchema as InternalTransactionSchema } from '../gen/inflow/transaction/v1/transaction_pb.ts'
import { RecordPaymentResponseSchema } from '../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { compileWireEncoder } from '../src/wire.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ maxLength: 60 }),
  fc.constantFrom('', 'a'.repeat(42), 'é'.repeat(43), '€'.repeat(5_000)),
)
const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(0n, 127n, 128n, 2n ** 53n - 1n, 2n ** 53n, -1n),
)
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
const timestamp = fc.record({ seconds: int64, nanos: int32 })
const transaction = fc.record(
  {
    id: text,
    accountReference: text,
    amountMinor: int64,
    status: fc.integer({ min: 0, max: 9 }),
    settled: fc.boolean(),
    paidAt: timestamp,
    payer: fc.record({ name: text, bankName: text }),
    narration: text,
  },
  { requiredKeys: [] },
)
const event = fc.record({
  id: text,
  position: int64,
  kind: text,
  payload: fc.oneof(
    fc.constant({ case: undefined }),
    fc.record({ case: fc.constant('transaction' as const), value: transaction }),
  ),
})

function agrees<S extends DescMessage>(schema: S, message: Message): void {
  const encode = compileWireEncoder(schema)
  const expected = Buffer.from(toBinary(schema, message as never))
  expect(encode(message).equals(expected)).toBe(true)
  // The encoder keeps its buffer: what it returned before must not change.
  const first = encode(message)
  encode(create(schema) as Message)
  expect(first.equals(expected)).toBe(true)
}

test('what it writes is what the library writes, byte for byte', () => {
  fc.assert(
    fc.property(event, transaction, fc.array(event, { maxLength: 5 }), (one, payment, many) => {
      agrees(EventSchema, create(EventSchema, one as never))
      agrees(InternalTransactionSchema, create(InternalTransactionSchema, payment as never))
      const recorded = { outcome: 1, transaction: payment }
      agrees(RecordPaymentResponseSchema, create(RecordPaymentResponseSchema, recorded as never))
      agrees(
        SubscribeResponseSchema,
        create(SubscribeResponseSchema, { item: { case: 'event', value: one } } as never),
      )
      agrees(ListEventsResponseSchema, create(ListEventsResponseSchema, { events: many } as never))
    }),
    { numRuns: 300 },
  )
})

test('field types that it does not know, and unknown fields, are left to the library', () => {
  agrees(TransactionSchema, create(TransactionSchema, { amount: 1500.5, isSettled: true }))
  const event = toBinary(EventSchema, create(EventSchema, { id: 'evt_1' }))
  const newer = Buffer.concat([event, Buffer.of(0xfa, 0x3f, 1, 7)])
  agrees(EventSchema, fromBinary(EventSchema, newer))
  const item = create(SubscribeResponseSchema, {
    item: { case: 'event', value: fromBinary(EventSchema, newer) },
  })
  agrees(SubscribeResponseSchema, item)
})
