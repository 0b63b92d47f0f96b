import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import {
  EventService,
  SubscribeRequestSchema,
  SubscribeResponseSchema,
} from '../../../gen/inflow/event/v1/event_service_pb.ts'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { childProcessMain } from '../child-process-main.ts'
import { ACCOUNTS, accountNumberOf } from '../seed.ts'
import { openGrpcConnection } from './grpc-connection.ts'
import type { LoadCommand } from './run-callers.ts'
import { sendAtRate } from './send-at-rate.ts'
import { openStreams } from './streams.ts'

/** Payments at a constant rate, and subscribers that receive them. */
export interface LatencyLoadOptions {
  readonly address: string
  readonly token: string
  readonly subscribers: number
  readonly paymentsPerSecond: number
}

/** From sending a payment to having it at a subscriber. */
export interface LatencyResult {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly events: number
  /** Payments sent, times subscribers. */
  readonly expected: number
}

/** How long events may take after the last payment. */
const LAST_MS = 5_000

childProcessMain<LatencyLoadOptions, undefined, LoadCommand, LatencyResult>(async (options) => {
  const { address, token, subscribers, paymentsPerSecond } = options
  const path = (service: { typeName: string }, method: { name: string }) =>
    `/${service.typeName}/${method.name}`
  const recorder = await openGrpcConnection({
    address,
    token,
    path: path(TransactionService, TransactionService.method.recordPayment),
  })
  const source = openStreams({
    address,
    token,
    path: path(EventService, EventService.method.subscribe),
    request: toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema)),
    connections: 2,
  })
  const sentAt = new Map<string, number>()
  let latencies: number[] = []
  await Promise.all(
    Array.from({ length: subscribers }, () =>
      subscribe(source, sentAt, (ms) => latencies.push(ms)),
    ),
  )
  let number = 0
  const send = (): void => {
    number += 1
    const sessionId = `L${process.pid}-${number}`
    const payment = create(RecordPaymentRequestSchema, {
      bank: Bank.BANK_9PSB,
      accountNumber: accountNumberOf(1 + (number % ACCOUNTS)),
      sessionId,
      amountMinor: 150_050n,
    })
    sentAt.set(sessionId, performance.now())
    recorder.call(toBinary(RecordPaymentRequestSchema, payment), (response) => {
      if (typeof response === 'string') throw new Error(response)
    })
  }
  return {
    ready: undefined,
    async run({ seconds }) {
      latencies = []
      sentAt.clear()
      const payments = Math.round(seconds * paymentsPerSecond)
      await sendAtRate(payments, paymentsPerSecond, send)
      const expected = payments * subscribers
      const until = performance.now() + LAST_MS
      while (latencies.length < expected && performance.now() < until) await nextTurn()
      const sorted = Float64Array.from(latencies).sort()
      const at = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN
      return { p50Ms: at(0.5), p99Ms: at(0.99), events: latencies.length, expected }
    },
  }
})

/** Resolves when the subscription is established. */
function subscribe(
  source: ReturnType<typeof openStreams>,
  sentAt: ReadonlyMap<string, number>,
  onEvent: (latencyMs: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    source.open(
      (bytes) => {
        const now = performance.now()
        const { item } = fromBinary(SubscribeResponseSchema, bytes)
        if (item.case !== 'event') return resolve()
        const { payload } = item.value
        const sent = payload.case === 'transaction' && sentAt.get(payload.value.sessionId)
        if (sent) onEvent(now - sent)
      },
      (failure) => reject(new Error(failure ?? 'the stream ended')),
    )
  })
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1))
}
