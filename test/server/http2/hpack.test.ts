import { connect } from 'node:http2'
import { createServer, type Socket } from 'node:net'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { FrameReader } from '../../../src/server/http2/frame-reader.ts'
import { type HeaderList, HpackDecoder } from '../../../src/server/http2/hpack-decoder.ts'
import { encodeHeaders } from '../../../src/server/http2/hpack-encoder.ts'
import { KIND } from '../../../src/server/http2/hpack-fields.ts'
import { HUFFMAN_BITS, readHuffman } from '../../../src/server/http2/huffman.ts'
import { CODE, FRAME } from '../../../src/server/http2/protocol.ts'

type Pairs = (readonly [string, string])[]

const pairsOf = (list: HeaderList): Pairs => (list ?? []).map(({ name, value }) => [name, value])

function decode(decoder: HpackDecoder, block: Buffer | string): Pairs {
  const bytes = typeof block === 'string' ? Buffer.from(block.replaceAll(' ', ''), 'hex') : block
  return pairsOf(decoder.decode(bytes, 0, bytes.length))
}

const REQUESTS: Pairs[] = [
  [
    [':method', 'GET'],
    [':scheme', 'http'],
    [':path', '/'],
    [':authority', 'www.example.com'],
  ],
  [
    [':method', 'GET'],
    [':scheme', 'http'],
    [':path', '/'],
    [':authority', 'www.example.com'],
    ['cache-control', 'no-cache'],
  ],
  [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':path', '/index.html'],
    [':authority', 'www.example.com'],
    ['custom-key', 'custom-value'],
  ],
]

describe('the examples of RFC 7541, appendix C', () => {
  test.each([
    ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', 'custom-key'],
    ['040c 2f73 616d 706c 652f 7061 7468', ':path'],
    ['1008 7061 7373 776f 7264 0673 6563 7265 74', 'password'],
    ['82', ':method'],
  ])('C.2: %s', (block, name) => {
    expect(decode(new HpackDecoder(), block)).toEqual([[name, expect.any(String)]])
  })

  test.each([
    [
      'C.3: without Huffman',
      [
        '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
        '8286 84be 5808 6e6f 2d63 6163 6865',
        '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
      ],
    ],
    [
      'C.4: with Huffman',
      [
        '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
        '8286 84be 5886 a8eb 1064 9cbf',
        '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
      ],
    ],
  ])('%s', (_, blocks) => {
    const decoder = new HpackDecoder()
    expect(blocks.map((block) => decode(decoder, block))).toEqual(REQUESTS)
  })

  test('C.6: a table of 256 bytes forgets the oldest', () => {
    const cookie = 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1'
    const decoder = new HpackDecoder()
    const blocks = [
      // Before it, the size of the table.
      '3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
      '4883 640e ffc1 c0bf',
      '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
    ]
    expect(blocks.map((block) => decode(decoder, block))).toEqual([
      [
        [':status', '302'],
        ['cache-control', 'private'],
        ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'],
        ['location', 'https://www.example.com'],
      ],
      [
        [':status', '307'],
        ['cache-control', 'private'],
        ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'],
        ['location', 'https://www.example.com'],
      ],
      [
        [':status', '200'],
        ['cache-control', 'private'],
        ['date', 'Mon, 21 Oct 2013 20:13:22 GMT'],
        ['location', 'https://www.example.com'],
        ['content-encoding', 'gzip'],
        ['set-cookie', cookie],
      ],
    ])
  })
})

describe('what is no block of headers ends the connection', () => {
  test.each([
    ['an index of nothing', '80'],
    ['an index beyond both tables', 'be'],
    ['an index that is too long', 'ffffffffffff7f'],
    ['a name that is cut off', '000a 6375'],
    ['a value that is missing', '0001 61'],
    ['a length that is cut off', '00ff'],
    ['a table larger than was allowed', '3fe2 1f'],
    ['a table that changes its size after a field', '8220'],
    ['Huffman that is padded with zeros', '4181 f0'],
    ['Huffman that is padded by an octet', '4183 f1e3 ff'],
    ['Huffman with the end of a text in it', '4184 ffff ffff'],
  ])('%s', (_, block) => {
    expect(() => decode(new HpackDecoder(), block)).toThrow(
      expect.objectContaining({ code: CODE.compressionError }),
    )
  })

  test('whatever bytes come, nothing else is thrown', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }), (blocks) => {
        const decoder = new HpackDecoder()
        try {
          for (const block of blocks) decode(decoder, Buffer.from(block))
        } catch (error) {
          expect(error).toMatchObject({ code: CODE.compressionError })
        }
      }),
      { numRuns: 5_000 },
    )
  })
})

