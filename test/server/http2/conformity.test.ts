import { expect, test, vi } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { encodeHeaders } from '../../../src/server/http2/hpack-encoder.ts'
import { CODE, FLAG, FRAME, SETTING } from '../../../src/server/http2/protocol.ts'
import { callUnary, openClient, openDoor } from '../grpc-fixture.ts'
import {
  came,
  frame,
  framed,
  HEADERS,
  LOOK_UP,
  openPeer,
  type Peer,
  requestHeaders,
  setting,
  uint32,
} from './peer.ts'

const { getTransaction } = TransactionService.method

const LAST = FLAG.endHeaders | FLAG.endStream
const NONE = Buffer.alloc(0)
const REQUEST = framed(NONE)

/** A request that is never complete, so that its stream stays open. */
const open = (id: number) => frame(FRAME.headers, FLAG.endHeaders, id, HEADERS)

/** One that is, and is answered. */
const whole = (id: number) => [open(id), frame(FRAME.data, FLAG.endStream, id, REQUEST)]

/** One whose own half is over, while its answer is being waited for. */
const asked = (id: number) => [
  frame(FRAME.headers, FLAG.endHeaders, id, requestHeaders({ 'x-wait': '1' })),
  frame(FRAME.data, FLAG.endStream, id, framed(Buffer.from('\n\x03s-1\x12\x05biz_1'))),
]

async function openTarget() {
  const held = Promise.withResolvers<object>()
  const { address } = await openDoor({
    transactions: {
      getTransaction: (_, { requestHeader }) => (requestHeader.has('x-wait') ? held.promise : {}),
    },
    interceptors: [],
  })
  const look = async () => {
    const { error } = await callUnary(openClient(address), getTransaction, {})
    expect(error).toBeUndefined()
  }
  return { address, look }
}

const padded = (pad: number, rest: Buffer) => Buffer.concat([Buffer.of(pad), rest])

