import { expect, test, vi } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { encodeHeaders } from '../../../src/server/http2/hpack-encoder.ts'
import { CODE, FLAG, FRAME, SETTING } from '../../../src/server/http2/protocol.ts'
import { openRaw } from '../../doors/http2-frames.ts'
import { callUnary, openClient, openDoor } from '../grpc-fixture.ts'
import { came, frame, framed, HEADERS, openPeer, requestHeaders, setting, uint32 } from './peer.ts'

const { getTransaction } = TransactionService.method
const LOOK_UP = { sessionId: 'session-1', businessId: 'biz_1' }
const NONE = Buffer.alloc(0)

async function openTarget(http2Limits: object = {}) {
  const opened = await openDoor({
    transactions: { getTransaction: ({ sessionId }) => ({ transaction: { sessionId } }) },
    options: { http2Limits },
  })
  const client = openClient(opened.address)
  const look = async () => {
    const { message, error } = await callUnary(client, getTransaction, LOOK_UP)
    expect(error).toBeUndefined()
    expect(message?.transaction?.sessionId).toBe('session-1')
  }
  await look()
  return { ...opened, look }
}

const open = (id: number) => frame(FRAME.headers, FLAG.endHeaders, id, HEADERS)
const many = (count: number, make: (index: number) => Buffer) =>
  Buffer.concat(Array.from({ length: count }, (_, index) => make(index)))

/** What is sent again and again, after a stream was opened. */
const FLOODS: [string, Buffer, number][] = [
  ['PING', frame(FRAME.ping, 0, 0, Buffer.alloc(8)), CODE.enhanceYourCalm],
  [
    'acknowledgements of PING',
    frame(FRAME.ping, FLAG.ack, 0, Buffer.alloc(8)),
    CODE.enhanceYourCalm,
  ],
  ['SETTINGS', frame(FRAME.settings, 0, 0, NONE), CODE.enhanceYourCalm],
  [
    'SETTINGS that change windows',
    frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 9)),
    CODE.enhanceYourCalm,
  ],
  ['acknowledgements of SETTINGS', frame(FRAME.settings, FLAG.ack, 0, NONE), CODE.enhanceYourCalm],
  ['empty DATA', frame(FRAME.data, 0, 1, NONE), CODE.enhanceYourCalm],
  [
    'padding alone',
    frame(FRAME.data, FLAG.padded, 1, Buffer.alloc(9).fill(8, 0, 1)),
    CODE.enhanceYourCalm,
  ],
  ['PRIORITY', frame(FRAME.priority, 0, 7, Buffer.alloc(5)), CODE.enhanceYourCalm],
  ['WINDOW_UPDATE', frame(FRAME.windowUpdate, 0, 1, uint32(1)), CODE.enhanceYourCalm],
  [
    'WINDOW_UPDATE of the connection',
    frame(FRAME.windowUpdate, 0, 0, uint32(1)),
    CODE.enhanceYourCalm,
  ],
  ['unknown frames', frame(0xee, 0, 0, NONE), CODE.enhanceYourCalm],
  ['DATA of a stream that is over', frame(FRAME.data, 0, 3, Buffer.of(1)), CODE.enhanceYourCalm],
]

test.each(FLOODS)('a flood of %s ends its connection, and harms no other', async (_, one, code) => {
  const { address, look, door } = await openTarget()
  const peer = openPeer(address)
  const done = frame(FRAME.headers, FLAG.endHeaders, 3, requestHeaders({ ':path': '/none' }))
  peer.send(open(1), done, frame(FRAME.rstStream, 0, 3, uint32(8)))
  await came(peer, FRAME.rstStream, 3)
  const ended = peer.goneAway()
  // At the most that is borne in a burst, and what comes of it later.
  peer.send(...Array.from({ length: 30 }, () => many(500, () => one)))
  await look()
  expect(await ended).toBe(code)
  await look()
  await vi.waitFor(() => expect(door.connections()).toBe(1))
})

test('streams that are reset in a loop end the connection', async () => {
  const { address, look } = await openTarget()
  const peer = openPeer(address)
  peer.send(
    many(3_000, (index) =>
      Buffer.concat([open(index * 2 + 1), frame(FRAME.rstStream, 0, index * 2 + 1, uint32(8))]),
    ),
  )
  expect(await peer.goneAway()).toBe(CODE.enhanceYourCalm)
  await look()
})

