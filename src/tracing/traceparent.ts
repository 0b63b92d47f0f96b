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
