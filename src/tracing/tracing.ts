import { Fault } from '../core/errors.ts'
import type { TraceContext } from './traceparent.ts'

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

/** What kind of error it is, for `error.type`: few values, and no text of it. */
export function errorTypeOf(error: unknown): string {
  if (error instanceof Fault) return error.reason
  if (!(error instanceof Error)) return typeof error
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code) ? code : error.name
}
