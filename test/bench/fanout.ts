import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import pg from 'pg'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { SubscribeResponseSchema } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { encodeCursor, tagOf } from '../../src/events/cursor.ts'
import { alternateRounds, type Contender, detailNotes } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark } from './benchmark.ts'
import { startChildProcess } from './child-process.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import type { FanoutLoadOptions, FanoutResult } from './load/fanout-load.ts'
import { startServiceProcess } from './service-process.ts'
import type { ConnectStreamOptions, ConnectStreamReady } from './yardstick/connect-stream.ts'

export const SUBSCRIBERS = 100
export const EVENTS = 2_000
const EVENTS_QUICK = 500
const ROUND_LIMIT_MS = 60_000

export const fanout: Benchmark = {
  name: 'fanout',
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    const events = bench.quick ? EVENTS_QUICK : EVENTS
    const messages = await seedEvents(databaseUrl, events)
    const service = await startServiceProcess(bench, databaseUrl)
    const options: ConnectStreamOptions = { messages }
    const server = await startChildProcess<ConnectStreamReady, never, never>(
      bench,
      'yardstick/connect-stream.ts',
      options,
    )
    const { adminToken: token, grpcAddress: address } = service
    const toOurs = { address, token, messages: events, subscribers: SUBSCRIBERS }
    const toTheirs = { ...toOurs, address: `127.0.0.1:${server.ready.port}` }
    const figures = await alternateRounds(
      {
        ours: await subscribers(bench, 'Inflow', toOurs, service.pid),
        connect: await subscribers(bench, "connect-node's streaming", toTheirs, server.pid),
      },
      bench,
    )
    return [
      {
        name: 'fanout',
        what: `${SUBSCRIBERS} gRPC subscribers, ${events.toLocaleString('en')} events each`,
        unit: ' messages/s',
        ours: figures.ours,
        yardstick: figures.connect,
        target: { atLeastTimes: 4 },
        notes: detailNotes(figures.ours, figures.connect),
      },
    ]
  },
}

async function subscribers(
  bench: Bench,
  name: string,
  options: FanoutLoadOptions,
  pid: number,
): Promise<Contender> {
  const load = await startChildProcess<undefined, undefined, FanoutResult>(
    bench,
    'load/fanout-load.ts',
    options,
  )
  return {
    name,
    async measure() {
      const cpuUsage = trackCpuUsage({ load: load.pid, service: pid })
      const { messagesPerSecond } = await load.run(undefined, ROUND_LIMIT_MS)
      return { value: messagesPerSecond, details: cpuUsage() }
    },
  }
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
  const events = Array.from({ length: count }, (_, index) => {
    const i = from + index
    return create(EventSchema, {
      id: `evt_01${String(i).padStart(24, '0')}`,
      businessId: 'biz_bench',
      kind: 'PAYMENT_NOTIFICATION',
      payload: {
        case: 'transaction',
        value: {
          id: `txn_01${String(i).padStart(24, '0')}`,
          businessId: 'biz_bench',
          accountReference: 'R-3479ACDEFGHJKMNPQRTW',
          sessionId: String(i).padStart(30, '9'),
          amountMinor: 150_050n,
          currency: 'NGN',
          accountNumber: '0123456789',
          accountName: 'Bench/Ada Obi',
          customerName: 'Ada Obi',
          customerEmail: 'ada@example.com',
          payer: { name: 'Chinedu Okafor', accountNumber: '0123456789', bankCode: '000013' },
          merchantReference: `order-${i}`,
        },
      },
    })
  })
  const payloads = events.map((event) => Buffer.from(toBinary(EventSchema, event)))
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(
      `insert into outbox
          (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
        select id, 'biz_bench', true, 'PAYMENT_NOTIFICATION', now(), decode(payload, 'hex'),
          'txn_bench', 1
        from unnest($1::text[], $2::text[]) as e(id, payload)`,
      [events.map((event) => event.id), payloads.map((payload) => payload.toString('hex'))],
    )
    await client.query('select sequence_events($1)', [count + 1])
  } finally {
    await client.end()
  }
  return payloads.map((payload, i) => {
    const position = BigInt(from + i + 1)
    const event = fromBinary(EventSchema, payload)
    const cursor = encodeCursor({ epoch: 1, position, tag: tagOf(event.id) })
    Object.assign(event, { position, cursor, epoch: 1 })
    return toBinary(
      SubscribeResponseSchema,
      create(SubscribeResponseSchema, { item: { case: 'event', value: event } }),
    )
  })
}
