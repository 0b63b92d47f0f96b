import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createAllowsAddress, readAllowedCidrs } from '../../src/businesses/authenticate-key.ts'

const bits = (width: number) => fc.nat(width)
const word = fc.nat(0xffff)
const ipv4 = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255))
const ipv6 = fc.array(word, { minLength: 8, maxLength: 8 })

const textOf4 = (bytes: readonly number[]) => bytes.join('.')
const textOf6 = (words: readonly number[]) => words.map((each) => each.toString(16)).join(':')

/** The first bits of an address, as a text of 0 and 1: what a range compares. */
const firstBits = (parts: readonly number[], width: number, length: number) =>
  parts
    .map((part) => part.toString(2).padStart(width, '0'))
    .join('')
    .slice(0, length)

test('an IPv4 range contains the addresses with its prefix, in IPv4 and IPv6 form', () => {
  const near = fc.tuple(ipv4, bits(32), fc.nat(31)).map(([network, length, flip]) => {
    const address = [...network]
    address[flip >> 3] = address[flip >> 3]! ^ (1 << (7 - (flip & 7)))
    return { network, address, length }
  })
  fc.assert(
    fc.property(near, ({ network, address, length }) => {
      const allows = createAllowsAddress(readAllowedCidrs([`${textOf4(network)}/${length}`]))
      const inside = firstBits(network, 8, length) === firstBits(address, 8, length)
      expect(allows(textOf4(address))).toBe(inside)
      expect(allows(`::ffff:${textOf4(address)}`)).toBe(inside)
      expect(allows(textOf4(network))).toBe(true)
    }),
  )
})

test('an IPv6 range contains the addresses with its prefix, with or without a zone', () => {
  const near = fc.tuple(ipv6, bits(128), fc.nat(127)).map(([words, length, flip]) => {
    const other = [...words]
    other[flip >> 4] = other[flip >> 4]! ^ (1 << (15 - (flip & 15)))
    return { words, other, length }
  })
  fc.assert(
    fc.property(near, ({ words, other, length }) => {
      const allows = createAllowsAddress(readAllowedCidrs([`${textOf6(words)}/${length}`]))
      const inside = firstBits(words, 16, length) === firstBits(other, 16, length)
      expect(allows(textOf6(other))).toBe(inside)
      expect(allows(`${textOf6(other)}%eth0`)).toBe(inside)
      expect(allows(textOf6(words))).toBe(true)
    }),
  )
})

test('ranges are returned in canonical form without duplicates; a single address is a range', () => {
  expect(
    readAllowedCidrs([' 203.0.113.7 ', '203.0.113.7/32', '2001:DB8::/032', '2001:db8::1']),
  ).toEqual(['203.0.113.7/32', '2001:db8::/32', '2001:db8::1/128'])
})

test('an IPv4 range in its IPv6 form contains the same addresses', () => {
  const allows = createAllowsAddress(readAllowedCidrs(['::ffff:10.0.0.0/104']))
  expect([allows('10.255.0.1'), allows('::ffff:10.0.0.1'), allows('11.0.0.1')]).toEqual([
    true,
    true,
    false,
  ])
})

test.each(['', '10.0.0.0/', '10.0.0.0/33', '10.0.0/8', '::/129', 'fe80::1%eth0', 'example.com'])(
  '"%s" is refused as a range, naming its field',
  (text) => {
    expect(() => readAllowedCidrs(['10.0.0.0/8', text])).toThrow(
      expect.objectContaining({
        reason: 'validation_failed',
        fields: [expect.objectContaining({ field: 'allowedCidrs[1]' })],
      }),
    )
  },
)
