import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatTraceparent, keptTraceparent, parseTraceparent } from '../../src/core/tracing.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'

const hex = (length: number) =>
  fc
    .array(fc.constantFrom(...'0123456789abcdef'), { minLength: length, maxLength: length })
    .map((digits) => digits.join(''))
    .filter((text) => /[^0]/.test(text))

describe('a traceparent', () => {
  test('of version 00 is read and written again, with the flags that are defined', () => {
    fc.assert(
      fc.property(hex(32), hex(16), fc.integer({ min: 0, max: 255 }), (traceId, spanId, byte) => {
        const text = `00-${traceId}-${spanId}-${byte.toString(16).padStart(2, '0')}`
        const context = parseTraceparent(text)
        expect(context).toEqual({ traceId, spanId, flags: byte & 3 })
        expect(formatTraceparent(context!)).toBe(`00-${traceId}-${spanId}-0${byte & 3}`)
      }),
    )
  })

  test('of any text is either ignored or becomes one of version 00 that is read as itself', () => {
    const nearly = fc
      .tuple(hex(2), hex(32), hex(16), hex(2), fc.string({ maxLength: 8 }))
      .map(([version, traceId, spanId, flags, rest]) => {
        return `${version}-${traceId}-${spanId}-${flags}${rest}`
      })
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 80 }), nearly), (text) => {
        const kept = keptTraceparent(text)
        if (kept === undefined) return
        expect(kept).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]$/)
        expect(keptTraceparent(kept)).toBe(kept)
        expect(text.slice(3, 52)).toBe(kept.slice(3, 52))
      }),
    )
  })

  test.each([
    ['absent', undefined],
    ['empty', ''],
    ['without flags', `00-${TRACE}-${SPAN}`],
    ['of the version ff', `ff-${TRACE}-${SPAN}-01`],
    ['with upper-case digits', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['with a trace id of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['with a span id of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['of version 00 with more fields', `00-${TRACE}-${SPAN}-01-more`],
    ['of a later version with a longer flag', `01-${TRACE}-${SPAN}-011`],
    ['that came twice', `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
    ['with a space before it', ` 00-${TRACE}-${SPAN}-01`],
    ['with a line break', `00-${TRACE}-${SPAN}-01\n`],
    ['of a later version that is very long', `01-${TRACE}-${SPAN}-01-${'x'.repeat(600)}`],
  ])('%s is ignored', (_, text) => {
    expect(keptTraceparent(text)).toBeUndefined()
  })

  test('of a later version is read as far as version 00 goes', () => {
    expect(keptTraceparent(`01-${TRACE}-${SPAN}-ff-more`)).toBe(`00-${TRACE}-${SPAN}-03`)
  })
})