/** RFC 9113, by section: what a client may not do to its connection. */
const OF_CONNECTIONS: [string, readonly Buffer[], number][] = [
  [
    '4.2 a frame above the size allowed',
    [frame(FRAME.data, 0, 1, Buffer.alloc(16_385))],
    CODE.frameSizeError,
  ],
  [
    '4.3 a block of headers that cannot be read',
    [frame(FRAME.headers, LAST, 1, Buffer.of(0x80))],
    CODE.compressionError,
  ],
  ['5.1 idle: DATA', [frame(FRAME.data, 0, 1, NONE)], CODE.protocolError],
  ['5.1 idle: RST_STREAM', [frame(FRAME.rstStream, 0, 1, uint32(8))], CODE.protocolError],
  ['5.1 idle: WINDOW_UPDATE', [frame(FRAME.windowUpdate, 0, 1, uint32(1))], CODE.protocolError],
  ['5.1 closed: HEADERS', [...whole(3), open(1)], CODE.streamClosed],
  ['5.1.1 a stream with an even number', [open(2)], CODE.protocolError],
  ['5.1.1 a stream with no number', [open(0)], CODE.protocolError],
  ['6.1 DATA of no stream', [frame(FRAME.data, 0, 0, NONE)], CODE.protocolError],
  [
    '6.1 more padding than payload',
    [open(1), frame(FRAME.data, FLAG.padded, 1, padded(4, Buffer.alloc(3)))],
    CODE.protocolError,
  ],
  [
    '6.1 padding without a length',
    [open(1), frame(FRAME.data, FLAG.padded, 1, NONE)],
    CODE.frameSizeError,
  ],
  [
    '6.2 HEADERS with more padding than payload',
    [frame(FRAME.headers, LAST | FLAG.padded, 1, padded(255, HEADERS))],
    CODE.protocolError,
  ],
  [
    '6.2 HEADERS shorter than their priority',
    [frame(FRAME.headers, LAST | FLAG.priority, 1, Buffer.alloc(4))],
    CODE.frameSizeError,
  ],
  [
    '6.2 another frame before the headers end',
    [frame(FRAME.headers, 0, 1, HEADERS), frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
    CODE.protocolError,
  ],
  [
    '6.2 headers of another stream before the headers end',
    [frame(FRAME.headers, 0, 1, HEADERS), open(3)],
    CODE.protocolError,
  ],
  ['6.3 PRIORITY of no stream', [frame(FRAME.priority, 0, 0, Buffer.alloc(5))], CODE.protocolError],
  [
    '6.3 PRIORITY of another size',
    [frame(FRAME.priority, 0, 1, Buffer.alloc(4))],
    CODE.frameSizeError,
  ],
  ['6.4 RST_STREAM of no stream', [frame(FRAME.rstStream, 0, 0, uint32(8))], CODE.protocolError],
  [
    '6.4 RST_STREAM of another size',
    [open(1), frame(FRAME.rstStream, 0, 1, Buffer.alloc(3))],
    CODE.frameSizeError,
  ],
  ['6.5 SETTINGS of a stream', [frame(FRAME.settings, 0, 1, NONE)], CODE.protocolError],
  [
    '6.5 SETTINGS of another size',
    [frame(FRAME.settings, 0, 0, Buffer.alloc(5))],
    CODE.frameSizeError,
  ],
  [
    '6.5 an acknowledgement with settings',
    [frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(6))],
    CODE.frameSizeError,
  ],
  [
    '6.5.2 push neither on nor off',
    [frame(FRAME.settings, 0, 0, setting(SETTING.enablePush, 2))],
    CODE.protocolError,
  ],
  [
    '6.5.2 a window beyond 2^31 - 1',
    [frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 2 ** 31))],
    CODE.flowControlError,
  ],
  [
    '6.5.2 frames smaller than allowed',
    [frame(FRAME.settings, 0, 0, setting(SETTING.maxFrameSize, 16_383))],
    CODE.protocolError,
  ],
  [
    '6.5.2 frames larger than possible',
    [frame(FRAME.settings, 0, 0, setting(SETTING.maxFrameSize, 2 ** 24))],
    CODE.protocolError,
  ],
  [
    '6.6 PUSH_PROMISE from a client',
    [open(1), frame(FRAME.pushPromise, FLAG.endHeaders, 1, uint32(2))],
    CODE.protocolError,
  ],
  ['6.7 PING of a stream', [frame(FRAME.ping, 0, 1, Buffer.alloc(8))], CODE.protocolError],
  ['6.7 PING of another size', [frame(FRAME.ping, 0, 0, Buffer.alloc(7))], CODE.frameSizeError],
  ['6.8 GOAWAY of a stream', [frame(FRAME.goAway, 0, 1, Buffer.alloc(8))], CODE.protocolError],
  [
    '6.8 GOAWAY that is too short',
    [frame(FRAME.goAway, 0, 0, Buffer.alloc(7))],
    CODE.frameSizeError,
  ],
  [
    '6.9 a window widened by nothing',
    [frame(FRAME.windowUpdate, 0, 0, uint32(0))],
    CODE.protocolError,
  ],
  [
    '6.9 WINDOW_UPDATE of another size',
    [frame(FRAME.windowUpdate, 0, 0, Buffer.alloc(3))],
    CODE.frameSizeError,
  ],
  [
    '6.9.1 the window of the connection beyond 2^31 - 1',
    [frame(FRAME.windowUpdate, 0, 0, uint32(2 ** 31 - 1))],
    CODE.flowControlError,
  ],
  [
    '6.9.2 windows of streams beyond 2^31 - 1 by a setting',
    [
      open(1),
      frame(FRAME.windowUpdate, 0, 1, uint32(2 ** 31 - 1 - 65_535)),
      frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 65_536)),
    ],
    CODE.flowControlError,
  ],
  [
    '6.10 CONTINUATION of nothing',
    [frame(FRAME.continuation, FLAG.endHeaders, 1, HEADERS)],
    CODE.protocolError,
  ],
  [
    '6.10 CONTINUATION after the end of headers',
    [...whole(1), frame(FRAME.continuation, FLAG.endHeaders, 1, HEADERS)],
    CODE.protocolError,
  ],
]

