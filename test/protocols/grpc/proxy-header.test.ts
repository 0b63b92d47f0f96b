import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseProxyHeader, V2_BYTES_MAX } from '../../../src/server/grpc/proxy-header.ts'
import { proxyV1, proxyV2 } from './proxy-headers.ts'

const port = fc.nat(65_535)
const data = fc.uint8Array({ maxLength: 60 })

/** Checks that a header is incomplete at every length before its last byte, and complete after. */
function expectClient(header: Buffer, following: Uint8Array, address: string | undefined): void {
  for (let length = 0; length < header.length; length++) {
    expect(parseProxyHeader(header.subarray(0, length)).state).toBe('incomplete')
  }
  const parsed = parseProxyHeader(Buffer.concat([header, following]))
  expect(parsed).toEqual({ state: 'complete', length: header.length, address })
}

test('reads the client of version 1 and 2, wherever the header is cut, and leaves what follows', () => {
  fc.assert(
    fc.property(fc.ipV4(), port, data, (address, from, following) => {
      expectClient(proxyV1(address, from), following, address)
      expectClient(proxyV2(address, from), following, address)
      expectClient(proxyV2(address, from, Buffer.alloc(90, 7)), following, address)
    }),
  )
  for (const address of ['2001:db8::7', '::1', 'fe80::a:b:c:d']) {
    expectClient(proxyV1(address, 1), Buffer.from('PRI'), address)
    expectClient(proxyV2(address, 1), Buffer.from('PRI'), address)
  }
})

test('takes a header without a client for the proxy itself', () => {
  expectClient(Buffer.from('PROXY UNKNOWN\r\n'), Buffer.from('x'), undefined)
  expectClient(Buffer.from('PROXY UNKNOWN ::1 ::1 1 2\r\n'), Buffer.from('x'), undefined)
  const local = proxyV2('203.0.113.7', 1)
  local[12] = 0x20
  expectClient(local, Buffer.from('x'), undefined)
  const unspecified = proxyV2('203.0.113.7', 1)
  unspecified[13] = 0x00
  expectClient(unspecified, Buffer.from('x'), undefined)
})

const v2With = (at: number, value: number) => {
  const header = proxyV2('203.0.113.7', 1)
  header[at] = value
  return header
}

test.each([
  ['an HTTP/2 preface', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
  ['another family', Buffer.from('PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n')],
  ['an address of the other family', Buffer.from('PROXY TCP4 ::1 ::1 1 2\r\n')],
  ['a name', Buffer.from('PROXY TCP4 example.com 1.2.3.4 1 2\r\n')],
  ['an address with a zone', Buffer.from('PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n')],
  ['a port out of range', Buffer.from('PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n')],
  ['a line without end', Buffer.from(`PROXY TCP4 ${'1'.repeat(200)}`)],
  ['version 3', v2With(12, 0x31)],
  ['an unknown command', v2With(12, 0x22)],
  ['too few bytes for its addresses', v2With(15, 11)],
  ['more bytes than are read', v2With(14, 0xff)],
])('refuses %s', (_what, bytes) => {
  expect(parseProxyHeader(bytes)).toEqual({ state: 'invalid' })
})

test('waits for a bounded number of bytes, whatever they are', () => {
  const start = fc.constantFrom(Buffer.from('PROXY TCP4 '), proxyV2('1.2.3.4', 1), Buffer.alloc(0))
  fc.assert(
    fc.property(start, fc.uint8Array({ maxLength: 200 }), (begin, noise) => {
      const bytes = Buffer.concat([begin, noise, Buffer.alloc(V2_BYTES_MAX, 'a')])
      expect(parseProxyHeader(bytes).state).not.toBe('incomplete')
    }),
  )
})
