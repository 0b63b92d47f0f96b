import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Fault } from '../../../src/core/errors.ts'
import { parseBody } from '../../../src/server/json.ts'

/** The text of the fault of a body; undefined: it is fine. */
function refusal(body: string | Buffer): string | undefined {
  try {
    parseBody(Buffer.from(body))
    return undefined
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    expect(error.reason).toBe('malformed_json')
    return error.message
  }
}

const see = (line: number, column: number) =>
  `The body is not valid JSON: see line ${line}, column ${column}`
const short = (line: number, column: number) =>
  `The body is not valid JSON: it ends too early, at line ${line}, column ${column}`

describe('a body that is not JSON is refused with the place', () => {
  test.each([
    ['hello', see(1, 1)],
    ['{"a":1,}', see(1, 8)],
    ["{'a':1}", see(1, 2)],
    ['{}{}', see(1, 3)],
    ['{"a":tru}', see(1, 9)],
    ['{\n  "a": 1,\n  "b": nope\n}', see(3, 9)],
    ['{"a":"x\ny"}', see(1, 8)],
    ['{"amount": 1,000}', see(1, 14)],
    ['{', short(1, 2)],
    ['{"a":\n "b', short(2, 4)],
    ['{"a":t', short(1, 7)],
    [' \n', 'The body is empty; send one JSON object, such as {}'],
    ['[1]', 'The body must be one JSON object'],
    [Buffer.from([0x7b, 0xff, 0x7d]), 'The body is not UTF-8'],
  ])('%j: %s', (body, expected) => {
    expect(refusal(body)).toBe(expected)
  })
})

/** Objects without a token that is also the end of another one. */
const bodies = fc.dictionary(
  fc.string({ unit: 'grapheme-ascii' }),
  fc.jsonValue({ maxDepth: 3, noUnicodeString: false }),
  { maxKeys: 5, noNullPrototype: true },
)

test('a body that was cut off is refused at its end, wherever it was cut', () => {
  fc.assert(
    fc.property(bodies, fc.nat(), (value, at) => {
      const text = JSON.stringify(value)
      const cut = text.slice(0, 1 + (at % (text.length - 1)))
      fc.pre(cut.isWellFormed() && cut.trim() === cut)
      expect(refusal(cut)).toBe(short(1, cut.length + 1))
    }),
  )
})

test('a character that may not be there is found, wherever it is', () => {
  fc.assert(
    fc.property(bodies, fc.nat(), (value, at) => {
      const lines = JSON.stringify(value, null, 1).split('\n')
      const line = at % lines.length
      // The end of a line is never within a text.
      const text = lines.map((each, index) => (index === line ? `${each}@` : each)).join('\n')
      const last = lines[line] ?? ''
      expect(refusal(text)).toBe(see(line + 1, last.length + 1))
    }),
  )
})
