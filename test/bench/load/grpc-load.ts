import { create, type DescMessage, fromBinary, type Message, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import {
  GetTransactionRequestSchema,
  type GetTransactionResponse,
  RecordOutcome,
  type RecordPaymentRequest,
  RecordPaymentRequestSchema,
  type RecordPaymentResponse,
  RecordPaymentsRequestSchema,
  type RecordPaymentsResponse,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { childProcessMain } from '../child-process-main.ts'
import { ACCOUNTS, accountNumberOf, sessionIdOf } from '../seed.ts'
import { type GrpcConnection, openGrpcConnection } from './grpc-connection.ts'
import { type Caller, type LoadCommand, type LoadResult, runCallers } from './run-callers.ts'

/** Which calls are made, `inFlight` at a time over a few connections. */
export interface GrpcLoadOptions {
  readonly address: string
  readonly token: string
  readonly connections: number
  readonly inFlight: number
  readonly call: /** Into accounts with numbers from 1 to this one. */
    | { readonly kind: 'record'; readonly accounts: number }
    | { readonly kind: 'record-batch'; readonly payments: number }
    | { readonly kind: 'look-up'; readonly businessId: string; readonly transactions: number }
}

/** A call as a client makes it. */
interface Plan {
  readonly method: { readonly name: string; readonly input: DescMessage; output: DescMessage }
  make(): Message
  /** @returns what is wrong with a response */
  check(response: Message): string | undefined
}

const { method } = TransactionService

childProcessMain<GrpcLoadOptions, undefined, LoadCommand, LoadResult>(async (options) => {
  const plan = planOf(options.call)
  const connections = await Promise.all(
    Array.from({ length: options.connections }, () => openCaller(options, plan)),
  )
  const callers = Array.from({ length: options.inFlight }, (_, caller) =>
    toLane(connections[caller % connections.length] as GrpcConnection, plan),
  )
  return { ready: undefined, run: ({ seconds }) => runCallers(callers, seconds) }
})

/** Bare frames for small calls; grpc-js, which is slower, for few and large requests. */
function openCaller(options: GrpcLoadOptions, { method }: Plan): Promise<GrpcConnection> {
  const path = `/${TransactionService.typeName}/${method.name}`
  const { address, token } = options
  if (options.call.kind !== 'record-batch') return openGrpcConnection({ address, path, token })
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${token}`)
  // A pool of its own, or all clients would share one connection.
  const settings = { 'grpc.use_local_subchannel_pool': 1 }
  const client = new Client(address, credentials.createInsecure(), settings)
  const same = (bytes: Buffer) => bytes
  const call: GrpcConnection['call'] = (message, done) => {
    client.makeUnaryRequest(path, same, same, Buffer.from(message), metadata, (error, response) =>
      done(error ? error.message : (response ?? 'no response')),
    )
  }
  return Promise.resolve({ call })
}

function toLane(connection: GrpcConnection, { method, make, check }: Plan): Caller {
  return (done) => {
    connection.call(toBinary(method.input, make()), (response) => {
      done(typeof response === 'string' ? response : check(fromBinary(method.output, response)))
    })
  }
}

function planOf(call: GrpcLoadOptions['call']): Plan {
  if (call.kind === 'record') {
    return {
      method: method.recordPayment,
      make: () => newPayment(call.accounts),
      check: (response) => checkOutcome((response as RecordPaymentResponse).outcome),
    }
  }
  if (call.kind === 'record-batch') {
    return {
      method: method.recordPayments,
      make: () =>
        create(RecordPaymentsRequestSchema, {
          payments: Array.from({ length: call.payments }, () => newPayment(ACCOUNTS)),
        }),
      check: (response) => {
        const { results } = response as RecordPaymentsResponse
        if (results.length !== call.payments) return `${results.length} results`
        return results.map((result) => checkOutcome(result.outcome)).find((fault) => fault)
      },
    }
  }
  const { businessId, transactions } = call
  return {
    method: method.getTransaction,
    make: () => {
      const sessionId = sessionIdOf(1 + Math.floor(Math.random() * transactions))
      return create(GetTransactionRequestSchema, { businessId, sessionId })
    },
    check: (response) => {
      const { transaction } = response as GetTransactionResponse
      return transaction === undefined ? 'no transaction' : undefined
    },
  }
}

/** A payment into any account. Its session id is like a bank's: institution, second, number. */
function newPayment(accounts: number): RecordPaymentRequest {
  const nowMs = Date.now()
  const second = new Date(nowMs).toISOString().replaceAll(/\D/g, '').slice(2, 14)
  const unique = String(Math.floor(Math.random() * 1e12)).padStart(12, '0')
  return create(RecordPaymentRequestSchema, {
    bank: Bank.BANK_9PSB,
    accountNumber: accountNumberOf(1 + Math.floor(Math.random() * accounts)),
    sessionId: `000013${second}${unique}`,
    amountMinor: BigInt(1 + Math.floor(Math.random() * 10_000_000)),
    paidAt: timestampFromMs(nowMs),
    payer: {
      name: 'Chinedu Okafor',
      accountNumber: '0123456789',
      bankCode: '000013',
      bankName: 'GTBank Plc',
    },
    narration: 'Transfer for order 123456',
  })
}

function checkOutcome(outcome: RecordOutcome): string | undefined {
  return outcome === RecordOutcome.RECORDED ? undefined : `outcome ${outcome}`
}
