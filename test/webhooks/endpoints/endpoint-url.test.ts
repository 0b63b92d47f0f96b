import { isIPv4 } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createAddressGuard, urlRefusal } from '../../../src/webhooks/sender/address-guard.ts'

const guard = createAddressGuard([])
const strict = { allowHttp: false, guard }
const sandbox = { allowHttp: true, guard: createAddressGuard(['127.0.0.0/8', '::1/128']) }

const dotted = (value: number) =>
  [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255].join('.')
const hexWords = (value: number) =>
  `${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}`

/** IPv4 addresses, more often near the edges of the refused ranges. */
const ipv4 = fc.oneof(
  fc.integer({ min: 0, max: 0xffffffff }),
  fc
    .tuple(
      fc.constantFrom(0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 240, 255),
      fc.constantFrom(0, 16, 31, 32, 51, 64, 127, 128, 168, 254),
      fc.integer({ min: 0, max: 0xffff }),
    )
    .map(([a, b, rest]) => ((a << 24) | (b << 16) | rest) >>> 0),
)

describe('a webhook URL', () => {
  test.each([
    'https://example.com',
    'https://example.com:8443/hooks?a=1&b=2',
    'HTTPS://Example.COM/hook',
    'https://8.8.8.8/hook',
    'https://[2606:4700:4700::1111]/hook',
    'https://localhost.example.com/',
    'https://example.com/a@b?c=@d',
    'https://example.com/a//b@c',
    `https://example.com/${'a'.repeat(1_980)}`,
  ])('may be %s', (url) => {
    expect(urlRefusal(url, strict)).toBeUndefined()
  })

  test.each([
    ['', 'must be a URL'],
    ['//example.com', 'must be a URL'],
    ['https:example.com', 'must be a URL'],
    ['https://', 'must be a URL'],
    ['https://exa mple.com', 'must not contain spaces'],
    ['https://example.com/\n', 'must not contain spaces'],
    ['https://example.com\\@10.0.0.1/', 'must not contain spaces'],
    ['http://example.com', 'must be an https URL'],
    ['file:///etc/passwd', 'must be a URL'],
    ['http+unix://%2Fvar%2Frun%2Fdocker.sock/', 'must be a URL'],
    ['https://user:secret@example.com', 'user name or password'],
    ['https://@example.com', 'user name or password'],
    ['https://example.com:443@10.0.0.1:8443/', 'user name or password'],
    ['https://example.com/#part', 'fragment'],
    ['https://example.com/#', 'fragment'],
    [`https://example.com/${'a'.repeat(1_981)}`, 'at most 2000'],
    ['https://localhost/', 'localhost'],
    ['https://LOCALHOST./', 'localhost'],
    ['https://api.localhost:8080/', 'localhost'],
    ['https://metadata.google.internal/computeMetadata/v1/', 'metadata.google.internal'],
    ['https://127.0.0.1./', 'a loopback address (127.0.0.1)'],
    ['https://１２７.０.０.１/', 'a loopback address (127.0.0.1)'],
    ['https://%31%32%37.0.0.1/', 'a loopback address (127.0.0.1)'],
    ['https://METADATA.google.internal./', 'metadata.google.internal'],
    ['https://example.com:0/', 'must not use port 0'],
    ['https://10.1.2.3/', 'a private address'],
    ['https://172.31.255.255/', 'a private address'],
    ['https://192.168.0.1/', 'a private address'],
    ['https://100.100.100.200/', 'a carrier-grade NAT address'],
    ['https://198.18.0.1/', 'a reserved address'],
    ['https://192.0.2.1/', 'a documentation address'],
    ['https://224.0.0.1/', 'a multicast address'],
    ['https://168.63.129.16/', 'a reserved address'],
    ['https://[::]/', 'an unspecified address'],
    ['https://[::1]/', 'a loopback address'],
    ['https://[::10.0.0.1]/', 'a reserved address'],
    ['https://[64:ff9b:1::1]/', 'a private address'],
    ['https://[2002:a00:1::]/', 'a tunnelled address'],
    ['https://[2001:0:1::1]/', 'a tunnelled address'],
    ['https://[fe80::1]/', 'a link-local address'],
    ['https://[fec0::1]/', 'a private address'],
    ['https://[fd00:ec2::254]/', 'a private address'],
    ['https://[ff02::1]/', 'a multicast address'],
    ['https://[2001:db8::1]/', 'a documentation address'],
    ['https://[100::1]/', 'a discard address'],
    ['https://[4000::1]/', 'a reserved address'],
  ])('may not be %s', (url, reason) => {
    expect(urlRefusal(url, strict)).toContain(reason)
  })

  test.each([
    'http://127.0.0.1:1234/',
    'http://localhost:80/x',
    'https://[::1]/',
    'http://0x7f.1/',
  ])('may be %s where loopback is allowed', (url) => {
    expect(urlRefusal(url, sandbox)).toBeUndefined()
  })

  test('stays refused where another range is allowed', () => {
    expect(urlRefusal('http://10.0.0.1/', sandbox)).toContain('a private address')
    const office = { allowHttp: false, guard: createAddressGuard(['10.1.0.0/16', 'fd00:1::/32']) }
    expect(urlRefusal('https://10.1.2.3/', office)).toBeUndefined()
    expect(urlRefusal('https://[::ffff:10.1.2.3]/', office)).toBeUndefined()
    expect(urlRefusal('https://[fd00:1::7]/', office)).toBeUndefined()
    expect(urlRefusal('https://10.2.2.3/', office)).toContain('a private address')
    expect(urlRefusal('https://localhost/', office)).toContain('localhost')
  })

  test('gets the same verdict in every spelling of an address', () => {
    fc.assert(
      fc.property(ipv4, (value) => {
        const plain = guard.refusal(dotted(value))
        const hosts = [
          dotted(value),
          String(value),
          `0x${value.toString(16)}`,
          `0${value.toString(8)}`,
          `${value >>> 24}.${value & 0xffffff}`,
          `0x${(value >>> 24).toString(16)}.${(value >>> 16) & 255}.0${(value & 0xffff).toString(8)}`,
          `[::ffff:${dotted(value)}]`,
          `[::ffff:${hexWords(value)}]`,
          `[0:0:0:0:0:ffff:${hexWords(value)}]`,
          `[64:ff9b::${dotted(value)}]`,
        ]
        for (const host of hosts) {
          const refusal = urlRefusal(`https://${host}/`, strict)
          expect(refusal, host).toBe(plain && `must be a public address, but is ${plain}`)
        }
      }),
      { numRuns: 300 },
    )
  })

  test('gets the same verdict with any port', () => {
    const port = fc.integer({ min: 1, max: 65_535 })
    const host = fc.constantFrom('10.0.0.1', '[::1]', '2130706433', 'localhost', 'example.com')
    fc.assert(
      fc.property(host, port, (name, number) => {
        const plain = urlRefusal(`https://${name}/`, strict)
        expect(urlRefusal(`https://${name}:${number}/`, strict)).toBe(plain)
      }),
    )
  })

  test('never makes the check throw', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ unit: 'binary' }), fc.webUrl(), fc.webAuthority()),
        (text) => {
          urlRefusal(text, strict)
          urlRefusal(`https://${text}`, strict)
        },
      ),
      { numRuns: 300 },
    )
  })

  test('that is allowed contains no literal address that the guard refuses', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'0123456789abcdefx.:[]@/%-') }), (text) => {
        const url = `https://${text}`
        if (urlRefusal(url, strict) !== undefined) return
        const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
        if (isIPv4(host) || host.includes(':')) expect(guard.refusal(host)).toBeUndefined()
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('the address guard', () => {
  test('refuses text that is not an address', () => {
    for (const text of ['', 'localhost', '1.2.3', '::g', '1.2.3.4.5']) {
      expect(guard.refusal(text)).toContain('not an address')
    }
  })

  test('ignores the interface (zone) of a resolved address', () => {
    expect(guard.refusal('fe80::1%eth0')).toBe('a link-local address (fe80::1)')
  })

  test.each(['10.0.0.0', '10.0.0.0/33', 'x/8', '::/129', '', '10.0.0.0/-1'])(
    'rejects the malformed range "%s"',
    (range) => {
      expect(() => createAddressGuard([range])).toThrow(RangeError)
    },
  )
})