test.each(OF_CONNECTIONS)('%s ends the connection, and harms no other', async (_, frames, code) => {
  const { address, look } = await openTarget()
  const other = openPeer(address)
  const peer = openPeer(address)
  peer.send(...frames)
  expect(await peer.goneAway()).toBe(code)
  other.send(...whole(1))
  await came(other, FRAME.headers, 1, 2)
  await look()
})

const malformed = (headers: Buffer) => [frame(FRAME.headers, LAST, 1, headers)]
const raw = (...pairs: [string, string][]) =>
  encodeHeaders([
    ...([
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', LOOK_UP],
    ] as [string, string][]),
    ...pairs,
  ])

/** What a client may not do to a stream; its connection goes on. */
const OF_STREAMS: [string, readonly Buffer[], number][] = [
  [
    '5.1 half-closed: DATA',
    [...asked(1), frame(FRAME.data, 0, 1, Buffer.of(1))],
    CODE.streamClosed,
  ],
  [
    '5.1 half-closed: HEADERS',
    [...asked(1), frame(FRAME.headers, LAST, 1, encodeHeaders([['x', '1']]))],
    CODE.streamClosed,
  ],
  [
    '6.9 a stream’s window widened by nothing',
    [open(1), frame(FRAME.windowUpdate, 0, 1, uint32(0))],
    CODE.protocolError,
  ],
  [
    '6.9.1 a stream’s window beyond 2^31 - 1',
    [open(1), frame(FRAME.windowUpdate, 0, 1, uint32(2 ** 31 - 1))],
    CODE.flowControlError,
  ],
  [
    '8.1 trailers that do not end the request',
    [open(1), frame(FRAME.headers, FLAG.endHeaders, 1, encodeHeaders([['x', '1']]))],
    CODE.protocolError,
  ],
  [
    '8.1 trailers with a pseudo-header',
    [open(1), frame(FRAME.headers, LAST, 1, encodeHeaders([[':path', '/']]))],
    CODE.protocolError,
  ],
  [
    '8.1.1 more body than content-length',
    [
      frame(FRAME.headers, FLAG.endHeaders, 1, requestHeaders({ 'content-length': '4' })),
      frame(FRAME.data, FLAG.endStream, 1, REQUEST),
    ],
    CODE.protocolError,
  ],
  [
    '8.1.1 a content-length without a body',
    malformed(requestHeaders({ 'content-length': '4' })),
    CODE.protocolError,
  ],
  [
    '8.1.1 a content-length that is none',
    malformed(requestHeaders({ 'content-length': '-4' })),
    CODE.protocolError,
  ],
  [
    '8.1.1 two content-lengths',
    malformed(raw(['content-length', '0'], ['content-length', '1'])),
    CODE.protocolError,
  ],
  ['8.2.1 a name in upper case', malformed(requestHeaders({ 'X-Upper': '1' })), CODE.protocolError],
  ['8.2.1 a name with a space', malformed(requestHeaders({ 'x y': '1' })), CODE.protocolError],
  [
    '8.2.1 a value with a line break',
    malformed(requestHeaders({ x: 'a\r\nb' })),
    CODE.protocolError,
  ],
  ['8.2.1 a value with a NUL', malformed(requestHeaders({ x: '\0' })), CODE.protocolError],
  [
    '8.2.2 a header of HTTP/1.1',
    malformed(requestHeaders({ connection: 'close' })),
    CODE.protocolError,
  ],
  [
    '8.2.2 transfer-encoding',
    malformed(requestHeaders({ 'transfer-encoding': 'chunked' })),
    CODE.protocolError,
  ],
  ['8.2.2 te other than trailers', malformed(requestHeaders({ te: 'gzip' })), CODE.protocolError],
  [
    '8.3 a pseudo-header of answers',
    malformed(requestHeaders({ ':status': '200' })),
    CODE.protocolError,
  ],
  [
    '8.3 a pseudo-header that there is not',
    malformed(requestHeaders({ ':x': '1' })),
    CODE.protocolError,
  ],
  [
    '8.3 a pseudo-header after others',
    malformed(raw(['x', '1'], [':authority', 'x'])),
    CODE.protocolError,
  ],
  ['8.3.1 no :method', malformed(requestHeaders({ ':method': undefined })), CODE.protocolError],
  ['8.3.1 no :scheme', malformed(requestHeaders({ ':scheme': undefined })), CODE.protocolError],
  ['8.3.1 no :path', malformed(requestHeaders({ ':path': undefined })), CODE.protocolError],
  ['8.3.1 an empty :path', malformed(requestHeaders({ ':path': '' })), CODE.protocolError],
  ['8.3.1 two of one', malformed(raw([':path', '/'])), CODE.protocolError],
]

