import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FrameReader } from '../../../src/server/http2/frame-reader.ts'
import { CODE, PREFACE } from '../../../src/server/http2/protocol.ts'
import { frame } from './peer.ts'

type Seen = (readonly [type: number, flags: number, id: number, payload: string])[]

/** Reads chunks. @returns the frames, when all chunks were read, so that kept bytes show */
function read(chunks: readonly Buffer[]): Seen {
  const kept: [number, number, number, Buffer][] = []
  const reader = new FrameReader((type, flags, id, bytes, start, end) => {
    kept.push([type, flags, id, bytes.subarray(start, end)])
  })
  for (const chunk of chunks) reader.read(chunk)
  return kept.map(([type, flags, id, payload]) => [type, flags, id, payload.toString('hex')])
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...ends, bytes.length].map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

const anyFrame = fc.tuple(
  fc.nat(255),
  fc.nat(255),
  fc.nat(0x7fff_ffff),
  fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.uint8Array({ minLength: 16_000, maxLength: 16_384 }),
  ),
)

test('however the bytes are cut, the frames are the same', () => {
  const frames = fc.array(anyFrame, { maxLength: 12 })
  fc.assert(
    fc.property(frames, fc.array(fc.nat(), { maxLength: 30 }), (given, places) => {
      const sent = given.map(([type, flags, id, payload]) =>
        frame(type, flags, id, Buffer.from(payload)),
      )
      const bytes = Buffer.concat([PREFACE, ...sent])
      const expected = given.map(([type, flags, id, payload]) => [
        ...[type, flags, id],
        Buffer.from(payload).toString('hex'),
      ])
      expect(read([bytes])).toEqual(expected)
      expect(read(cut(bytes, places))).toEqual(expected)
    }),
    { numRuns: 300 },
  )
})

test('byte by byte as well', () => {
  const frames = Array.from({ length: 20 }, (_, index) =>
    frame(index % 11, index, index * 7, Buffer.alloc(index * 13, index)),
  )
  const bytes = Buffer.concat([PREFACE, ...frames])
  const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
  expect(read(single)).toEqual(read([bytes]))
  expect(read(single)).toHaveLength(20)
})

test('the reserved bit of an id is ignored', () => {
  expect(read([PREFACE, frame(0, 0, 0x8000_0001, Buffer.of(1))])).toEqual([[0, 0, 1, '01']])
})

test.each([
  ['another preface', Buffer.from('GET / HTTP/1.1\r\n'), CODE.protocolError],
  [
    'a preface with one wrong byte',
    Buffer.concat([PREFACE.subarray(0, 23), Buffer.of(0)]),
    CODE.protocolError,
  ],
  [
    'a frame above the size allowed',
    Buffer.concat([PREFACE, Buffer.from('004001000000000001', 'hex')]),
    CODE.frameSizeError,
  ],
])('%s ends the connection, however it is cut', (_, bytes, code) => {
  const broken = expect.objectContaining({ code })
  expect(() => read([bytes])).toThrow(broken)
  expect(() => read(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)))).toThrow(broken)
})
