import fc from 'fast-check'
import { expect, test } from 'vitest'
import { refuseDroppedKeys, refuseRepeatedKeys } from '../../../src/server/json.ts'

/** JSON as written: an object is a list of its keys and values, in which a key may be repeated. */
type Written = string | { readonly pairs: readonly [string, Written][] } | readonly Written[]

const key = fc.constantFrom('a', 'b', 'c', '__proto__', 'ä', '"', '\\', ':', '{', '', 'a\\')
const scalar = fc.oneof(
  fc.constantFrom('null', 'true', '-1.5e3'),
  fc.string().map((text) => JSON.stringify(text)),
  fc.constantFrom('":"', '"\\""', '"\\\\"', '"{\\"a\\":1,\\"a\\":2}"', '"a\\u0022"'),
)
const { written } = fc.letrec<{ written: Written }>((tie) => ({
  written: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.array(tie('written'), { maxLength: 3 }),
    fc.array(fc.tuple(key, tie('written')), { maxLength: 4 }).map((pairs) => ({ pairs })),
  ),
}))

/** Renders JSON with white space, and with some characters of keys escaped. */
function render(value: Written, random: () => number): string {
  const space = () => ['', '', ' ', '\n\t'][Math.floor(random() * 4)]
  if (typeof value === 'string') return value
  if (!('pairs' in value)) return `[${value.map((each) => render(each, random)).join(',')}]`
  const escaped = (text: string) =>
    [...text].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  const pairs = value.pairs.map(([name, each]) => {
    const quoted = random() < 0.3 ? `"${escaped(name)}"` : JSON.stringify(name)
    return `${space()}${quoted}${space()}:${space()}${render(each, random)}${space()}`
  })
  return `{${pairs.join(',')}}`
}

/** The reference: whether an object has a key twice. */
function repeats(value: Written): boolean {
  if (typeof value === 'string') return false
  if (!('pairs' in value)) return value.some(repeats)
  const names = value.pairs.map(([name]) => name)
  return new Set(names).size < names.length || value.pairs.some(([, each]) => repeats(each))
}

test('exactly the texts in which an object has a key twice are refused', () => {
  const seen = { refused: 0, accepted: 0 }
  fc.assert(
    fc.property(
      fc.array(fc.tuple(key, written), { maxLength: 4 }),
      fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true })),
      (pairs, numbers) => {
        const text = render({ pairs }, () => numbers.next().value as number)
        const parsed = JSON.parse(text)
        for (const check of [
          () => refuseRepeatedKeys(text),
          () => refuseDroppedKeys(text, parsed),
        ]) {
          if (repeats({ pairs })) expect(check).toThrow(/ is given twice$/)
          else expect(check).not.toThrow()
        }
        seen[repeats({ pairs }) ? 'refused' : 'accepted'] += 1
      },
    ),
    { numRuns: 1_000 },
  )
  expect(Math.min(seen.refused, seen.accepted)).toBeGreaterThan(50)
})

test('a text that is no JSON ends the scan, whatever it is', () => {
  const bits = fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', 'a', ' ', '\\u00', '"a":')
  fc.assert(
    fc.property(fc.array(bits, { maxLength: 30 }), (parts) => {
      try {
        refuseRepeatedKeys(parts.join(''))
      } catch (error) {
        expect(`${error}`).toMatch(/^SyntaxError|is given twice$/)
      }
    }),
    { numRuns: 1_000 },
  )
})

test('a text that is as deep as fits is read', () => {
  const text = `${'{"a":'.repeat(10_000)}":"${'}'.repeat(10_000)}`
  expect(() => refuseDroppedKeys(text, JSON.parse(text))).not.toThrow()
})
