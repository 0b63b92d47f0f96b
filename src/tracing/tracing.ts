import type { TraceContext } from './traceparent.ts'

/** One step of a trace. Passed on as an argument: there is no current span. */
export interface Span {
  readonly context: TraceContext
  /** Whether it is exported. If not, it only passes its trace on. */
  readonly isRecorded: boolean
}
