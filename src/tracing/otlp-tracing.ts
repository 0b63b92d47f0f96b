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
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { TracingConfig } from '../config/tracing-settings.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { createExporter } from './otlp-exporter.ts'
import type { TraceContext } from './traceparent.ts'
import type { Attributes, RootOptions, Span, Tracing } from './tracing.ts'

/** How long the last spans have to reach the collector when the service stops. */
const CLOSE_MS = 2_000

/** The most calls of a batch. */
const LINKS_MAX = 256

const KINDS: Readonly<Record<NonNullable<RootOptions['kind']>, ApiKind>> = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
}

/**
 * Traces over the SDK of OpenTelemetry. It is given everything: no provider is registered for the process, and
 * no context follows asynchronous calls. The queue is bounded, and what does not fit is dropped.
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
    // What does not arrive in time is lost with the process.
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

/** @param isRemote whether it is of another process or of another time */
function toApi({ traceId, spanId, flags }: TraceContext, isRemote: boolean): SpanContext {
  return { traceId, spanId, traceFlags: flags, isRemote }
}

/** The sampler that the settings name. Each decides alike for all spans of a trace. */
function createSampler({ isParentBased, ratio }: TracingConfig['sampler']): Sampler {
  const root = createRoot(ratio)
  return isParentBased ? new ParentBasedSampler({ root }) : root
}

function createRoot(ratio: number): Sampler {
  if (ratio === 1) return new AlwaysOnSampler()
  return ratio === 0 ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio)
}
