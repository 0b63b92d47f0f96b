import type { Settlement } from '../../src/settlement/settlement.ts'

/** A running settlement of 100 events, half-way. */
export const settlement: Settlement = {
  businessId: 'biz_1',
  live: true,
  id: 'set_1',
  requestId: 'srq_1',
  idempotencyKey: 'monday',
  status: 'RUNNING',
  forced: true,
  cutOffAtMs: Date.UTC(2026, 10, 20, 23),
  fromSequence: 100n,
  toSequence: 200n,
  scannedSequence: 150n,
  transactionCount: 7n,
  grossMinor: 10_000n,
  feesMinor: 150n,
  splitsMinor: 50n,
  startedAtMs: Date.UTC(2026, 10, 21),
  completedAtMs: undefined,
  feeFlatMinor: 5n,
  feeBasisPoints: 150,
  feeCapMinor: 200_000n,
}