test.each(OF_STREAMS)('%s ends the stream, and its connection goes on', async (_, frames, code) => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  peer.send(...frames)
  expect((await came(peer, FRAME.rstStream, 1)).payload.readUInt32BE(0)).toBe(code)
  peer.send(...whole(3))
  await came(peer, FRAME.headers, 3, 2)
  expect(peer.of(FRAME.goAway)).toEqual([])
})

/** What a client may do, odd as it is. */
const ALLOWED: [string, readonly Buffer[]][] = [
  ['4.1 frames of unknown kinds', [frame(0xfe, 0xff, 1, Buffer.alloc(20)), ...whole(1)]],
  [
    '4.1 unknown flags',
    [
      frame(FRAME.headers, FLAG.endHeaders | 0xd2, 1, HEADERS),
      frame(FRAME.data, FLAG.endStream | 0xf2, 1, REQUEST),
    ],
  ],
  [
    '5.3.1 a stream that depends on itself',
    [frame(FRAME.priority, 0, 1, Buffer.concat([uint32(1), Buffer.of(9)])), ...whole(1)],
  ],
  [
    '6.1 padding',
    [
      open(1),
      frame(
        FRAME.data,
        FLAG.endStream | FLAG.padded,
        1,
        padded(9, Buffer.concat([REQUEST, Buffer.alloc(9)])),
      ),
    ],
  ],
  [
    '6.2 priority and padding of HEADERS',
    [
      frame(
        FRAME.headers,
        FLAG.endHeaders | FLAG.padded | FLAG.priority,
        1,
        padded(3, Buffer.concat([Buffer.alloc(5), HEADERS, Buffer.alloc(3)])),
      ),
      frame(FRAME.data, FLAG.endStream, 1, REQUEST),
    ],
  ],
  ['6.5 unknown settings', [frame(FRAME.settings, 0, 0, setting(0xabc, 1)), ...whole(1)]],
  [
    '6.10 headers in many parts',
    [
      frame(FRAME.headers, 0, 1, HEADERS.subarray(0, 5)),
      frame(FRAME.continuation, 0, 1, HEADERS.subarray(5, 6)),
      frame(FRAME.continuation, 0, 1, NONE),
      frame(FRAME.continuation, FLAG.endHeaders, 1, HEADERS.subarray(6)),
      frame(FRAME.data, FLAG.endStream, 1, REQUEST),
    ],
  ],
  [
    '8.1 trailers',
    [
      open(1),
      frame(FRAME.data, 0, 1, REQUEST),
      frame(FRAME.headers, LAST, 1, encodeHeaders([['x-sum', '1']])),
    ],
  ],
  [
    '8.1 an empty DATA at the end',
    [open(1), frame(FRAME.data, 0, 1, REQUEST), frame(FRAME.data, FLAG.endStream, 1, NONE)],
  ],
]