test('a list that is too long is not kept, and the table goes on', () => {
  const decoder = new HpackDecoder()
  const large = Buffer.concat([
    Buffer.from('40 01 61 7f a10f'.replaceAll(' ', ''), 'hex'),
    Buffer.alloc(2_080, 'v'),
  ])
  expect(decode(decoder, large)).toEqual([['a', 'v'.repeat(2_080)]])
  // The same field, by its index: a bomb.
  expect(decoder.decode(Buffer.alloc(10_000, 0xbe), 0, 10_000)).toBeUndefined()
  expect(decoder.decode(Buffer.alloc(129, 0x82), 0, 129)).toBeUndefined()
  expect(decode(decoder, 'be')).toEqual([['a', 'v'.repeat(2_080)]])
})

test('names that no request may have are known as such', () => {
  const names = [
    'Upper',
    'connection',
    'transfer-encoding',
    ':status',
    ':x',
    'a b',
    'é',
    '',
    'host',
  ]
  const fields = new HpackDecoder().decode(
    ...whole(encodeHeaders(names.map((name) => [name, '1']))),
  )
  expect(fields?.map(({ kind }) => kind === KIND.forbidden)).toEqual([
    ...Array.from({ length: 8 }, () => true),
    false,
  ])
})

function whole(bytes: Buffer): [Buffer, number, number] {
  return [bytes, 0, bytes.length]
}

test('what our encoder writes is read as it was', () => {
  const name = fc.stringMatching(/^[a-z-]{1,20}$/)
  const value = fc.string({
    unit: fc.integer({ min: 0x20, max: 0xff }).map((c) => String.fromCharCode(c)),
    maxLength: 400,
  })
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 20 }), (pairs) => {
      expect(decode(new HpackDecoder(), encodeHeaders(pairs))).toEqual(pairs)
    }),
  )
})

test('any octets survive the code of Huffman', () => {
  const codes = new Map<number, string>()
  let code = 0n
  let length = 0
  const order = HUFFMAN_BITS.map((bits, symbol) => [bits, symbol] as const).toSorted(
    (a, b) => a[0] - b[0] || a[1] - b[1],
  )
  for (const [bits, symbol] of order) {
    code <<= BigInt(bits - length)
    length = bits
    codes.set(symbol, code.toString(2).padStart(bits, '0'))
    code += 1n
  }
  // The end of a text is thirty ones: the code is complete, and no other begins with it.
  expect(codes.get(256)).toBe('1'.repeat(30))
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (octets) => {
      const bits = [...octets].map((octet) => codes.get(octet)).join('')
      const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1')
      const bytes = Buffer.from(
        (padded.match(/.{8}/g) ?? []).map((each) => Number.parseInt(each, 2)),
      )
      expect(Buffer.from(readHuffman(...whole(bytes)), 'latin1')).toEqual(Buffer.from(octets))
    }),
  )
})

/** The blocks of headers that Node's own client writes for requests, on one connection. */
async function writtenByNode(requests: readonly Pairs[]): Promise<Buffer[]> {
  const blocks: Buffer[] = []
  const all = Promise.withResolvers<void>()
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined)
    // No settings of ours but the acknowledgement of theirs: the table has its usual size.
    socket.write(Buffer.from('000000040000000000000000040100000000', 'hex'))
    const reader = new FrameReader((type, _flags, _id, bytes, start, end) => {
      if (type !== FRAME.headers) return
      blocks.push(Buffer.from(bytes.subarray(start, end)))
      if (blocks.length === requests.length) all.resolve()
    })
    socket.on('data', (chunk: Buffer) => reader.read(chunk))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const session = connect(`http://127.0.0.1:${port}`)
  session.on('error', () => undefined)
  const end = () => {
    session.destroy()
    server.close()
  }
  onTestFinished(end)
  for (const pairs of requests) {
    const stream = session.request(Object.fromEntries(pairs), { endStream: true })
    stream.on('error', () => undefined)
  }
  await all.promise
  end()
  return blocks
}

test('what Node’s client writes is read as it was meant', async () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,15}$/).map((text) => `x-${text}`)
  const value = fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/)
  const own = fc.uniqueArray(fc.tuple(name, value), { maxLength: 8, selector: ([key]) => key })
  const known = fc.record({
    ':path': fc.stringMatching(/^\/[a-z/.]{0,40}$/),
    authorization: fc.stringMatching(/^Bearer [a-z0-9]{1,60}$/),
    'content-type': fc.constantFrom('application/grpc', 'application/grpc+proto'),
  })
  const request = fc
    .tuple(known, own)
    .map(([fixed, more]): Pairs => [[':method', 'POST'], ...Object.entries(fixed), ...more])
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 12 }), async (requests) => {
      const decoder = new HpackDecoder()
      const read = (await writtenByNode(requests)).map((block) => decode(decoder, block))
      for (const [index, pairs] of requests.entries()) {
        expect(new Map(read[index])).toEqual(
          new Map([...pairs, [':scheme', 'http'], [':authority', expect.any(String)]] as Pairs),
        )
      }
    }),
    { numRuns: 30 },
  )
})
