import { HOUR_MS, MINUTE_MS } from '../../core/durations.ts'

const SECOND_MS = 1_000
/** The waits between attempts: ten attempts over three days and three hours. */
export const RETRY_SCHEDULE_MS: readonly number[] = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
]

/** The longest wait that a receiver may request with Retry-After. */
const RETRY_AFTER_MAX_MS = 24 * HOUR_MS

/** Relative jitter of a wait, so that deliveries that failed together are not retried together. */
const JITTER = 0.2

/**
 * The wait after a failed attempt.
 *
 * @param attempts the number of attempts made, this one included
 * @param retryAfterMs the wait that the receiver requested
 * @param random between 0 and 1
 * @returns milliseconds, or undefined if no attempts are left
 */
export function retryDelayMs(
  scheduleMs: readonly number[],
  attempts: number,
  retryAfterMs: number | undefined,
  random: number,
): number | undefined {
  const scheduledMs = scheduleMs[attempts - 1]
  if (scheduledMs === undefined) return undefined
  const jitteredMs = Math.round(scheduledMs * (1 - JITTER + 2 * JITTER * random))
  return Math.max(jitteredMs, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS))
}

/**
 * Reads a Retry-After header: seconds, or a date (RFC 9110, 10.2.3).
 *
 * @returns milliseconds from now, or undefined if the header is missing or invalid
 */
export function parseRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND_MS
  if (!/^[A-Z][a-z]{2,8}, .{8,30} GMT$/.test(text)) return undefined
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) || atMs < nowMs ? undefined : atMs - nowMs
}
