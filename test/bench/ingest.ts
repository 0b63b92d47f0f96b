import { ingestAgainst } from './ingest-against.ts'
import type { Row } from './row.ts'
import { ACCOUNTS } from './seed.ts'

export const ingest: Row = {
  name: 'ingest',
  measure: (bench) =>
    ingestAgainst(bench, {
      name: 'ingest',
      what: 'RecordPayment, 64 in flight',
      call: { kind: 'record', accounts: ACCOUNTS },
      paymentsPerCall: 1,
      inFlight: 64,
      atLeastTimesPool: 1.3,
      atLeastTimesPgbench: 1.2,
    }),
}
