import { readFileSync } from 'node:fs'
import {
  type SpanKind as ApiKind,
  type Link,
  ROOT_CONTEXT,
  type Span as SdkSpan,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { TracingConfig } from '../config/tracing-settings.ts'
import { withTimeout } from '../core/concurrency.ts'
import type { Attributes, RootOptions, Span, TraceContext, Tracing } from '../core/tracing.ts'

/** How long the last spans may take to reach the collector when the service stops. */
const CLOSE_MS = 2_000

/** The most links of a span: a batch of payments links up to 256 calls. */
const LINKS_MAX = 256

const KINDS: Readonly<Record<NonNullable<RootOptions['kind']>, ApiKind>> = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
}

/**
 * Traces with the OpenTelemetry SDK. All settings are passed explicitly: no global provider is registered, and no context
 * follows asynchronous calls. The queue is bounded; further spans are dropped.
 */
export function createOtlpTracing(config: TracingConfig, log: Logger): Tracing {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ ...config.resource }),
    sampler: createSampler(config.sampler),
    // A batch links all of its payments.
    spanLimits: { linkCountLimit: LINKS_MAX },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: createExporter(config, log),
        maxQueueSize: config.queueMax,
        maxExportBatchSize: config.batchMax,
        scheduledDelayMillis: config.delayMs,
        exportTimeoutMillis: config.exportTimeoutMs,
      }),
    ],
  })
  const tracer = provider.getTracer('inflow')
  return {
    start: (name, { parent, ...options } = {}) =>
      new OtlpSpan(tracer, startSpan(tracer, name, options, parent && toApi(parent, true))),
    // Spans that do not arrive in time are lost with the process.
    close: async () =>
      void (await withTimeout(
        provider.shutdown().catch(() => undefined),
        CLOSE_MS,
      )),
  }
}

class OtlpSpan implements Span {
  readonly context: TraceContext
  readonly isRecorded: boolean
  readonly #tracer: Tracer
  readonly #span: SdkSpan

  constructor(tracer: Tracer, span: SdkSpan) {
    const { traceId, spanId, traceFlags: flags } = span.spanContext()
    this.context = { traceId, spanId, flags }
    this.isRecorded = span.isRecording()
    this.#tracer = tracer
    this.#span = span
  }

  child(name: string, options: Omit<RootOptions, 'parent'> = {}): Span | undefined {
    if (!this.isRecorded) return undefined
    const parent = toApi(this.context, false)
    return new OtlpSpan(this.#tracer, startSpan(this.#tracer, name, options, parent))
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes)
  }

  end(error?: string): void {
    if (error !== undefined) {
      this.#span.setAttribute('error.type', error)
      this.#span.setStatus({ code: SpanStatusCode.ERROR })
    }
    this.#span.end()
  }
}

function startSpan(
  tracer: Tracer,
  name: string,
  { kind = 'internal', links = [], attributes = {} }: Omit<RootOptions, 'parent'>,
  parent: SpanContext | undefined,
): SdkSpan {
  const context = parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT
  return tracer.startSpan(
    name,
    {
      kind: KINDS[kind],
      attributes: { ...attributes },
      links: links.map((link): Link => ({ context: toApi(link, true) })),
    },
    context,
  )
}

/** @param isRemote whether the context comes from another process, or was stored earlier */
function toApi({ traceId, spanId, flags }: TraceContext, isRemote: boolean): SpanContext {
  return { traceId, spanId, traceFlags: flags, isRemote }
}

/** Creates the configured sampler. Every sampler decides alike for all spans of a trace. */
function createSampler({ isParentBased, ratio }: TracingConfig['sampler']): Sampler {
  const root = createRoot(ratio)
  return isParentBased ? new ParentBasedSampler({ root }) : root
}

function createRoot(ratio: number): Sampler {
  if (ratio === 1) return new AlwaysOnSampler()
  return ratio === 0 ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio)
}

/** How often an unavailable collector is logged. */
const LOG_EVERY_MS = 60_000

type ExporterOptions = NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>
type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0]

/**
 * Posts spans to the collector as JSON. The library would read the same environment variables itself; all of them are passed
 * explicitly, so that the validated values are used.
 *
 * @throws Error that names the setting of an unreadable file
 */
function createExporter(config: TracingConfig, log: Logger): SpanExporter {
  const { url, headers, timeoutMs, compression } = config
  const ca = read('OTEL_EXPORTER_OTLP_CERTIFICATE', config.caFile)
  const cert = read('OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE', config.certFile)
  const key = read('OTEL_EXPORTER_OTLP_CLIENT_KEY', config.keyFile)
  const exporter = new OTLPTraceExporter({
    url,
    headers: { ...headers },
    timeoutMillis: timeoutMs,
    // The enumeration is in an internal package; these are its values.
    compression: compression as NonNullable<ExporterOptions['compression']>,
    // When the service stops, all waiting batches are exported at once.
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
        // With an error, the processor would only call OpenTelemetry's global error handler.
        done({ code: 0 })
      })
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  }
}

/** Logs at most one line a minute, without the response of the collector. */
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
