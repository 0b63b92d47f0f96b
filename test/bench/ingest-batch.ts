import type { Benchmark } from './benchmark.ts'
import { compareIngest } from './compare-ingest.ts'

const PAYMENTS = 500

export const ingestBatch: Benchmark = {
  name: 'ingest-batch',
  measure: (bench) =>
    compareIngest(bench, {
      name: 'ingest-batch',
      what: `RecordPayments, ${PAYMENTS} a call`,
      call: { kind: 'record-batch', payments: PAYMENTS },
      paymentsPerCall: PAYMENTS,
      inFlight: 4,
      atLeastTimesPool: 4,
      atLeastTimesPgbench: 3,
    }),
}