test.each(ALLOWED)('%s is answered', async (_, frames) => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  peer.send(...frames)
  const [head] = [await came(peer, FRAME.headers, 1), await came(peer, FRAME.headers, 1, 2)]
  expect(head.payload[0]).toBe(0x88)
  expect(peer.body(1)).toEqual(framed(NONE))
  expect(peer.of(FRAME.rstStream)).toEqual([])
  expect(peer.of(FRAME.goAway)).toEqual([])
})

test('3.4 settings are told at once, and those of the client are acknowledged', async () => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  await vi.waitFor(() => expect(peer.of(FRAME.settings)).toHaveLength(2))
  const [ours, ack] = peer.of(FRAME.settings)
  expect(peer.received[0]).toBe(ours)
  expect(ours?.flags).toBe(0)
  expect(ack).toMatchObject({ flags: FLAG.ack, payload: NONE })
})

test.each([
  ['another frame than SETTINGS first', frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
  ['an acknowledgement first', frame(FRAME.settings, FLAG.ack, 0, NONE)],
])('3.4 %s ends the connection', async (_, first) => {
  const { address } = await openTarget()
  const peer = openPeer(address, null)
  peer.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), first)
  expect(await peer.goneAway()).toBe(CODE.protocolError)
})

test('5.1.2 streams above the number allowed are refused, so that they can be repeated', async () => {
  const { address } = await openDoor({
    transactions: { getTransaction: () => ({}) },
    options: { http2Limits: { streamsPerConnectionMax: 2 } },
  })
  const peer = openPeer(address)
  peer.send(open(1), open(3), open(5))
  const refused = await came(peer, FRAME.rstStream, 5)
  expect(refused.payload.readUInt32BE(0)).toBe(CODE.refusedStream)
  peer.send(frame(FRAME.rstStream, 0, 3, uint32(8)), ...whole(7))
  await came(peer, FRAME.headers, 7)
})

test('5.1 closed: what comes late of a stream that was answered is passed over', async () => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  peer.send(...whole(1))
  await came(peer, FRAME.headers, 1, 2)
  peer.send(
    frame(FRAME.rstStream, 0, 1, uint32(8)),
    frame(FRAME.windowUpdate, 0, 1, uint32(1)),
    frame(FRAME.priority, 0, 1, Buffer.alloc(5)),
    ...whole(3),
  )
  await came(peer, FRAME.headers, 3, 2)
  expect(peer.of(FRAME.goAway)).toEqual([])
})

test('6.7 a PING comes back with what was in it', async () => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  const payload = Buffer.from('12345678')
  peer.send(frame(FRAME.ping, 0, 0, payload))
  expect(await came(peer, FRAME.ping, 0)).toMatchObject({ flags: FLAG.ack, payload })
})

test('6.8 a client that goes away still gets its answers, and then the connection ends', async () => {
  const { address } = await openTarget()
  const peer: Peer = openPeer(address)
  peer.send(open(1), frame(FRAME.goAway, 0, 0, uint32(0, 0)))
  await came(peer, FRAME.goAway, 0)
  peer.send(frame(FRAME.data, FLAG.endStream, 1, REQUEST))
  expect(await peer.goneAway()).toBe(CODE.noError)
  expect(peer.body(1)).toEqual(framed(NONE))
})

test('8.1 an answer before the end of the request asks for no more of it', async () => {
  const { address } = await openTarget()
  const peer = openPeer(address)
  peer.send(frame(FRAME.headers, FLAG.endHeaders, 1, requestHeaders({ ':path': '/none' })))
  expect((await came(peer, FRAME.rstStream, 1)).payload.readUInt32BE(0)).toBe(CODE.noError)
  // What is still on its way is passed over.
  peer.send(frame(FRAME.data, FLAG.endStream, 1, REQUEST), ...whole(3))
  await came(peer, FRAME.headers, 3, 2)
  expect(peer.of(FRAME.rstStream)).toHaveLength(1)
})
