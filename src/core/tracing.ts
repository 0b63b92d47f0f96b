import { AsyncLocalStorage } from 'node:async_hooks'
import { Histogram, type HistogramConfiguration, Registry } from 'prom-client'
import { Fault } from './errors.ts'

/** The kinds of spans, named as in OpenTelemetry. */
type SpanKind = 'internal' | 'server' | 'client' | 'producer'

/** Attributes of a span. They must not contain names, amounts, account or identity numbers, or secrets. */
export type Attributes = Readonly<Record<string, string | number | boolean>>

interface SpanOptions {
  /** Default: internal. */
  readonly kind?: SpanKind
  /** Other spans that caused this span. */
  readonly links?: readonly TraceContext[]
  readonly attributes?: Attributes
}

/** The options of a span without a parent in this process. */
export interface RootOptions extends SpanOptions {
  /** The remote or earlier parent of the span; undefined: the span begins a trace. */
  readonly parent?: TraceContext | undefined
}

/**
 * One step of a trace. A span that does not end is not exported, so work that turns out to be unnecessary leaves no trace.
 * Spans are passed as arguments: there is no current span.
 */
export interface Span {
  readonly context: TraceContext
  /** Whether the span is exported. If not, it only propagates its trace context. */
  readonly isRecorded: boolean
  /** Begins a child span; undefined unless this span is recorded. */
  child(name: string, options?: SpanOptions): Span | undefined
  set(attributes: Attributes): void
  /** Ends the span. @param error the type of the error if the step failed; never its text, which may be private */
  end(error?: string): void
}

/** Tracing of this process; `undefined` in its place if tracing is off. */
export interface Tracing {
  /** Begins a span. The sampler decides whether it is recorded. */
  start(name: string, options?: RootOptions): Span
  /** Exports ended spans. Takes at most two seconds. */
  close(): Promise<void>
}

/**
 * Runs a step, and ends its span.
 *
 * @param failureOf returns the type of the error if a result stands for an error
 */
export async function inSpan<Result>(
  span: Span | undefined,
  work: () => Promise<Result>,
  failureOf?: (result: Result) => string | undefined,
): Promise<Result> {
  if (span === undefined) return work()
  try {
    const result = await work()
    span.end(failureOf?.(result))
    return result
  } catch (error) {
    span.end(errorTypeOf(error))
    throw error
  }
}

/** The value of `error.type` for an error: one of few values, without its text. */
export function errorTypeOf(error: unknown): string {
  if (error instanceof Fault) return error.reason
  if (!(error instanceof Error)) return typeof error
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code) ? code : error.name
}

/**
 * Observes a duration.
 *
 * @param traceId of a recorded trace, which becomes the exemplar
 */
type Observe = (seconds: number, traceId?: string) => void

/** A histogram of durations, with exemplars if the format of the registry supports them. */
interface Timer<Label extends string> {
  /** Returns the observer of a label set. Keep it, because looking it up costs more than observing. */
  of(labels: Readonly<Record<Label, string>>): Observe
}

/** The only format of a registry with which prom-client accepts exemplars. */
const OPEN_METRICS: string = Registry.OPENMETRICS_CONTENT_TYPE

export function createTimer<Label extends string>(
  configuration: Omit<HistogramConfiguration<Label>, 'registers' | 'enableExemplars'>,
  register: Registry,
): Timer<Label> {
  const enableExemplars = register.contentType === OPEN_METRICS
  const histogram = new Histogram({ ...configuration, registers: [register], enableExemplars })
  return {
    of(labels) {
      histogram.zero(labels)
      const child = histogram.labels(labels)
      if (!enableExemplars) return (seconds) => child.observe(seconds)
      return (value, traceId) => {
        if (traceId === undefined) child.observe(value)
        else histogram.observe({ labels, value, exemplarLabels: { trace_id: traceId } as never })
      }
    },
  }
}

/** The trace id of a span for an exemplar, if the span is recorded. */
export function exemplarOf(span: Span | undefined): string | undefined {
  return span?.isRecorded ? span.context.traceId : undefined
}

/** Identifies a span of a trace, as in W3C Trace Context. */
export interface TraceContext {
  /** 32 hexadecimal digits, not all zeros. */
  readonly traceId: string
  /** 16 hexadecimal digits, not all zeros. */
  readonly spanId: string
  /** The defined flags: bit 0 is "sampled", bit 1 is "the trace id is random". */
  readonly flags: number
}

/** The flags of version 00; other flags must not be passed on. */
const KNOWN_FLAGS = 3

/** A version, a trace id, a span id and flags; a later version may add fields. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?$/

/** Longer headers are ignored; no version is longer in practice. */
const LENGTH_MAX = 512

const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)

/**
 * Parses a traceparent header by the rules of W3C Trace Context: a malformed header counts as absent, and of a later
 * version, the fields of version 00 are read.
 *
 * @returns undefined if the header is absent or malformed
 */
export function parseTraceparent(text: string | null | undefined): TraceContext | undefined {
  if (!text || text.length > LENGTH_MAX) return undefined
  const [, version, traceId = '', spanId = '', flags = '', rest] = TRACEPARENT.exec(text) ?? []
  if (version === undefined || version === 'ff') return undefined
  if (version === '00' && rest !== undefined) return undefined
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined
  return { traceId, spanId, flags: Number.parseInt(flags, 16) & KNOWN_FLAGS }
}

/** Writes a traceparent of version 00. */
export function formatTraceparent({ traceId, spanId, flags }: TraceContext): string {
  return `00-${traceId}-${spanId}-0${flags & KNOWN_FLAGS}`
}

/** Converts a header to version 00, to be stored and passed on. @returns undefined if it is absent or malformed */
export function keptTraceparent(text: string | null | undefined): string | undefined {
  const context = parseTraceparent(text)
  return context && formatTraceparent(context)
}

/** The trace context of a call. */
export interface TracedCall {
  /** The traceparent header as received, which may be any text; undefined: the caller sent none. */
  readonly traceparent?: string | undefined
  /** The span of the call; undefined: tracing is off. */
  readonly span?: Span | undefined
}

/** The trace of a reported payment. */
export interface PaymentTrace {
  /** The traceparent that is stored with the payment, in version 00. */
  readonly traceparent?: string | undefined
  /** The span that reports the payment; undefined: tracing is off. */
  readonly span?: Span | undefined
}

/**
 * The trace of a payment that a call reports: the trace of the caller, whether or not tracing is on, or else the trace
 * that begins with the call, if it is recorded.
 */
export function paymentTraceOf(call: TracedCall | undefined): PaymentTrace {
  const span = call?.span
  const traceparent = keptTraceparent(call?.traceparent)
  if (span === undefined) return { traceparent }
  const own = span.isRecorded ? formatTraceparent(span.context) : undefined
  return { traceparent: traceparent ?? own, span }
}

/** The ids of the request to which log lines belong. */
interface RequestFields {
  readonly request_id: string
  /** Absent: the request has no trace. */
  readonly trace_id?: string
}

const scope = new AsyncLocalStorage<RequestFields>()

/** Runs work of a request. The log adds the fields to each line that this work writes. */
export function inRequest<T>(fields: RequestFields, run: () => T): T {
  return scope.run(fields, run)
}

/** The request of the current work; undefined: no request, or several, as in a batch. */
export function currentRequest(): RequestFields | undefined {
  return scope.getStore()
}

/** Returns a function that runs work outside of any request. Call this outside of a request. */
export function outsideOfRequests(): <T>(run: () => T) => T {
  return AsyncLocalStorage.snapshot()
}
