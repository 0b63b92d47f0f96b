import { create, toBinary } from '@bufbuild/protobuf'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { childProcessMain } from '../child-process-main.ts'
import { ACCOUNTS, accountNumberOf } from '../seed.ts'
import { openGrpcConnection } from './grpc-connection.ts'
import type { LoadCommand, LoadResult } from './run-callers.ts'
import { nextTurn, sendAtRate } from './send-at-rate.ts'

/** Payments at a constant rate, however long each takes. */
export interface PacedLoadOptions {
  readonly address: string
  readonly token: string
  readonly paymentsPerSecond: number
}

/** How long responses may take after the last payment. */
const LAST_MS = 10_000

childProcessMain<PacedLoadOptions, undefined, LoadCommand, LoadResult>(async (options) => {
  const { address, token, paymentsPerSecond } = options
  const { typeName, method } = TransactionService
  const path = `/${typeName}/${method.recordPayment.name}`
  const recorder = await openGrpcConnection({ address, token, path })
  let number = 0
  return {
    ready: undefined,
    async run({ seconds }) {
      const latenciesMs: number[] = []
      const failures: string[] = []
      const started = performance.now()
      const send = (): void => {
        number += 1
        const payment = create(RecordPaymentRequestSchema, {
          bank: Bank.BANK_9PSB,
          accountNumber: accountNumberOf(1 + (number % ACCOUNTS)),
          sessionId: `P${process.pid}-${number}`,
          amountMinor: 150_050n,
        })
        const sent = performance.now()
        recorder.call(toBinary(RecordPaymentRequestSchema, payment), (response) => {
          if (typeof response === 'string') failures.push(response)
          else latenciesMs.push(performance.now() - sent)
        })
      }
      const count = Math.round(seconds * paymentsPerSecond)
      await sendAtRate(count, paymentsPerSecond, send)
      const until = performance.now() + LAST_MS
      while (latenciesMs.length + failures.length < count && performance.now() < until)
        await nextTurn()
      const missing = count - latenciesMs.length - failures.length
      if (missing > 0) failures.push(`${missing} payments had no response`)
      const sorted = Float64Array.from(latenciesMs).sort()
      const at = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN
      return {
        callsPerSecond: latenciesMs.length / ((performance.now() - started) / 1000),
        p50Ms: at(0.5),
        p99Ms: at(0.99),
        failures: failures.length,
        firstFailure: failures[0],
      }
    },
  }
})
