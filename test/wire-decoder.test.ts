import { create, type DescMessage, fromBinary, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { EventSchema } from '../gen/inflow/event/v1/event_pb.ts'
import {
  ListEventsResponseSchema,
  SubscribeRequestSchema,
} from '../gen/inflow/event/v1/event_service_pb.ts'
import {
  RecordPaymentRequestSchema,
  RecordPaymentsRequestSchema,
} from '../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { compileWireDecoder } from '../src/wire-decoder.ts'

const SCHEMAS: readonly DescMessage[] = [
  EventSchema,
  ListEventsResponseSchema,
  SubscribeRequestSchema,
  RecordPaymentRequestSchema,
  RecordPaymentsRequestSchema,
]

/** What reading came to: the message, or that there is none. */
function outcome(read: () => unknown): unknown {
  try {
    return { message: read() }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

function agrees(schema: DescMessage, bytes: Uint8Array): void {
  const decode = compileWireDecoder(schema)
  expect(outcome(() => decode(bytes))).toStrictEqual(outcome(() => fromBinary(schema, bytes)))
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.constantFrom('', '\ufffd', 'é'.repeat(100), 'a'.repeat(20_000)),
)
const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(0n, 1n, 150_050n, 2n ** 49n - 1n, 2n ** 49n, -1n),
)
const payment = fc.record(
  {
    bank: fc.integer({ min: -1, max: 9 }),
    accountNumber: text,
    sessionId: text,
    amountMinor: int64,
    paidAt: fc.record({ seconds: int64, nanos: fc.integer() }),
    payer: fc.record({ name: text, bankName: text }, { requiredKeys: [] }),
    narration: text,
    status: fc.integer({ min: 0, max: 5 }),
  },
  { requiredKeys: [] },
)

test('what a writer makes is read as the library reads it', () => {
  fc.assert(
    fc.property(fc.array(payment, { maxLength: 5 }), (payments) => {
      const message = create(RecordPaymentsRequestSchema, { payments } as never)
      agrees(RecordPaymentsRequestSchema, toBinary(RecordPaymentsRequestSchema, message))
      for (const one of message.payments) {
        agrees(RecordPaymentRequestSchema, toBinary(RecordPaymentRequestSchema, one))
      }
    }),
    { numRuns: 300 },
  )
})

test('oneofs, nested messages and presence are read as the library reads them', () => {
  const starts = [
    {},
    { start: { case: 'cursor' as const, value: 'c' } },
    { start: { case: 'beginning' as const, value: true } },
    { start: { case: 'since' as const, value: { seconds: 1n, nanos: 2 } } },
  ]
  for (const start of starts) {
    const message = create(SubscribeRequestSchema, { ...start, kinds: ['A', 'B'] })
    agrees(SubscribeRequestSchema, toBinary(SubscribeRequestSchema, message))
  }
})

test('changed, cut, repeated and random bytes are read, or refused, as the library does', () => {
  const spoil = fc.record({
    message: payment,
    at: fc.nat(),
    byte: fc.integer({ min: 0, max: 255 }),
    how: fc.constantFrom('change', 'cut', 'repeat', 'random'),
    random: fc.uint8Array({ maxLength: 60 }),
  })
  fc.assert(
    fc.property(
      spoil,
      fc.constantFrom(...SCHEMAS),
      ({ message, at, byte, how, random }, schema) => {
        const written = toBinary(
          RecordPaymentRequestSchema,
          create(RecordPaymentRequestSchema, message as never),
        )
        const place = written.length === 0 ? 0 : at % written.length
        const bytes = {
          change: () => written.with(place, byte),
          cut: () => written.subarray(0, place),
          repeat: () => Buffer.concat([written, written]),
          random: () => random,
        }[written.length === 0 ? 'random' : how]()
        agrees(schema, bytes)
      },
    ),
    { numRuns: 2_000 },
  )
})
