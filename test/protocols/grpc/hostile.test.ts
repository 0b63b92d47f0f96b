import type { EventEmitter } from 'node:events'
import { status } from '@grpc/grpc-js'
import { expect, test } from 'vitest'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { waitFor } from '../../support/wait-for.ts'
import {
  beginCall,
  callUnary,
  openClient,
  openRawCall,
  openSession,
  openTestServer,
} from './fixture.ts'

const { getTransaction } = TransactionService.method
const LOOK_UP = { sessionId: 'session-1', businessId: 'biz_1' }
const CHECK = '/grpc.health.v1.Health/Check'
const WATCH = '/grpc.health.v1.Health/Watch'
const PATH = `/${TransactionService.typeName}/${getTransaction.name}`

/** A server whose answers a well-behaved client checks. */
async function openLookUps(options: Parameters<typeof openTestServer>[0]['options'] = {}) {
  const opened = await openTestServer({
    transactions: { getTransaction: ({ sessionId }) => ({ transaction: { sessionId } }) },
    options,
  })
  const client = openClient(opened.address)
  const look = async () => {
    const { message, error } = await callUnary(client, getTransaction, LOOK_UP)
    expect(error).toBeUndefined()
    expect(message?.transaction?.sessionId).toBe('session-1')
  }
  await waitFor(look)
  return { ...opened, look }
}

/** The end of a stream or session, whether in good order or not. */
function closing(emitter: EventEmitter): Promise<void> {
  return new Promise((resolve) => emitter.once('close', () => resolve()))
}

/** Calls again and again while the attack lasts, and once after. */
async function meanwhile(look: () => Promise<void>, attack: Promise<unknown>): Promise<void> {
  let over = false
  const ended = attack.finally(() => {
    over = true
  })
  do await look()
  while (!over)
  await ended
  await look()
}

test('a client with a closed window holds a bounded number of calls, and delays no other client', async () => {
  const { address, look, server } = await openLookUps({
    grpcLimits: { streamsPerAddressMax: 50 },
  })
  const session = openSession(address, { initialWindowSize: 0 })
  const codes: number[] = []
  const open = () => {
    const stream = beginCall(session, CHECK)
    stream.on('close', () => codes.push(stream.rstCode))
    stream.end(Buffer.alloc(5))
  }
  for (let count = 0; count < 70; count++) open()
  // The well-behaved client has the same address here: the first to go are those over the bound.
  await waitFor(() => expect(codes.length).toBeGreaterThanOrEqual(20))
  expect(new Set(codes)).toEqual(new Set([11]))
  session.destroy()
  await waitFor(() => expect(server.connections()).toBe(1))
  await waitFor(look)
})

test('an incomplete request is ended in time, a complete one is not', async () => {
  const { address, look, server } = await openLookUps({ grpcLimits: { requestMs: 1_000 } })
  const session = openSession(address)
  const streams = Array.from({ length: 50 }, () => {
    const stream = beginCall(session, PATH)
    // A byte now and then, of a message of 1,000.
    stream.write(Buffer.from([0, 0, 0, 3, 232, 1]))
    return stream
  })
  await meanwhile(look, Promise.all(streams.map((stream) => closing(stream))))
  expect(new Set(streams.map((stream) => stream.rstCode))).toEqual(new Set([11]))
  expect(server.connections()).toBe(2)
})

test('a client that keeps exceeding limits loses its connection', async () => {
  const { address, look, server } = await openLookUps({ grpcLimits: { requestMs: 20 } })
  const session = openSession(address)
  const closed = closing(session)
  const again = () => {
    if (session.destroyed || session.closed) return
    const stream = beginCall(session, PATH)
    stream.on('close', again)
  }
  for (let count = 0; count < 10; count++) again()
  await closed
  await waitFor(look)
  await waitFor(() => expect(server.connections()).toBe(1))
})

test('watches of health are bounded', async () => {
  const { address, look } = await openLookUps()
  const [session, other] = [openSession(address), openSession(address)]
  const watch = (from: typeof session) => {
    const stream = beginCall(from, WATCH)
    stream.end(Buffer.alloc(5))
    return new Promise<string>((resolve) => {
      stream.once('response', (headers) => resolve(String(headers['grpc-status'] ?? 'open')))
    })
  }
  const first = await Promise.all(Array.from({ length: 1_000 }, () => watch(session)))
  expect(new Set(first)).toEqual(new Set(['open']))
  expect(await watch(other)).toBe(String(status.RESOURCE_EXHAUSTED))
  await look()
})

test('a response that its client does not read ends its stream, not its connection', async () => {
  const { address, look, server } = await openLookUps({ grpcLimits: { responseMs: 100 } })
  const session = openSession(address, { initialWindowSize: 0 })
  const stream = beginCall(session, CHECK)
  stream.end(Buffer.alloc(5))
  await meanwhile(look, closing(stream))
  expect(stream.rstCode).toBe(8)
  expect(server.connections()).toBe(2)
})

test('a subscriber that reads nothing is ended, and its source freed', async () => {
  let freed = false
  const cursor = 'c'.repeat(10_000)
  const { address, server } = await openTestServer({
    events: {
      async *subscribe() {
        try {
          for (;;) yield { item: { case: 'checkpoint' as const, value: { cursor } } }
        } finally {
          freed = true
        }
      },
    },
    options: { grpcLimits: { streamStallMs: 100 } },
  })
  const call = openRawCall(address, EventService.method.subscribe, {})
  await closing(call)
  expect(call.rstCode).toBe(8)
  expect(freed).toBe(true)
  expect(server.connections()).toBe(1)
})

test('a connection is replaced at its maximum age, with a grace period for calls in progress', async () => {
  const { address, look, server } = await openLookUps({
    grpcLimits: { connectionAgeMs: 5_000, connectionAgeGraceMs: 3_000 },
  })
  const session = openSession(address)
  const goneAway = new Promise<number>((resolve) => session.once('goaway', resolve))
  const watch = beginCall(session, WATCH)
  let updates = 0
  watch.on('data', () => {
    updates += 1
  })
  watch.end(Buffer.alloc(5))
  expect(await goneAway).toBe(0)
  expect(watch.closed).toBe(false)
  expect(updates).toBe(1)
  // A well-behaved client opens another connection, and loses no call.
  await meanwhile(look, closing(watch))
  await waitFor(() => expect(server.connections()).toBe(0))
  await look()
})
