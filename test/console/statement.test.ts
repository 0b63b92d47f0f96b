import { create } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  Action,
  Finding,
  RecordedPaymentSchema,
  StatementResultSchema,
} from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { readCsv } from '../../src/cli/read-csv.ts'
import { csvText } from '../../src/console/format/csv.ts'
import {
  blanksBefore,
  dayAt,
  dayStartMs,
  shiftMonth,
} from '../../src/console/pages/lagos-calendar.ts'
import { extraOf, isOpen, outcomeOf } from '../../src/console/pages/outcome.ts'
import {
  readCredits,
  readTable,
  type StatementFormat,
} from '../../src/console/pages/statement-csv.ts'

const FORMAT: StatementFormat = {
  bank: '9PSB',
  columns: new Map(),
  dates: undefined,
  unit: 'naira',
}
const read = async (text: string, format: Partial<StatementFormat> = {}) =>
  readCredits(await readTable(new Blob([text])), { ...FORMAT, ...format })

describe('CSV that is saved', () => {
  test('is read again as it was, but for formulas', async () => {
    const field = fc.string({ maxLength: 20 }).map((text) => text.replaceAll(/[\0\r]/g, ' '))
    await fc.assert(
      fc.asyncProperty(fc.array(field, { minLength: 2, maxLength: 5 }), async (fields) => {
        const records: (readonly string[])[] = []
        for await (const record of readCsv([csvText([fields])])) records.push(record.fields)
        const disarmed = fields.map((text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text))
        const exact = fields.map((text, at) => (/^-\d+$/.test(text) ? text : disarmed[at]))
        expect(records).toEqual([exact])
      }),
    )
  })

  test('leaves negative amounts as they are, and disarms what a spreadsheet would run', () => {
    expect(csvText([['-1500.50', '=1+1', '+234', '-2+3']])).toBe(`-1500.50,'=1+1,'+234,'-2+3\r\n`)
  })
})

describe('a statement', () => {
  const ROWS =
    'Session ID,Account Number,Amount,Date,DR/CR\r\ns1,2000000001,"1,500.50",2026-11-20 10:00:00,CR\r\n' +
    's2,2000000001,1.00,2026-11-20 10:00:00,DR\r\n'

  test('is read with its columns recognised, and without its debits', async () => {
    const { rows, skipped, faults } = await read(ROWS)
    expect(faults).toEqual([])
    expect(skipped).toBe(1)
    expect(rows).toMatchObject([{ line: 2, credit: { sessionId: 's1', amountMinor: 150_050n } }])
    expect(rows[0]!.credit.paidAtMs).toBe(Date.parse('2026-11-20T10:00:00+01:00'))
  })

  test('is read with columns that the viewer names', async () => {
    const text = ROWS.replace('Session ID', 'Ref').replace('Amount', 'Value')
    expect((await read(text)).faults[0]).toContain('no header matches session')
    const columns = new Map([['session', 'Ref'] as const, ['amount', 'Value'] as const])
    expect((await read(text, { columns })).rows).toHaveLength(1)
  })

  test('states its faults by line, and what is no CSV', async () => {
    const { faults } = await read(`${ROWS}s3,20,1.00,2026-11-20 10:00:00,CR\ns4,2000000001\n`)
    expect(faults).toEqual([
      'Line 4: Account Number: "20" does not have ten digits',
      'Line 5: it has 2 columns, but the header has 5',
    ])
    const slashed = await read(ROWS.replaceAll('2026-11-20', '03/04/2026'))
    expect(slashed.faults[0]).toBe(
      'Line 2: Date: "03/04/2026 10:00:00" does not say whether the day or the month comes first',
    )
    await expect(read('')).rejects.toThrow('the file is empty')
    await expect(read('a,b\n"1')).rejects.toThrow(/quote/i)
    await expect(readTable(new Blob([new Uint8Array([0x61, 0xff])]))).rejects.toThrow('UTF-8')
  })

  test('is grouped by its results, and a payment counts once', async () => {
    const [row] = (await read(ROWS)).rows
    const seen = new Set<string>()
    const recorded = create(RecordedPaymentSchema, {
      transactionId: 'txn_1',
      status: TransactionStatus.SUCCESS,
    })
    const result = (finding: Finding) =>
      create(StatementResultSchema, { finding, action: Action.NONE, recorded })
    expect(outcomeOf(row!, result(Finding.MATCHED), seen).group).toBe('matched')
    expect(outcomeOf(row!, result(Finding.MATCHED), seen).group).toBe('repeated')
    const mismatch = outcomeOf(row!, result(Finding.MISMATCHED), seen)
    expect(mismatch.group).toBe('mismatched')
    expect(isOpen(mismatch)).toBe(true)
    expect(isOpen({ ...mismatch, action: Action.REVIEW })).toBe(false)
    expect(extraOf(recorded, seen)).toBeUndefined()
    expect(extraOf({ ...recorded, transactionId: 'txn_2' }, seen)?.group).toBe('extra')
  })
})

test('days and months are those of Lagos', () => {
  expect(dayAt(Date.parse('2026-11-30T23:30:00Z'))).toBe('2026-12-01')
  expect(dayStartMs('2026-12-01')).toBe(Date.parse('2026-11-30T23:00:00Z'))
  expect(shiftMonth('2026-01', -1)).toBe('2025-12')
  expect(shiftMonth('2026-12', 1)).toBe('2027-01')
  // 1 November 2026 is a Sunday, 1 June 2026 a Monday.
  expect(blanksBefore('2026-11')).toBe(6)
  expect(blanksBefore('2026-06')).toBe(0)
})
