import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { timestampMs } from '@bufbuild/protobuf/wkt'
import { stringify } from 'csv-stringify/sync'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { ImportedTransactionSchema } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { type FileRow, readRows } from '../../src/cli/import-rows.ts'
import { formatAmount } from '../../src/core/money.ts'
import { temporaryFolder } from './run-inflow.ts'

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
        ...{ session_id: row.sessionId, bank: '9psb', accountNumber: '1234567890' },
        ...{ amount: formatAmount(amountMinor), paid_at: new Date(paidAtMs).toISOString() },
        ...{ status: 'reversed', settled: row.settled === undefined ? '' : `${row.settled}` },
        ...{ payer_name: 'BOLA', narration: row.narration },
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
