import type { Benchmark } from './benchmark.ts'
import { compareIngest } from './compare-ingest.ts'
import { ACCOUNTS } from './seed.ts'

/** Single payments over gRPC. */
export const RECORD_PAYMENT = {
  call: { kind: 'record', accounts: ACCOUNTS },
  paymentsPerCall: 1,
  inFlight: 64,
} as const

export const ingest: Benchmark = {
  name: 'ingest',
  measure: (bench) =>
    compareIngest(bench, {
      ...RECORD_PAYMENT,
      name: 'ingest',
      what: 'RecordPayment, 64 in flight',
      atLeastTimesPool: 1.3,
      atLeastTimesPgbench: 1.2,
    }),
}
