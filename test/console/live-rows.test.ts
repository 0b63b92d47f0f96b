import { create } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Transaction,
  TransactionSchema,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { addArrivals, keepUncounted, withArrivals } from '../../src/console/pages/arrivals.ts'
import {
  arrive,
  joinRows,
  LIVE_ROWS_MAX,
  type LiveRows,
  NO_ROWS,
  release,
} from '../../src/console/ui/live-rows.ts'

const payment = (number: number, status: TransactionStatus = TransactionStatus.SUCCESS) =>
  create(TransactionSchema, { id: `txn_${number}`, amountMinor: BigInt(number), status })

const idsOf = (rows: readonly Transaction[]) => rows.map(({ id }) => id)

const quiet = { recorded: [] as Transaction[], isHeld: false, missed: false }

describe('rows that arrive', () => {
  test('are shown newest first above those that were read, each once', () => {
    const read = [payment(2), payment(1)]
    const known = new Set(idsOf(read))
    const recorded = [payment(2), payment(3), payment(4)]
    const rows = arrive(NO_ROWS, { ...quiet, known, recorded })
    const ids = ['txn_4', 'txn_3', 'txn_2', 'txn_1']
    expect(idsOf(joinRows(rows, read))).toEqual(ids)
    // The list was read again, and has them now.
    expect(idsOf(joinRows(rows, [payment(4), ...read]))).toEqual(ids)
  })

  test('change in their place, whether they match or not', () => {
    const read = [payment(2), payment(1)]
    const reversed = payment(1, TransactionStatus.REVERSED)
    const rows = arrive(NO_ROWS, {
      ...quiet,
      known: new Set(idsOf(read)),
      changed: [reversed, payment(9, TransactionStatus.REVERSED)],
      matches: () => false,
      isHeld: true,
    })
    expect(joinRows(rows, read)).toEqual([payment(2), reversed])
  })

  test('do not move what the viewer reads, are counted, and never kept without bound', () => {
    const batches = fc.array(
      fc.record({
        size: fc.integer({ min: 0, max: 300 }),
        isHeld: fc.boolean(),
        missed: fc.boolean(),
      }),
      { maxLength: 12 },
    )
    fc.assert(
      fc.property(batches, (all) => {
        let rows: LiveRows<Transaction> = NO_ROWS
        let number = 0
        for (const { size, isHeld, missed } of all) {
          const recorded = Array.from({ length: size }, () => payment(++number))
          const before = idsOf(rows.shown)
          rows = arrive(rows, { ...quiet, recorded, isHeld, missed })
          if (isHeld) expect(idsOf(rows.shown)).toEqual(before)
          else expect(rows.waitingCount).toBe(0)
          expect(rows.shown.length).toBeLessThanOrEqual(LIVE_ROWS_MAX)
          expect(rows.waiting.length).toBeLessThanOrEqual(LIVE_ROWS_MAX)
          expect(rows.waitingCount).toBeGreaterThanOrEqual(rows.waiting.length)
        }
        const shown = release(rows).shown.map(({ amountMinor }) => Number(amountMinor))
        // Without a gap, the newest first; where some were dropped, the list below is not shown.
        expect(shown).toEqual(shown.map((_, index) => (shown[0] ?? 0) - index))
        if (number > LIVE_ROWS_MAX) expect(release(rows).isCut).toBe(true)
      }),
    )
  })
})

describe('payments since the figures were read', () => {
  const second = 1_000
  const arrivals = addArrivals(
    [],
    [1, 2, 2, 3].map((at) => ({ atMs: at * second + 7, amountMinor: 10n })),
  )

  test('are added to them', () => {
    expect(withArrivals({ payments: 5n, amountMinor: 100n }, arrivals)).toEqual({
      payments: 9n,
      amountMinor: 140n,
    })
  })

  test('leave once new figures contain them, but for those that the service says are not counted', () => {
    expect(keepUncounted(arrivals, 3 * second, 0).map(({ atMs }) => atMs)).toEqual([3_000])
    expect(keepUncounted(arrivals, 4 * second, 0)).toEqual([])
    expect(keepUncounted(arrivals, 4 * second, 3).map(({ payments }) => payments)).toEqual([2, 1])
  })
})
