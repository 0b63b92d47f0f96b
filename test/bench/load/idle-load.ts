import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
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
import { openGrpcConnection } from './grpc-connection.ts'
import { openStreams } from './streams.ts'

/** The URL that receives webhooks. */
export interface IdleReady {
  readonly url: string
}

/** One payment after the other, each when the one before has arrived everywhere. */
export interface IdleCommand {
  readonly address: string
  readonly token: string
  readonly accountNumber: string
  readonly seconds: number
}

/** Milliseconds of each payment: until it was acknowledged, and from then on. */
export interface IdleResult {
  readonly acknowledged: readonly number[]
  readonly subscriber: readonly number[]
  readonly webhook: readonly number[]
}

/** The service is idle between payments for up to this long. */
const PAUSE_MS = 50
const ARRIVAL_LIMIT_MS = 10_000

const pathOf = (service: { typeName: string }, method: { name: string }) =>
  `/${service.typeName}/${method.name}`

/** Resolves what waits for a payment's arrival, by session. */
type Arrivals = Map<string, (atMs: number) => void>

childProcessMain<undefined, IdleReady, IdleCommand, IdleResult>(async () => {
  const webhooks: Arrivals = new Map()
  const url = await receive(webhooks)
  return {
    ready: { url },
    async run({ address, token, accountNumber, seconds }) {
      const recorder = await openGrpcConnection({
        ...{ address, token },
        path: pathOf(TransactionService, TransactionService.method.recordPayment),
      })
      const events: Arrivals = new Map()
      const close = await subscribe(address, token, events)
      const result = {
        acknowledged: [] as number[],
        subscriber: [] as number[],
        webhook: [] as number[],
      }
      const until = performance.now() + seconds * 1_000
      for (let number = 1; performance.now() < until; number++) {
        await sleep(Math.random() * PAUSE_MS)
        const sessionId = `I${process.pid}-${Math.round(until)}-${number}`
        const payment = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 150_050n }
        const message = create(RecordPaymentRequestSchema, payment)
        const arrivals = Promise.all([arrival(events, sessionId), arrival(webhooks, sessionId)])
        const sentAt = performance.now()
        const acknowledgedAt = await new Promise<number>((resolve, reject) => {
          recorder.call(toBinary(RecordPaymentRequestSchema, message), (response) => {
            if (typeof response === 'string') reject(new Error(response))
            else resolve(performance.now())
          })
        })
        const [subscriberAt, webhookAt] = await arrivals
        result.acknowledged.push(acknowledgedAt - sentAt)
        result.subscriber.push(subscriberAt - acknowledgedAt)
        result.webhook.push(webhookAt - acknowledgedAt)
      }
      close()
      return result
    },
  }
})

function arrival(arrivals: Arrivals, sessionId: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`${sessionId} did not arrive`))
    const timer = setTimeout(late, ARRIVAL_LIMIT_MS)
    arrivals.set(sessionId, (atMs) => {
      clearTimeout(timer)
      arrivals.delete(sessionId)
      resolve(atMs)
    })
  })
}

async function receive(webhooks: Arrivals): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const now = performance.now()
      response.writeHead(204).end()
      webhooks.get(JSON.parse(Buffer.concat(chunks).toString()).data.transaction_ref)?.(now)
    })
  })
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** Resolves when the subscription is established. @returns what ends it */
async function subscribe(address: string, token: string, events: Arrivals): Promise<() => void> {
  const source = openStreams({
    ...{ address, token, connections: 1 },
    path: pathOf(EventService, EventService.method.subscribe),
    request: toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema)),
  })
  await new Promise<void>((resolve, reject) => {
    source.open(
      (bytes) => {
        const now = performance.now()
        const { item } = fromBinary(SubscribeResponseSchema, bytes)
        if (item.case !== 'event') return resolve()
        const { payload } = item.value
        if (payload.case === 'transaction') events.get(payload.value.sessionId)?.(now)
      },
      (failure) => reject(new Error(failure ?? 'the stream ended')),
    )
  })
  return source.close
}
