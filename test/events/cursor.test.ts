import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeCursor, encodeCursor, tagOf } from '../../src/events/cursor.ts'

const cursors = fc.record({
  epoch: fc.nat({ max: 999_999_999 }),
  position: fc.bigInt({ min: 0n, max: 10n ** 18n - 1n }),
  tag: fc.stringMatching(/^\w{0,6}$/),
})
const encoded = (text: string) => Buffer.from(text).toString('base64url')

describe('a cursor', () => {
  test('is read as it was written, whatever the place', () => {
    fc.assert(
      fc.property(cursors, (each) => {
        expect(decodeCursor(encodeCursor(each))).toEqual(each)
      }),
    )
  })

  test('is the same text in every release', () => {
    const place = { epoch: 3, position: 42n, tag: tagOf('evt_01kah2cdefghjk') }
    expect(encodeCursor(place)).toBe('djIuMy40Mi5lZmdoams')
    expect(decodeCursor('djIuMy40Mi5lZmdoams')).toEqual({ epoch: 3, position: 42n, tag: 'efghjk' })
  })

  test.each(['v2.0.0.', 'v2.999999999.999999999999999999.abc_09'])(
    'of the form %s is accepted',
    (text) => {
      expect(encodeCursor(decodeCursor(encoded(text)))).toBe(encoded(text))
    },
  )

  test.each([
    'v1.0.0.',
    'v2.0.0',
    'v2.-1.0.',
    'v2.0x0.',
    'v2x0.0.',
    'v2.0.0x',
    'v2.1234567890.0.',
    'v2.0.1234567890123456789.',
    'v2.0.0.abcdefg',
    'v2.0.0.a-b',
    ' v2.0.0.',
    'v2.0.0.\n',
  ])('of the form "%s" is refused, and the error names the field', (text) => {
    const fields = [{ field: 'cursor', message: expect.any(String) }]
    expect(() => decodeCursor(encoded(text))).toThrow(
      expect.objectContaining({ reason: 'invalid_cursor', fields }),
    )
  })
})
