import { FULL_SECONDS_MAX, type RateLimit } from '../auth/rate-limits/token-bucket.ts'
import { invalidFields } from '../core/errors.ts'

/** The burst of a limit that states none: two seconds of what is sustained. */
const BURST_SECONDS = 2

/** The limit that a business has of its own; undefined for none. */
export function toRateLimit(perSecond: number | null, burst: number | null): RateLimit | undefined {
  if (perSecond === null) return undefined
  return { perSecond, burst: burst ?? BURST_SECONDS * perSecond }
}

/** As it is stored; null for what is not stated. */
interface OwnRateLimit {
  readonly rateLimitPerSecond: number | null
  readonly rateLimitBurst: number | null
}

/** @param change what is absent stays, 0 takes away. @throws Fault validation_failed */
export function changeRateLimit(
  own: { readonly [name in keyof OwnRateLimit]?: number | null | undefined },
  change: { readonly [name in keyof OwnRateLimit]: number | undefined },
): OwnRateLimit {
  const perSecond = change.rateLimitPerSecond ?? own.rateLimitPerSecond ?? 0
  const kept = change.rateLimitPerSecond === 0 ? 0 : (own.rateLimitBurst ?? 0)
  const burst = change.rateLimitBurst ?? kept
  if (burst > FULL_SECONDS_MAX * perSecond) {
    const most = FULL_SECONDS_MAX * perSecond
    const message =
      perSecond === 0 ? 'needs rateLimitPerSecond' : `must be at most ${most}, as of 60 seconds`
    throw invalidFields([{ field: 'rateLimitBurst', message }])
  }
  return { rateLimitPerSecond: perSecond || null, rateLimitBurst: burst || null }
}
