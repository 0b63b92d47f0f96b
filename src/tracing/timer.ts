import { Histogram, type HistogramConfiguration, Registry } from 'prom-client'
import type { Span } from './tracing.ts'

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
