import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { alternateRounds } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark } from './benchmark.ts'
import { openOurs } from './compare-ingest.ts'
import { detailNotes } from './detail-notes.ts'
import { RECORD_PAYMENT } from './ingest.ts'

/** Single payments over gRPC while one trace in a hundred is exported, against the same without traces. */
export const ingestTraced: Benchmark = {
  name: 'ingest-traced',
  async measure(bench) {
    const traced = await openOurs(bench, RECORD_PAYMENT, {
      OTEL_EXPORTER_OTLP_ENDPOINT: await startSink(bench),
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.01',
    })
    const untraced = { ...(await openOurs(bench, RECORD_PAYMENT)), name: 'ingest' }
    const contenders = { traced, untraced }
    const figures = await alternateRounds(contenders, { ...bench, before: bench.checkpoint })
    return [
      {
        name: 'ingest-traced',
        what: 'RecordPayment, 64 in flight, 1 % traced',
        unit: '/s',
        ours: figures.traced,
        yardstick: figures.untraced,
        target: { atLeastTimes: 0.95 },
        notes: detailNotes(figures.traced, figures.untraced),
      },
    ]
  },
}

/** A collector that accepts everything and keeps nothing. */
async function startSink(bench: Bench): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.end('{}'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  bench.onEnd(async () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
