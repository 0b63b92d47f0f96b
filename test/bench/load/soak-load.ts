import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import {
  RecordOutcome,
  RecordPaymentRequestSchema,
  RecordPaymentResponseSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { subscribe } from '../../../src/client/subscribe.ts'
import { childProcessMain } from '../child-process-main.ts'
import { type GrpcConnection, openGrpcConnection } from './grpc-connection.ts'
import { nextTurn, sendAtRate } from './send-at-rate.ts'

/** The URL that receives webhooks. */
export interface SoakReady {
  readonly url: string
}

export type SoakCommand =
  /** Sets the target and subscribes. */
  | ({ readonly kind: 'open' } & Target)
  /** Payments at the maximum rate, until all their webhooks have arrived. */
  | { readonly kind: 'calibrate'; readonly seconds: number }
  | { readonly kind: 'pace'; readonly seconds: number; readonly perSecond: number }
  /** Waits for what is in progress. */
  | { readonly kind: 'drain' }

interface Target {
  readonly address: string
  readonly token: string
  /** The URL of getTransaction. */
  readonly lookUpUrl: string
  readonly key: string
  readonly accountNumbers: readonly string[]
  readonly subscribers: number
}

/** What happened during one command. */
export interface SoakResult {
  readonly seconds: number
  readonly payments: number
  readonly lookUps: number
  readonly events: number
  readonly webhooks: number
  /** Payments that were not sent because too many calls were in progress. */
  readonly skipped: number
  /** Latency of payments, from call to response. */
  readonly p99Ms: number
  readonly errors: number
  readonly firstError: string | undefined
}

/** Payments and lookups in progress; a connection may have a hundred concurrent calls. */
const IN_PROGRESS_MAX = 300
const CALIBRATION_CALLERS = 64
const DRAIN_LIMIT_MS = 120_000
const HTTP_CONNECTIONS = 32
const GRPC_CONNECTIONS = 4

const { typeName, method } = TransactionService

childProcessMain<undefined, SoakReady, SoakCommand, SoakResult>(async () => {
  const counts = { payments: 0, lookUps: 0, events: 0, webhooks: 0, skipped: 0, errors: 0 }
  const total = { payments: 0, webhooks: 0, events: 0 }
  let latenciesMs: number[] = []
  let firstError: string | undefined
  let inProgress = 0
  let target: Target | undefined
  let recorders: readonly GrpcConnection[] = []
  const agent = new Agent({ keepAlive: true, maxSockets: HTTP_CONNECTIONS })
  const fail = (text: string): void => {
    counts.errors += 1
    firstError ??= text
  }
  const url = await receive(() => {
    counts.webhooks += 1
    total.webhooks += 1
  })
  const open = async (to: Target): Promise<void> => {
    target = to
    const { address, token } = to
    const path = `/${typeName}/${method.recordPayment.name}`
    recorders = await Promise.all(
      Array.from({ length: GRPC_CONNECTIONS }, () => openGrpcConnection({ address, token, path })),
    )
    await Promise.all(
      Array.from({ length: to.subscribers }, () =>
        subscribeToPayments(address, token, countEvent, fail),
      ),
    )
  }
  const countEvent = (): void => {
    counts.events += 1
    total.events += 1
  }
  /** Records a payment, then looks it up. */
  const payAndLook = (done: () => void): void => {
    const recorder = recorders[total.payments % GRPC_CONNECTIONS]
    if (target === undefined || recorder === undefined) throw new Error('open comes first')
    const { accountNumbers, lookUpUrl, key } = target
    total.payments += 1
    inProgress += 1
    const sessionId = `S${process.pid}-${total.payments}`
    const accountNumber = accountNumbers[total.payments % accountNumbers.length] ?? ''
    const payment = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 150_050n }
    const sent = performance.now()
    const end = (): void => {
      inProgress -= 1
      done()
    }
    const message = create(RecordPaymentRequestSchema, payment)
    recorder.call(toBinary(RecordPaymentRequestSchema, message), (response) => {
      const fault = faultOf(response)
      if (fault !== undefined) {
        fail(fault)
        return end()
      }
      latenciesMs.push(performance.now() - sent)
      counts.payments += 1
      lookUp(agent, lookUpUrl, key, sessionId, (failure) => {
        if (failure === undefined) counts.lookUps += 1
        else fail(failure)
        end()
      })
    })
  }
  const send = (): void => {
    if (inProgress < IN_PROGRESS_MAX) payAndLook(() => undefined)
    else counts.skipped += 1
  }
  const drain = async (): Promise<void> => {
    const until = performance.now() + DRAIN_LIMIT_MS
    const expected = () => total.payments * (target?.subscribers ?? 0)
    const isDone = () =>
      inProgress === 0 && total.webhooks >= total.payments && total.events >= expected()
    while (!isDone() && performance.now() < until) await nextTurn()
    if (!isDone()) {
      fail(
        `${total.payments} payments led to ${total.webhooks} webhooks and ${total.events} events`,
      )
    }
  }
  const calibrate = async (seconds: number): Promise<void> => {
    const until = performance.now() + seconds * 1000
    const caller = (): void => {
      if (performance.now() < until) payAndLook(caller)
    }
    for (let i = 0; i < CALIBRATION_CALLERS; i++) caller()
    await wait(seconds * 1000)
    await drain()
  }
  return {
    ready: { url },
    async run(command) {
      const started = performance.now()
      if (command.kind === 'open') await open(command)
      else if (command.kind === 'calibrate') await calibrate(command.seconds)
      else if (command.kind === 'drain') await drain()
      else
        await sendAtRate(Math.round(command.seconds * command.perSecond), command.perSecond, send)
      const sorted = Float64Array.from(latenciesMs).sort()
      const p99Ms = sorted[Math.floor(0.99 * (sorted.length - 1))] ?? 0
      const seconds = (performance.now() - started) / 1000
      const result = { ...counts, seconds, p99Ms, firstError }
      for (const name of Object.keys(counts)) counts[name as keyof typeof counts] = 0
      latenciesMs = []
      firstError = undefined
      return result
    },
  }
})

