import { AsyncLocalStorage } from 'node:async_hooks'
import { Histogram, type HistogramConfiguration, Registry } from 'prom-client'
import { Fault } from './errors.ts'

/** As OpenTelemetry names them. */
export type SpanKind = 'internal' | 'server' | 'client' | 'producer'

/** Facts of a span. Never names, amounts, account or identity numbers, or secrets. */
export type Attributes = Readonly<Record<string, string | number | boolean>>

interface SpanOptions {
  /** Default: internal. */
  readonly kind?: SpanKind
  /** Other spans that caused this one. */
  readonly links?: readonly TraceContext[]
  readonly attributes?: Attributes
}

/** How a span begins that has no span of this process above it. */
export interface RootOptions extends SpanOptions {
  /** The span that it continues, of another process or another time. Undefined: a trace begins. */
  readonly parent?: TraceContext | undefined
}

/**
 * One step of a trace. One that does not end is not exported: work that turns out to be none leaves no trace.
 * Passed on as an argument: there is no current span.
 */
export interface Span {
  readonly context: TraceContext
  /** Whether it is exported. If not, it only passes its trace on. */
  readonly isRecorded: boolean
  /** Begins a step of this one; undefined unless this one is recorded. */
  child(name: string, options?: SpanOptions): Span | undefined
  set(attributes: Attributes): void
  /** @param error its type, if it failed: never a text, which may contain what is private */
  end(error?: string): void
}

/** Traces of this process. Where tracing is off there is none: `undefined`, which costs nothing. */
export interface Tracing {
  /** Begins a span. Whether it is recorded is up to the sampler. */
  start(name: string, options?: RootOptions): Span
  /** Exports what has ended. Takes two seconds at most. */
  close(): Promise<void>
}

/**
 * Runs a step, and ends its span.
 *
 * @param failureOf the type of the error that a result stands for
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

/** The kind of an error, for `error.type`: few values, and no text of it. */
export function errorTypeOf(error: unknown): string {
  if (error instanceof Fault) return error.reason
  if (!(error instanceof Error)) return typeof error
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code) ? code : error.name
}

/**
 * Observes a duration.
 *
 * @param traceId of a recorded trace, as an example of such durations
 */
type Observe = (seconds: number, traceId?: string) => void

/** A histogram of durations, with exemplars where the registry can show them. */
interface Timer<Label extends string> {
  /** One set of labels, which is there from now on. Looking it up costs more than observing. */
  of(labels: Readonly<Record<Label, string>>): Observe
}

/** prom-client accepts exemplars on a registry of this format alone. */
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

/** The trace of a span, if it is recorded. */
export function exemplarOf(span: Span | undefined): string | undefined {
  return span?.isRecorded ? span.context.traceId : undefined
}

/** A place in a trace: a span, as W3C Trace Context names it. */
export interface TraceContext {
  /** 32 hexadecimal digits, not all zeros. */
  readonly traceId: string
  /** 16 hexadecimal digits, not all zeros. */
  readonly spanId: string
  /** The flags that are defined: bit 0 is "sampled", bit 1 "the trace id is random". */
  readonly flags: number
}

/** The flags of version 00; others must not be passed on. */
const KNOWN_FLAGS = 3

/** A version, a trace id, a span id and flags; a later version may add fields. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?$/

/** No version is longer than this in practice, so nothing longer is looked at. */
const LENGTH_MAX = 512

const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)

/**
 * Reads a traceparent header by the rules of W3C Trace Context: a malformed one counts as absent, and a later
 * version is read as far as version 00 goes.
 *
 * @returns undefined if it is absent or malformed
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

/** A header as it is kept and passed on: of version 00. @returns undefined if it is absent or malformed */
export function keptTraceparent(text: string | null | undefined): string | undefined {
  const context = parseTraceparent(text)
  return context && formatTraceparent(context)
}

/** The trace that a call brings. */
export interface TracedCall {
  /** The traceparent header as it came, which may be anything; undefined: there was none. */
  readonly traceparent?: string | undefined
  /** The span of the call; undefined: tracing is off. */
  readonly span?: Span | undefined
}

/** The trace of a reported payment. */
export interface PaymentTrace {
  /** Kept on the payment: of version 00. */
  readonly traceparent?: string | undefined
  /** The step that reports it; undefined: tracing is off. */
  readonly span?: Span | undefined
}

/**
 * The trace of a payment that a call reports: the caller's, whether or not tracing is on, or else the one
 * that begins with the call, if it is recorded.
 */
export function paymentTraceOf(call: TracedCall | undefined): PaymentTrace {
  const span = call?.span
  const traceparent = keptTraceparent(call?.traceparent)
  if (span === undefined) return { traceparent }
  const own = span.isRecorded ? formatTraceparent(span.context) : undefined
  return { traceparent: traceparent ?? own, span }
}

/** The request that lines of the log belong to. */
export interface RequestFields {
  readonly request_id: string
  /** Absent: it has no trace. */
  readonly trace_id?: string
}

const scope = new AsyncLocalStorage<RequestFields>()

/** Runs what belongs to a request: the log adds its fields to each line that is written meanwhile. */
export function inRequest<T>(fields: RequestFields, run: () => T): T {
  return scope.run(fields, run)
}

/** The request that the present work belongs to; undefined: none, or many, as in a batch. */
export function currentRequest(): RequestFields | undefined {
  return scope.getStore()
}

/** Returns a function that runs work as belonging to no request, if it is called outside of one. */
export function outsideOfRequests(): <T>(run: () => T) => T {
  return AsyncLocalStorage.snapshot()
}
