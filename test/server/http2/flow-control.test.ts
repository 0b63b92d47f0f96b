import { connect } from 'node:http2'
import { create, toBinary } from '@bufbuild/protobuf'
import { expect, onTestFinished, test, vi } from 'vitest'
import { SubscribeRequestSchema } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import {
  GetTransactionRequestSchema,
  RecordPaymentsRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { FLAG, FRAME, SETTING } from '../../../src/server/http2/protocol.ts'
import { openDoor } from '../grpc-fixture.ts'
import { came, frame, framed, openPeer, requestHeaders, setting, uint32 } from './peer.ts'

const LARGE = 'n'.repeat(50_000)
const EVENTS = 40
const SUBSCRIBE = '/inflow.event.v1.EventService/Subscribe'

/** @param reads whether messages of requests are read, and so have to be as the rules say */
async function openLarge(reads = false) {
  const seen = { pulled: 0, payments: [] as number[] }
  const opened = await openDoor({
    transactions: {
      getTransaction: () => ({ transaction: { narration: LARGE } }),
      recordPayments: ({ payments }) => {
        seen.payments.push(payments.length)
        return { results: payments.map(() => ({ outcome: 1 })) }
      },
    },
    events: {
      async *subscribe() {
        for (let n = 0; n < EVENTS; n++) {
          seen.pulled += 1
          yield {
            item: { case: 'checkpoint' as const, value: { cursor: `${n}-${'c'.repeat(700)}` } },
          }
        }
      },
    },
    ...(!reads && { interceptors: [] }),
  })
  return { ...opened, seen }
}

const lookUp = framed(toBinary(GetTransactionRequestSchema, create(GetTransactionRequestSchema)))
const subscription = framed(toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema)))

const ask = (id: number, path: string | undefined, body: Buffer) => [
  frame(
    FRAME.headers,
    FLAG.endHeaders,
    id,
    requestHeaders(path === undefined ? {} : { ':path': path }),
  ),
  frame(FRAME.data, FLAG.endStream, id, body),
]

const widen = (id: number, bytes: number) => frame(FRAME.windowUpdate, 0, id, uint32(bytes))
const initialWindow = (bytes: number) =>
  frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, bytes))

test('a window of one byte gets one byte, and what is opened later exactly as much', async () => {
  const { address } = await openLarge()
  const peer = openPeer(address, setting(SETTING.initialWindowSize, 1))
  peer.send(...ask(1, undefined, lookUp))
  await came(peer, FRAME.data, 1)
  expect(peer.body(1)).toHaveLength(1)
  peer.send(widen(1, 1), widen(1, 3))
  await vi.waitFor(() => expect(peer.body(1)).toHaveLength(5))
  const length = peer.body(1).readUInt32BE(1)
  peer.send(widen(1, length - 1))
  await vi.waitFor(() => expect(peer.body(1)).toHaveLength(length + 4))
  expect(peer.of(FRAME.headers, 1)).toHaveLength(1)
  peer.send(widen(1, 1))
  expect((await came(peer, FRAME.headers, 1, 2)).flags & FLAG.endStream).toBe(FLAG.endStream)
  expect(peer.body(1).subarray(5).includes(LARGE)).toBe(true)
})

test('windows that begin shut are opened by a setting, and go below nothing by another', async () => {
  const { address, seen } = await openLarge()
  const peer = openPeer(address, setting(SETTING.initialWindowSize, 0))
  peer.send(...ask(1, undefined, lookUp), ...ask(3, SUBSCRIBE, subscription))
  await came(peer, FRAME.headers, 3)
  expect(peer.of(FRAME.data)).toEqual([])
  expect(seen.pulled).toBe(1)
  peer.send(initialWindow(10_000))
  await vi.waitFor(() =>
    expect([peer.body(1).length, peer.body(3).length]).toEqual([10_000, 10_000]),
  )
  // 10,000 were used: that is 9,000 less than nothing.
  peer.send(initialWindow(1_000), widen(1, 9_000), frame(FRAME.ping, 0, 0, Buffer.alloc(8)))
  await came(peer, FRAME.ping, 0)
  expect(peer.body(1)).toHaveLength(10_000)
  peer.send(widen(1, 50))
  await vi.waitFor(() => expect(peer.body(1)).toHaveLength(10_050))
  peer.send(initialWindow(1_000_000))
  // What the connection gives is 65,535 for all: the rest waits.
  await vi.waitFor(() => expect(peer.body(1).length + peer.body(3).length).toBe(65_535))
  peer.send(widen(0, 100_000))
  await came(peer, FRAME.headers, 1, 2)
  const end = await came(peer, FRAME.headers, 3, 2)
  expect(end.flags & FLAG.endStream).toBe(FLAG.endStream)
  expect(seen.pulled).toBe(EVENTS)
})

test('the windows of the connection and of streams both count, for many at once', async () => {
  const { address } = await openLarge()
  const peer = openPeer(address, setting(SETTING.initialWindowSize, 2 ** 20))
  const ids = Array.from({ length: 20 }, (_, index) => index * 2 + 1)
  for (const id of ids) peer.send(...ask(id, undefined, lookUp))
  const total = () => ids.reduce((sum, id) => sum + peer.body(id).length, 0)
  let given = 65_535
  await vi.waitFor(() => expect(total()).toBe(given))
  while (peer.of(FRAME.headers).length < ids.length * 2) {
    peer.send(widen(0, 99_999))
    given += 99_999
    await vi.waitFor(() =>
      expect(total() === given || peer.of(FRAME.headers).length === ids.length * 2).toBe(true),
    )
  }
  for (const id of ids) expect(peer.body(id).length).toBe(peer.body(id).readUInt32BE(1) + 5)
})

test('a stream that is reset while its answer waits gives way to the others', async () => {
  const { address, seen } = await openLarge()
  const peer = openPeer(address)
  peer.send(
    ...ask(1, undefined, lookUp),
    ...ask(3, undefined, lookUp),
    ...ask(5, undefined, lookUp),
  )
  await vi.waitFor(() => expect(peer.body(1).length + peer.body(3).length).toBe(65_535))
  peer.send(frame(FRAME.rstStream, 0, 3, uint32(8)), widen(0, 60_000))
  await came(peer, FRAME.headers, 5, 2)
  expect(peer.of(FRAME.headers, 3)).toHaveLength(1)
  expect(seen.payments).toEqual([])
})

test('large requests of one connection, in pieces among each other, all arrive', async () => {
  const { address, seen } = await openLarge(true)
  const session = connect(`http://${address}`)
  onTestFinished(() => session.destroy())
  const payment = {
    sessionId: 's',
    narration: 'é'.repeat(1_000),
    payer: { name: 'n'.repeat(1_000) },
  }
  const sizes = [1_000, 700, 500, 300, 1]
  const codes = sizes.map((count) => {
    const payments = Array.from({ length: count }, () => payment)
    const message = create(RecordPaymentsRequestSchema, { payments })
    const body = framed(toBinary(RecordPaymentsRequestSchema, message))
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${TransactionService.typeName}/RecordPayments`,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    for (let at = 0; at < body.length; at += 7_001) stream.write(body.subarray(at, at + 7_001))
    stream.end()
    stream.resume()
    return new Promise((resolve) =>
      stream.on('trailers', (trailers) => resolve(trailers['grpc-status'])),
    )
  })
  expect(await Promise.all(codes)).toEqual(['0', '0', '0', '0', '0'])
  expect(seen.payments.toSorted((a, b) => b - a)).toEqual(sizes)
})