/** Subscribes to payments for the life of the service. Resolves when the subscription is established. */
function subscribeToPayments(
  address: string,
  token: string,
  onEvent: () => void,
  fail: (text: string) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const kinds = ['PAYMENT_NOTIFICATION']
    const options = { addresses: [address], token, kinds, onCheckpoint: () => resolve() }
    const read = async (): Promise<void> => {
      for await (const _event of subscribe(options)) onEvent()
    }
    read().catch((error: unknown) => fail(`subscriber: ${error}`))
  })
}

function faultOf(response: Buffer | string): string | undefined {
  if (typeof response === 'string') return `payment: ${response}`
  const { outcome } = fromBinary(RecordPaymentResponseSchema, response)
  return outcome === RecordOutcome.RECORDED ? undefined : `payment: outcome ${outcome}`
}

/** Responds to every POST with 204. @returns the URL */
async function receive(onRequest: () => void): Promise<string> {
  const server = createServer((incoming, response) => {
    incoming.resume()
    incoming.on('end', () => {
      response.writeHead(204).end()
      onRequest()
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

function lookUp(
  agent: Agent,
  url: string,
  key: string,
  sessionId: string,
  done: (failure: string | undefined) => void,
): void {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  const outgoing = request(url, { method: 'POST', agent, headers }, (response) => {
    response.resume()
    response.on('end', () => {
      done(response.statusCode === 200 ? undefined : `look-up: ${response.statusCode}`)
    })
  })
  outgoing.on('error', (error) => done(`look-up: ${error.message}`))
  outgoing.end(JSON.stringify({ session_id: sessionId }))
}
