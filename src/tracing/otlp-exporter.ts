import { readFileSync } from 'node:fs'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { TracingConfig } from '../config/tracing-settings.ts'

/** A collector that is unavailable is reported this often. */
const LOG_EVERY_MS = 60_000

type ExporterOptions = NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>
type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0]

/**
 * Posts spans to the collector as JSON. The library reads the same variables of the environment; everything that
 * it would take from there is given to it, so that what was validated is what counts.
 *
 * @throws Error that names the setting of a file that cannot be read
 */
export function createExporter(config: TracingConfig, log: Logger): SpanExporter {
  const { url, headers, timeoutMs, compression } = config
  const ca = read('OTEL_EXPORTER_OTLP_CERTIFICATE', config.caFile)
  const cert = read('OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE', config.certFile)
  const key = read('OTEL_EXPORTER_OTLP_CLIENT_KEY', config.keyFile)
  const exporter = new OTLPTraceExporter({
    url,
    headers: { ...headers },
    timeoutMillis: timeoutMs,
    // An enumeration of a package that is not for direct use; these are its values.
    compression: compression as NonNullable<ExporterOptions['compression']>,
    // At the end, all that waits is exported at once.
    concurrencyLimit: Math.ceil(config.queueMax / config.batchMax) + 1,
    httpAgentOptions: {
      keepAlive: true,
      ...(ca && { ca }),
      ...(cert && { cert }),
      ...(key && { key }),
    },
  })
  const report = createFailureLog(log, new URL(url).host)
  return {
    export(spans: ReadableSpan[], done: (result: Result) => void) {
      exporter.export(spans, (result) => {
        if (result.code !== 0) report(spans.length, result.error)
        // The processor would only raise the error again, for a handler of the whole process.
        done({ code: 0 })
      })
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  }
}

/** One line a minute at most, and never what the collector responded. */
function createFailureLog(log: Logger, collector: string) {
  let sinceMs = Number.NEGATIVE_INFINITY
  let lost = 0
  return (spans: number, error: (Error & { readonly code?: unknown }) | undefined): void => {
    lost += spans
    if (performance.now() < sinceMs + LOG_EVERY_MS) return
    sinceMs = performance.now()
    const reason = error?.code ?? error?.message ?? 'unknown'
    log.warn({ collector, spans: lost, reason }, 'spans could not be exported and are lost')
    lost = 0
  }
}

function read(setting: string, file: string | undefined): Buffer | undefined {
  if (file === undefined) return undefined
  try {
    return readFileSync(file)
  } catch (error) {
    throw new Error(`${setting} cannot be read: ${(error as Error).message}`)
  }
}
