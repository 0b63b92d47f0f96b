/** How long to wait between attempts, in milliseconds. */
interface Backoff {
  /** The wait after the first failure. */
  readonly minMs: number
  readonly maxMs: number
}

/**
 * The wait before the next attempt, which doubles with each consecutive failure, up to `maxMs`.
 *
 * @param failures the number of consecutive failures, at least 1
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
