import type { Benchmark } from './benchmark.ts'
import { compareIngest } from './compare-ingest.ts'
import { ACCOUNTS } from './seed.ts'

export const ingest: Benchmark = {
  name: 'ingest',
  measure: (bench) =>
    compareIngest(bench, {
      name: 'ingest',
      what: 'RecordPayment, 64 in flight',
      call: { kind: 'record', accounts: ACCOUNTS },
      paymentsPerCall: 1,
      inFlight: 64,
      atLeastTimesPool: 1.3,
      atLeastTimesPgbench: 1.2,
    }),
}
