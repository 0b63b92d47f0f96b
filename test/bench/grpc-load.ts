import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { type GrpcTarget, openGrpc } from './clients.ts'
import { openGrpcConnection } from './grpc-connection.ts'
import { type Caller, type Load, runCallers } from './load.ts'
import { ACCOUNTS, accountNumberOf, sessionIdOf } from './seed.ts'

/** Which calls are made, so many at a time. */
export type Calls =
  /** Into accounts with numbers from 1 to this one. */
  | { readonly kind: 'record'; readonly accounts: number }
  | { readonly kind: 'record-batch'; readonly payments: number }
  | { readonly kind: 'look-up'; readonly businessId: string; readonly transactions: number }

const CONNECTIONS = 4

export function startGrpcLoad(
  bench: Bench,
  { address, token }: GrpcTarget,
  calls: Calls,
  inFlight = 64,
): Promise<Load> {
  const options = { address, token, calls, inFlight }
  return startChild(bench, import.meta.filename, grpcLoad, options)
}

export async function grpcLoad(
  options: GrpcTarget & { readonly calls: Calls; readonly inFlight: number },
) {
  const callerOf = await openCallers(options, options.calls)
  const callers = Array.from({ length: options.inFlight }, (_, lane) => callerOf(lane))
  return { ready: undefined, run: (seconds: number) => runCallers(callers, seconds) }
}

/** Returns how a lane calls, one call after the other on one connection; each response is checked. */
async function openCallers(target: GrpcTarget, calls: Calls): Promise<(lane: number) => Caller> {
  const { method } = TransactionService
  if (calls.kind === 'record') {
    const call = await openBare(target, method.recordPayment)
    return (lane) => (done) => {
      call(lane, newPayment(calls.accounts), (failure, response) => {
        done(failure ?? faultOf(response ? [response] : []))
      })
    }
  }
  if (calls.kind === 'record-batch') {
    const { call } = openGrpc(target, method.recordPayments, CONNECTIONS)
    return () => (done) => {
      const payments = Array.from({ length: calls.payments }, () => newPayment(ACCOUNTS))
      call({ payments }, (failure, { results = [] } = {} as never) => {
        done(failure ?? faultOf(results, calls.payments))
      })
    }
  }
  const { businessId, transactions } = calls
  const call = await openBare(target, method.getTransaction)
  return (lane) => (done) => {
    const sessionId = sessionIdOf(1 + Math.floor(Math.random() * transactions))
    call(lane, { businessId, sessionId }, (failure, response) => {
      done(failure ?? (response?.transaction === undefined ? 'no transaction' : undefined))
    })
  }
}

/** Small calls in bare frames: node:http2 takes four times the CPU time, and makes packets of what one could hold. */
export async function openBare<I extends DescMessage, O extends DescMessage>(
  { address, token }: GrpcTarget,
  method: DescMethod & { readonly input: I; readonly output: O },
) {
  const path = `/${method.parent.typeName}/${method.name}`
  const opened = Array.from({ length: CONNECTIONS }, () =>
    openGrpcConnection({ address, path, token }),
  )
  const connections = await Promise.all(opened)
  return (
    lane: number,
    message: MessageInitShape<I>,
    done: (failure: string | undefined, response?: MessageShape<O>) => void,
  ): void => {
    const bytes = toBinary(method.input, create(method.input, message))
    connections[lane % CONNECTIONS]!.call(bytes, (response) => {
      if (typeof response === 'string') done(response)
      else done(undefined, fromBinary(method.output, response))
    })
  }
}

function faultOf(results: readonly { outcome: RecordOutcome }[], count = 1): string | undefined {
  if (results.length !== count) return `${results.length} results`
  const other = results.find(({ outcome }) => outcome !== RecordOutcome.RECORDED)
  return other && `outcome ${other.outcome}`
}

/** A payment into any account. */
function newPayment(accounts: number) {
  const nowMs = Date.now()
  return {
    bank: Bank.BANK_9PSB,
    accountNumber: accountNumberOf(1 + Math.floor(Math.random() * accounts)),
    sessionId: newSessionId(nowMs),
    amountMinor: BigInt(1 + Math.floor(Math.random() * 10_000_000)),
    paidAt: timestampFromMs(nowMs),
    payer: {
      name: 'Chinedu Okafor',
      accountNumber: '0123456789',
      bankCode: '000013',
      bankName: 'GTBank Plc',
    },
    narration: 'Transfer for order 123456',
  }
}

/** Like a bank's: institution, second, number. */
export function newSessionId(nowMs: number): string {
  const second = new Date(nowMs).toISOString().replaceAll(/\D/g, '').slice(2, 14)
  return `000013${second}${String(Math.floor(Math.random() * 1e12)).padStart(12, '0')}`
}
