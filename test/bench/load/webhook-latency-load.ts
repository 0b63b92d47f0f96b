import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { create, toBinary } from '@bufbuild/protobuf'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { childProcessMain } from '../child-process-main.ts'
import { openGrpcConnection } from './grpc-connection.ts'
import { sendAtRate } from './send-at-rate.ts'

/** The URL that receives webhooks. */
export interface WebhookLatencyReady {
  readonly url: string
}

/** Payments at a constant rate. */
export interface WebhookLatencyCommand {
  readonly address: string
  readonly token: string
  readonly accountNumber: string
  readonly paymentsPerSecond: number
  readonly seconds: number
}

/** The time from sending a payment to receiving its webhook. */
export interface WebhookLatencyResult {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly received: number
  readonly expected: number
}

/** How long webhooks may take after the last payment. */
const LAST_MS = 10_000

const PATH = `/${TransactionService.typeName}/${TransactionService.method.recordPayment.name}`

childProcessMain<undefined, WebhookLatencyReady, WebhookLatencyCommand, WebhookLatencyResult>(
  async () => {
    const sentAt = new Map<string, number>()
    const latencies: number[] = []
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const now = performance.now()
        response.writeHead(204).end()
        const { data } = JSON.parse(Buffer.concat(chunks).toString())
        const sent = sentAt.get(data.transaction_ref)
        if (sent === undefined) return
        sentAt.delete(data.transaction_ref)
        latencies.push(now - sent)
      })
    })
    server.keepAliveTimeout = 60_000
    server.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    let number = 0
    return {
      ready: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` },
      async run({ address, token, accountNumber, paymentsPerSecond, seconds }) {
        const recorder = await openGrpcConnection({ address, token, path: PATH })
        latencies.length = 0
        sentAt.clear()
        const expected = Math.round(seconds * paymentsPerSecond)
        await sendAtRate(expected, paymentsPerSecond, () => {
          number += 1
          const sessionId = `L${process.pid}-${number}`
          const payment = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 150_050n }
          sentAt.set(sessionId, performance.now())
          recorder.call(
            toBinary(RecordPaymentRequestSchema, create(RecordPaymentRequestSchema, payment)),
            (response) => {
              if (typeof response === 'string') throw new Error(response)
            },
          )
        })
        const until = performance.now() + LAST_MS
        while (latencies.length < expected && performance.now() < until) {
          await new Promise((resolve) => setTimeout(resolve, 1))
        }
        const sorted = Float64Array.from(latencies).sort()
        const at = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN
        return { p50Ms: at(0.5), p99Ms: at(0.99), received: sorted.length, expected }
      },
    }
  },
)