test('malformed requests in a loop end the connection', async () => {
  const { address, look } = await openTarget()
  const peer = openPeer(address)
  const headers = requestHeaders({ connection: 'close' })
  peer.send(many(3_000, (index) => frame(FRAME.headers, 5, index * 2 + 1, headers)))
  expect(await peer.goneAway()).toBe(CODE.enhanceYourCalm)
  await look()
})

test.each([
  ['many', Buffer.of(0, 1, 120, 1, 121)],
  ['empty', NONE],
  ['large', Buffer.alloc(16_000, Buffer.from(encodeHeaders([['x', 'y'.repeat(120)]])))],
])('headers that go on in %s parts end the connection', async (_, part) => {
  const { address, look } = await openTarget()
  const peer = openPeer(address)
  const parts = many(100, () => frame(FRAME.continuation, 0, 1, part))
  peer.send(frame(FRAME.headers, 0, 1, HEADERS), parts)
  expect(await peer.goneAway()).toBe(CODE.enhanceYourCalm)
  await look()
})

test('headers that never end, without a flood, end the connection in time', async () => {
  const { address, look } = await openTarget({ requestMs: 50 })
  const peer = openPeer(address)
  peer.send(frame(FRAME.headers, 0, 1, HEADERS))
  expect(await peer.goneAway()).toBe(CODE.enhanceYourCalm)
  await look()
})

test('a bomb of HPACK is refused, and its connection goes on', async () => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  const large = Buffer.concat([Buffer.from('40017a7f911d', 'hex'), Buffer.alloc(3_856, 'v')])
  peer.send(
    frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([HEADERS, large])),
    frame(FRAME.headers, FLAG.endHeaders, 3, Buffer.concat([HEADERS, Buffer.alloc(9_000, 0xbe)])),
    frame(FRAME.data, FLAG.endStream, 1, framed(NONE)),
  )
  expect((await came(peer, FRAME.rstStream, 3)).payload.readUInt32BE(0)).toBe(CODE.enhanceYourCalm)
  await came(peer, FRAME.headers, 1)
})

test('who answers no PING is cut off, and who does is not', async () => {
  const { address, door } = await openTarget({ keepaliveMs: 50, keepaliveTimeoutMs: 200 })
  const deaf = openPeer(address)
  expect(await deaf.goneAway()).toBe('cut')
  expect(deaf.of(FRAME.ping).length).toBe(1)
  await vi.waitFor(() => expect(door.connections()).toBe(1))
})

test('answers that are not read are held up to a bound, and their connection ends beyond it', async () => {
  let asked = 0
  const { address, door } = await openDoor({
    transactions: {
      getTransaction: () => {
        asked += 1
        return { transaction: { narration: 'n'.repeat(100_000) } }
      },
    },
    interceptors: [],
  })
  const raw = openRaw(address, false)
  const call = (index: number) =>
    Buffer.concat([open(index * 2 + 1), frame(FRAME.data, 1, index * 2 + 1, framed(NONE))])
  for (let turn = 0; turn < 40 && !raw.socket.destroyed; turn++) {
    raw.socket.write(Buffer.concat(Array.from({ length: 20 }, (_, at) => call(turn * 20 + at))))
    await new Promise((resolve) => setImmediate(resolve))
  }
  await vi.waitFor(() => expect(door.connections()).toBe(0), { timeout: 20_000 })
  // 16 MiB of them, and the hundred that are refused before the connection is.
  expect(asked).toBeGreaterThan(160)
  expect(asked).toBeLessThan(500)
})

test('a body above the window that was given is an error of its stream', async () => {
  const { address, look } = await openTarget()
  const peer = openPeer(address)
  const head = Buffer.concat([Buffer.of(0), uint32(4_000_000), Buffer.alloc(16_000)])
  // All at once, before the door can have made room.
  peer.send(
    open(1),
    frame(FRAME.data, 0, 1, head),
    many(16, () => frame(FRAME.data, 0, 1, Buffer.alloc(16_384))),
  )
  peer.send(open(3), frame(FRAME.data, FLAG.endStream, 3, framed(NONE)))
  await came(peer, FRAME.headers, 3)
  await look()
})
