/** A result and when it was computed, by `performance.now()`. */
export interface Dated<Value> {
  readonly value: Value
  readonly atMs: number
}

/**
 * Shares a result that is costly to compute: concurrent callers, and callers in the period after it was
 * begun, get the same one, so that no flood of callers costs more. A failure is shared as well.
 *
 * @param compute may return a result of an earlier time
 */
export function shareResult<Value>(
  compute: () => Promise<Dated<Value>>,
  periodMs: number,
  now: () => number = () => performance.now(),
): () => Promise<Dated<Value>> {
  let current: { result: Promise<Dated<Value>>; untilMs: number } | undefined
  return () => {
    const beganMs = now()
    if (current !== undefined && beganMs < current.untilMs) return current.result
    const next = { result: compute(), untilMs: Number.POSITIVE_INFINITY }
    current = next
    next.result.then(
      ({ atMs }) => {
        next.untilMs = atMs + periodMs
      },
      () => {
        next.untilMs = beganMs + periodMs
      },
    )
    return next.result
  }
}
