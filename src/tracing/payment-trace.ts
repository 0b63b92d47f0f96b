import { formatTraceparent, keptTraceparent } from './traceparent.ts'
import type { Span } from './tracing.ts'

/** What a call brings of a trace. */
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
 * The trace of a payment that a call reports: that of the caller, whether or not tracing is on, and else the one
 * that begins with the call, if it is recorded.
 */
export function paymentTraceOf(call: TracedCall | undefined): PaymentTrace {
  const span = call?.span
  const traceparent = keptTraceparent(call?.traceparent)
  if (span === undefined) return { traceparent }
  const own = span.isRecorded ? formatTraceparent(span.context) : undefined
  return { traceparent: traceparent ?? own, span }
}
