import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fromBinary } from '@bufbuild/protobuf'
import {
  EventService,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { listen } from '../support/listen.ts'
import type { Bench } from './bench.ts'
import { type Child, startChild } from './child.ts'
import { type GrpcTarget, openGrpc, openHttp } from './clients.ts'
import { nextTurn, sendAtRate } from './load.ts'

/** Payments at a constant rate, or so many at a time: the next of each when all of the one before has arrived. */
type Payments = GrpcTarget & {
  readonly accountNumbers: readonly string[]
  readonly seconds: number
  readonly subscribers?: number
  /** Whether each leads to a webhook to this program. */
  readonly webhooks?: boolean
  /** Looks up each payment when it has been recorded. */
  readonly lookUp?: { readonly url: string; readonly secretKey: string }
} & ({ readonly perSecond: number } | { readonly atATime: number; readonly pauseMaxMs: number })

/** What has arrived, in milliseconds from sending each payment, or from its response. */
interface Arrived {
  readonly responses: readonly number[]
  readonly events: (from: 'sent' | 'responded') => readonly number[]
  readonly webhooks: (from: 'sent' | 'responded') => readonly number[]
}

interface Payment {
  readonly sentMs: number
  respondedMs: number
  lookedUpMs: number
  readonly eventsMs: number[]
  readonly webhooksMs: number[]
}

/** Starts a program that makes payments. */
export function startPayments(bench: Bench): Promise<PaymentsChild> {
  return startChild(bench, import.meta.filename, payments, undefined)
}

type PaymentsChild = Child<
  string,
  Payments,
  { readonly payments: readonly Payment[]; readonly failures: readonly string[] }
>

/** Makes payments. Fails unless every response, event and webhook arrives. */
export async function pay(child: PaymentsChild, command: Payments): Promise<Arrived> {
  const { payments, failures } = await child.run(command)
  if (failures.length > 0) throw new Error(`${failures.length} failures, first: ${failures[0]}`)
  const since = (kind: 'eventsMs' | 'webhooksMs') => (from: 'sent' | 'responded') =>
    payments.flatMap((each) => each[kind].map((atMs) => atMs - each[`${from}Ms`]))
  return {
    responses: payments.map(({ sentMs, respondedMs }) => respondedMs - sentMs),
    events: since('eventsMs'),
    webhooks: since('webhooksMs'),
  }
}

/** How long the last may take. */
const LAST_MS = 30_000

/** The program. It receives the webhooks too. Ready: their URL. */
export async function payments() {
  let sent = new Map<string, Payment>()
  let failures: string[] = []
  let missing = 0
  const arrive = (sessionId: string, kind: 'eventsMs' | 'webhooksMs', expected: number): void => {
    const nowMs = performance.now()
    const payment = sent.get(sessionId)
    if (payment === undefined || payment[kind].length === expected) return
    payment[kind].push(nowMs)
    missing -= 1
  }
  const server = createServer(async (request, response) => {
    const { data } = (await json(request)) as { data: { transaction_ref: string } }
    arrive(data.transaction_ref, 'webhooksMs', 1)
    response.writeHead(204).end()
  })
  server.keepAliveTimeout = 60_000
  const address = `127.0.0.1:${await listen(server)}`
  let number = 0
  const run = async (command: Payments) => {
    const { accountNumbers, seconds, subscribers = 0, webhooks = false, lookUp } = command
    sent = new Map()
    failures = []
    missing = 0
    const recorder = openGrpc(command, TransactionService.method.recordPayment, 2)
    const events = openGrpc(command, EventService.method.subscribe, 2)
    const find = lookUp && openHttp(lookUp.url, 32, `Bearer ${lookUp.secretKey}`)
    const subscribe = () =>
      new Promise<void>((resolve, reject) => {
        const onMessage = (bytes: Buffer) => {
          const { item } = fromBinary(SubscribeResponseSchema, bytes)
          // The first message is a checkpoint.
          if (item.case !== 'event') return resolve()
          const { payload } = item.value
          if (payload.case === 'transaction')
            arrive(payload.value.sessionId, 'eventsMs', subscribers)
        }
        events.stream({}, onMessage, (failure) => reject(new Error(failure)))
      })
    await Promise.all(Array.from({ length: subscribers }, subscribe))
    const send = (): Payment => {
      number += 1
      const sessionId = `L${process.pid}-${number}`
      const accountNumber = accountNumbers[number % accountNumbers.length] as string
      const later = { respondedMs: Number.NaN, lookedUpMs: Number.NaN }
      const payment = { sentMs: performance.now(), ...later, eventsMs: [], webhooksMs: [] }
      sent.set(sessionId, payment)
      missing += 1 + subscribers + (webhooks ? 1 : 0) + (lookUp ? 1 : 0)
      const request = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 150_050n }
      recorder.call(request, (failure, response) => {
        payment.respondedMs = performance.now()
        missing -= 1
        if (response?.outcome !== RecordOutcome.RECORDED)
          failures.push(`payment: ${failure ?? `outcome ${response?.outcome}`}`)
        find?.(JSON.stringify({ session_id: sessionId }), (failure) => {
          payment.lookedUpMs = performance.now()
          missing -= 1
          if (failure !== undefined) failures.push(`look-up: ${failure}`)
        })
      })
      return payment
    }
    const untilMs = performance.now() + seconds * 1_000
    const isOver = () => failures.length > 0 || performance.now() > untilMs + LAST_MS
    if ('perSecond' in command) {
      await sendAtRate(Math.round(seconds * command.perSecond), command.perSecond, send)
    } else {
      const caller = async (): Promise<void> => {
        while (performance.now() < untilMs && !isOver()) {
          await sleep(Math.random() * command.pauseMaxMs)
          const payment = send()
          const hasArrived = () =>
            payment.respondedMs > 0 &&
            (payment.lookedUpMs > 0 || !lookUp) &&
            payment.eventsMs.length === subscribers &&
            payment.webhooksMs.length === (webhooks ? 1 : 0)
          while (!hasArrived() && !isOver()) await nextTurn()
        }
      }
      await Promise.all(Array.from({ length: command.atATime }, caller))
    }
    while (missing > 0 && !isOver()) await nextTurn()
    recorder.close()
    events.close()
    if (missing > 0) failures.push(`${missing} responses, events or webhooks are missing`)
    return { payments: [...sent.values()], failures }
  }
  return { ready: `http://${address}/`, run }
}
