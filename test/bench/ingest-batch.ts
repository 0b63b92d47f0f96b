import { ingestAgainst } from './ingest-against.ts'
import type { Row } from './row.ts'

const PAYMENTS = 500

export const ingestBatch: Row = {
  name: 'ingest-batch',
  measure: (bench) =>
    ingestAgainst(bench, {
      name: 'ingest-batch',
      what: `RecordPayments, ${PAYMENTS} a call`,
      call: { kind: 'record-batch', payments: PAYMENTS },
      paymentsPerCall: PAYMENTS,
      inFlight: 4,
      atLeastTimesPool: 4,
      atLeastTimesPgbench: 3,
    }),
}
