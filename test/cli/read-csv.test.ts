import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCsv } from '../../src/cli/read-csv.ts'

async function read(chunks: readonly string[]): Promise<(readonly string[])[]> {
  const records: (readonly string[])[] = []
  for await (const { fields } of readCsv(chunks)) records.push(fields)
  return records
}

const field = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', ' ', 'é', '😀') })

test('reads what was written, quoted or not, in chunks of any size', async () => {
  const needsQuotes = /[",\r\n]/
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(field, { minLength: 2, maxLength: 4 }), { minLength: 1, maxLength: 5 }),
      fc.constantFrom('\n', '\r\n'),
      fc.boolean(),
      fc.array(fc.nat(60), { maxLength: 5 }),
      async (records, newline, ends, cuts) => {
        const write = (text: string) =>
          needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text
        const text = records.map((fields) => fields.map(write).join(',')).join(newline)
        const whole = [...(text + (ends ? newline : ''))]
        const at = [0, ...cuts.sort((a, b) => a - b), whole.length]
        const chunks = at.map((from, index) => whole.slice(from, at[index + 1]).join(''))
        expect(await read(chunks)).toEqual(records)
      },
    ),
  )
})

describe('invalid CSV is refused with its position', () => {
  test.each([
    ['a,b\nc"d,e', 'line 2, column 1: a quote inside an unquoted field'],
    ['a,b\nc,"d"e', 'line 2, column 2: text after a closing quote'],
    ['a,b\n\n"c,d\n', 'line 3, column 1: the closing quote is missing'],
    ['a,b\r\n"1\r\n2",c\r\nd,"e', 'line 4, column 2: the closing quote is missing'],
    ['a\rb', 'line 1, column 1: a carriage return'],
    ['a,b\n"c"\0d,e', 'line 2, column 1: a NUL character'],
    [`a,b\nc,${'x'.repeat(70_000)}`, 'line 2, column 2: the record is longer'],
    [`a,b\n"${'x\n'.repeat(40_000)}`, 'line 2, column 1: the record is longer'],
    [`a,b\n${','.repeat(70_000)}`, 'line 2, column 1001: a record has at most 1000 fields'],
  ])('%j', async (text, position) => {
    const message = await read([text]).then(String, (error: Error) => error.message)
    expect(message).toContain(position)
  })
})

test('skips empty lines, and counts lines as an editor does', async () => {
  const lines: [number, readonly string[]][] = []
  for await (const { line, fields } of readCsv(['a,b\r\n\r\n"1\n2",x\n\ny,z'])) {
    lines.push([line, fields])
  }
  expect(lines).toEqual([
    [1, ['a', 'b']],
    [3, ['1\n2', 'x']],
    [6, ['y', 'z']],
  ])
})
