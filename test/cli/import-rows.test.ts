import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import { stringify } from 'csv-stringify/sync'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { ImportedTransactionSchema } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { type FileRow, readRows } from '../../src/cli/import-rows.ts'
import { readCsv } from '../../src/cli/read-csv.ts'
import { formatAmount } from '../../src/core/money.ts'
import { temporaryFolder } from '../support/folder.ts'

const ROW = fc.record({
  sessionId: fc.stringMatching(/^[A-Za-z0-9_./-]{1,64}$/),
  amountMinor: fc.bigInt({ min: 0n, max: 1_000_000_000_000_000n }),
  paidAtMs: fc.integer({ min: 946_684_800_000, max: 4_102_444_799_999 }),
  settled: fc.option(fc.boolean(), { nil: undefined }),
  // What CSV has to quote, and other scripts.
  narration: fc.string({
    unit: fc.constantFrom('a', ' ', ',', '"', '\n', 'é', '字'),
    maxLength: 30,
  }),
})

async function read(file: string) {
  const rows: FileRow<typeof ImportedTransactionSchema>[] = []
  for await (const row of readRows(ImportedTransactionSchema, file)) rows.push(row)
  return rows
}

test('what is written as CSV or as JSON is read as it was, without a float between', async () => {
  const folder = temporaryFolder()
  await fc.assert(
    fc.asyncProperty(fc.array(ROW, { minLength: 1, maxLength: 20 }), async (rows) => {
      const records = rows.map(({ amountMinor, paidAtMs, ...row }) => ({
        session_id: row.sessionId,
        bank: '9psb',
        accountNumber: '1234567890',
        amount: formatAmount(amountMinor),
        paid_at: new Date(paidAtMs).toISOString(),
        status: 'reversed',
        settled: row.settled === undefined ? '' : `${row.settled}`,
        payer_name: 'BOLA',
        narration: row.narration,
      }))
      const [csv, json] = [join(folder, 'rows.csv'), join(folder, 'rows.jsonl')]
      writeFileSync(csv, stringify(records, { header: true }))
      const objects = records.map(({ settled, ...record }) => ({
        ...record,
        ...(settled !== '' && { settled: settled === 'true' }),
      }))
      writeFileSync(json, objects.map((each) => JSON.stringify(each)).join('\n'))
      for (const [file, isTrimmed] of [
        [csv, true],
        [json, false],
      ] as const) {
        const found = await read(file)
        expect(found.flatMap(({ faults }) => faults)).toEqual([])
        for (const [index, { row }] of found.entries()) {
          const { sessionId, amountMinor, paidAtMs, settled, narration } = rows[index]!
          expect(row).toMatchObject({ sessionId, amountMinor, bank: Bank.BANK_9PSB })
          expect(row).toMatchObject({ status: TransactionStatus.REVERSED, payer: { name: 'BOLA' } })
          expect(timestampMs(row!.paidAt!)).toBe(paidAtMs)
          expect(row!.settled).toBe(settled)
          expect(row!.narration).toBe(isTrimmed ? narration.trim() : narration)
        }
        expect(found).toHaveLength(rows.length)
      }
    }),
    { numRuns: 30 },
  )
})

test('a cell that is no boolean is refused', async () => {
  const file = join(temporaryFolder(), 'rows.csv')
  writeFileSync(file, 'session_id,settled\na,constructor\nb,maybe\nc,YES\nd,0\n')
  const found = await read(file)
  const faultsOf = (at: number) =>
    found[at]!.faults.filter(({ field }) => field === 'settled').map(({ message }) => message)
  expect([0, 1, 2, 3].map(faultsOf)).toEqual([
    ['must be true or false'],
    ['must be true or false'],
    [],
    [],
  ])
})

async function readText(chunks: readonly string[]): Promise<(readonly string[])[]> {
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
        expect(await readText(chunks)).toEqual(records)
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
    const message = await readText([text]).then(String, (error: Error) => error.message)
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
