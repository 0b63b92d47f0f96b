import { inFile } from './mutation.ts'

const AWAY = 'test/tracing/collector-away.test.ts'
const KEPT = 'test/tracing/kept.test.ts'
const OWN = 'test/tracing/payment-trace.test.ts'
const TRACEPARENT = 'test/tracing/traceparent.test.ts'
const TRACES = 'test/tracing/traces.test.ts'

const attempt = inFile('src/webhooks/sender/trace-attempt.ts', TRACES)
const exporter = inFile('src/tracing/otlp/exporter.ts', AWAY)
const otlp = inFile('src/tracing/otlp/otlp-tracing.ts', TRACES)
const payment = inFile('src/tracing/payment-trace.ts', KEPT, OWN)
const traceparent = inFile('src/tracing/traceparent.ts', TRACEPARENT)

/** Traces: what a caller may put into them, what they show, and that they cost nothing. */
export const TRACING = [
  traceparent(
    'a later version is kept as it came',
    'return context && formatTraceparent(context)',
    'return context && (text as string)',
  ),
  traceparent(
    'flags that have no meaning are passed on',
    'const KNOWN_FLAGS = 3',
    'const KNOWN_FLAGS = 255',
  ),
  traceparent(
    'a trace id of zeros is accepted',
    'if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined',
    'if (spanId === NO_SPAN) return undefined',
  ),
  payment(
    'a malformed traceparent is stored',
    'const traceparent = keptTraceparent(call?.traceparent)',
    'const traceparent = call?.traceparent ?? keptTraceparent(call?.traceparent)',
  ),
  payment(
    'a trace that nothing records is kept on the payment',
    'const own = span.isRecorded ? formatTraceparent(span.context) : undefined',
    'const own = formatTraceparent(span.context)',
  ),
  attempt(
    'the secret in the path of an endpoint is exported',
    "'url.scheme': scheme,",
    "'url.scheme': scheme, 'url.full': url,",
  ),
  attempt(
    'a receiver does not continue the span of the attempt',
    'formatTraceparent(span.context)',
    'kept',
  ),
  otlp(
    'a batch loses the links of its payments',
    'links: links.map((link): Link => ({ context: toApi(link, true) })),',
    'links: links.slice(0, 1).map((link): Link => ({ context: toApi(link, true) })),',
  ),
  otlp(
    'the decision of the caller does not count',
    'return { traceId, spanId, traceFlags: flags, isRemote }',
    'return { traceId, spanId, traceFlags: 1, isRemote }',
  ),
  exporter(
    'a collector that is unavailable floods the log',
    'if (performance.now() < sinceMs + LOG_EVERY_MS) return',
    'if (performance.now() < sinceMs) return',
  ),
]
