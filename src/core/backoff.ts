/** How long to wait between attempts, in milliseconds. */
interface Backoff {
  /** After the first failure. */
  readonly minMs: number
  readonly maxMs: number
}

/**
 * The wait before the next attempt: it doubles with each failure in a row, up to `maxMs`.
 *
 * @param failures in a row, from 1
 * @param random adds jitter: the wait is half to one and a half times as long, so that callers that
 * fail together do not retry together
 * @returns milliseconds
 */
export function backoffMs(
  failures: number,
  { minMs, maxMs }: Backoff,
  random?: () => number,
): number {
  const waitMs = Math.min(minMs * 2 ** (failures - 1), maxMs)
  return random === undefined ? waitMs : waitMs * (0.5 + random())
}
