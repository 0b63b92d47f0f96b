import { FULL_SECONDS_MAX, type RateLimit } from '../auth/rate-limits/token-bucket.ts'
import { invalidFields } from '../core/errors.ts'

/** The default burst: two seconds of the sustained rate. */
const BURST_SECONDS = 2

/** Returns the rate limit of a business; undefined: the default. */
export function toRateLimit(perSecond: number | null, burst: number | null): RateLimit | undefined {
  if (perSecond === null) return undefined
  return { perSecond, burst: burst ?? BURST_SECONDS * perSecond }
}

/** The columns of the limit; null: the default. */
interface OwnRateLimit {
  readonly rateLimitPerSecond: number | null
  readonly rateLimitBurst: number | null
}

/**
 * Applies a change to the rate limit of a business.
 *
 * @param change undefined: unchanged; 0: the default
 * @throws Fault validation_failed
 */
export function changeRateLimit(
  own: { readonly [name in keyof OwnRateLimit]?: number | null | undefined },
  change: { readonly [name in keyof OwnRateLimit]: number | undefined },
): OwnRateLimit {
  const perSecond = change.rateLimitPerSecond ?? own.rateLimitPerSecond ?? 0
  const currentBurst = change.rateLimitPerSecond === 0 ? 0 : (own.rateLimitBurst ?? 0)
  const burst = change.rateLimitBurst ?? currentBurst
  if (burst > FULL_SECONDS_MAX * perSecond) {
    const burstMax = FULL_SECONDS_MAX * perSecond
    const message =
      perSecond === 0
        ? 'requires rateLimitPerSecond'
        : `must be at most ${burstMax}, 60 seconds of rateLimitPerSecond`
    throw invalidFields([{ field: 'rateLimitBurst', message }])
  }
  return { rateLimitPerSecond: perSecond || null, rateLimitBurst: burst || null }
}
