import { constants } from 'node:http2'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  EventService,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import { encodeCursor, tagOf } from '../../src/events/cursor.ts'
import { connectStream } from './bare-servers.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { type GrpcTarget, openGrpc } from './clients.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import { pay, startPayments } from './payments.ts'
import {
  type Benchmark,
  type Contender,
  compare,
  latencyRow,
  median,
  percentile,
  roundsOf,
  withCores,
} from './rounds.ts'
import { ACCOUNT_NUMBERS, withClient } from './seed.ts'
import { openBusiness, startLocalService, startSeeded, startService } from './service.ts'

export const SUBSCRIBERS = 100
export const EVENTS = 2_000

/** Subscribers that concurrently read the log from its beginning, against connect-node's streaming. */
export const fanout: Benchmark = async (bench) => {
  const databaseUrl = await bench.createDatabase()
  const events = bench.quick ? 500 : EVENTS
  const messages = await seedEvents(databaseUrl, events)
  const service = await startService(bench, databaseUrl)
  const bareServers = new URL('bare-servers.ts', import.meta.url).pathname
  const bare = await startChild(bench, bareServers, connectStream, messages)
  const theirs = { address: bare.ready, token: service.token }
  const what = `${SUBSCRIBERS} gRPC subscribers, ${events.toLocaleString('en')} events each`
  const contenders = [
    await subscribers(bench, 'Inflow', service, events, service.pid),
    await subscribers(bench, "connect-node's streaming", theirs, events, bare.pid),
  ] as const
  return compare(bench, what, 4, contenders, ' messages/s')
}

async function subscribers(
  bench: Bench,
  name: string,
  target: GrpcTarget,
  events: number,
  service: number,
): Promise<Contender> {
  const load = await startSubscribers(bench, target, events)
  const measure = () => withCores({ load: load.pid, service }, () => load.run(undefined))
  return { name, measure }
}

export function startSubscribers(bench: Bench, { address, token }: GrpcTarget, messages: number) {
  const options = { address, token, messages }
  return startChild(bench, import.meta.filename, subscriberLoad, options)
}

/** Runs until each subscriber has its messages. Output: messages per second of all. */
export async function subscriberLoad({
  messages,
  ...target
}: GrpcTarget & { readonly messages: number }) {
  const run = async (_: undefined): Promise<number> => {
    const source = openGrpc(target, EventService.method.subscribe, 4)
    const started = performance.now()
    const read = () =>
      new Promise<void>((resolve, reject) => {
        let left = messages
        const onMessage = () => {
          left -= 1
          if (left > 0) return
          stream.close(constants.NGHTTP2_CANCEL)
          resolve()
        }
        const onEnd = (failure = 'the stream ended') =>
          reject(new Error(`${failure}; ${left} messages are missing`))
        const request = { start: { case: 'beginning', value: true } } as const
        const stream = source.stream(request, onMessage, onEnd)
      })
    await Promise.all(Array.from({ length: SUBSCRIBERS }, read))
    const seconds = (performance.now() - started) / 1000
    source.close()
    return (SUBSCRIBERS * messages) / seconds
  }
  return { ready: undefined, run }
}

/**
 * The time from sending a payment to its event's arrival at a subscriber: more than from the commit, which cannot be
 * observed from outside.
 */
export const latency: Benchmark = async (bench) => {
  const service = await startSeeded(bench)
  const load = await startPayments(bench)
  const rate = { perSecond: 1_000, subscribers: 10 }
  const measure = (seconds: number) =>
    pay(load, { ...service, ...rate, accountNumbers: ACCOUNT_NUMBERS, seconds })
  await measure(1)
  const [p50, p99] = await roundsOf(bench, ['p50', 'p99'], async () => {
    const cpuUsage = trackCpuUsage({ load: load.pid, service: service.pid })
    const events = (await measure(bench.seconds)).events('sent')
    const details = cpuUsage()
    return [{ value: percentile(events, 0.5), details }, { value: percentile(events, 0.99) }]
  })
  const what = `sent → subscriber, ${rate.perSecond}/s, ${rate.subscribers} subscribers`
  return [latencyRow(`${what}, p50`, p50, 10), latencyRow(`${what}, p99`, p99, 30)]
}

/**
 * The time from the acknowledgement of a payment, right after its commit, to its event at a subscriber and its webhook
 * at the receiver, on a service that has nothing else to do.
 */
export const latencyIdle: Benchmark = async (bench) => {
  const load = await startPayments(bench)
  const service = await startLocalService(bench)
  const { accountNumbers } = await openBusiness(service, { accounts: 1, urls: [load.ready] })
  // The service is idle between payments for up to 50 ms.
  const idle = { atATime: 1, pauseMaxMs: 50, subscribers: 1, webhooks: true }
  const measure = (seconds: number) => pay(load, { ...service, ...idle, accountNumbers, seconds })
  await measure(bench.warmUpSeconds)
  const [subscriber, webhook] = await roundsOf(bench, ['subscriber', 'webhook'], async () => {
    const { responses, events, webhooks } = await measure(bench.seconds)
    const details = { 'acknowledged after ms': median(responses) }
    return [events, webhooks].map((since) => ({ value: median(since('responded')), details }))
  })
  return [
    latencyRow('committed → subscriber, one at a time, p50', subscriber, 5),
    latencyRow('committed → webhook, one at a time, p50', webhook, 10),
  ]
}

/**
 * Adds `count` events to the log.
 *
 * @param from how many it has
 * @returns the messages of a subscriber, for the yardstick to send
 */
export async function seedEvents(
  databaseUrl: string,
  count: number,
  from = 0,
): Promise<Uint8Array[]> {
  const events = Array.from({ length: count }, (_, index) => newEvent(from + index))
  const payloads = events.map((event) => toBinary(EventSchema, event))
  await withClient(databaseUrl, async (client) => {
    await client.query(
      `insert into outbox
          (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
        select id, 'biz_bench', true, 'PAYMENT_NOTIFICATION', now(), decode(payload, 'hex'),
          'txn_bench', 1
        from unnest($1::text[], $2::text[]) as e(id, payload)`,
      [events.map(({ id }) => id), payloads.map((payload) => payload.toHex())],
    )
    await client.query('select sequence_events($1)', [count + 1])
  })
  return payloads.map((payload, i) => {
    const position = BigInt(from + i + 1)
    const event = fromBinary(EventSchema, payload)
    const cursor = encodeCursor({ epoch: 1, position, tag: tagOf(event.id) })
    const value = Object.assign(event, { position, cursor, epoch: 1 })
    const response = create(SubscribeResponseSchema, { item: { case: 'event', value } })
    return toBinary(SubscribeResponseSchema, response)
  })
}

function newEvent(number: number) {
  return create(EventSchema, {
    id: `evt_01${String(number).padStart(24, '0')}`,
    businessId: 'biz_bench',
    kind: 'PAYMENT_NOTIFICATION',
    payload: {
      case: 'transaction',
      value: {
        id: `txn_01${String(number).padStart(24, '0')}`,
        businessId: 'biz_bench',
        accountReference: 'R-3479ACDEFGHJKMNPQRTW',
        sessionId: String(number).padStart(30, '9'),
        amountMinor: 150_050n,
        currency: 'NGN',
        accountNumber: '0123456789',
        accountName: 'Bench/Ada Obi',
        customerName: 'Ada Obi',
        customerEmail: 'ada@example.com',
        payer: { name: 'Chinedu Okafor', accountNumber: '0123456789', bankCode: '000013' },
        merchantReference: `order-${number}`,
      },
    },
  })
}
