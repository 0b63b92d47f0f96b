import { LRUCache } from 'lru-cache'
import { createExchange } from '../../auth/rate-limits/exchange.ts'
import type { RateLimit } from '../../auth/rate-limits/token-bucket.ts'
import { SharedBucket } from '../../auth/rate-limits/token-bucket.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { ConcurrencyLimiter, LimitedEndpoint } from './concurrency-limiter.ts'

/** How often requests to an endpoint may start, in all processes together. */
interface Rate {
  readonly perSecond: number
  /** How many requests may start now. */
  available(): number
  /** A request has started. */
  take(): void
  /** @returns milliseconds until a request may start; 0: now */
  nextInMs(): number
}

export type CreateRate = (endpointId: string, perSecond: number) => Rate

/** The most rates that are kept; a forgotten rate starts again with its full burst. */
const RATES_MAX = 10_000

/**
 * Applies the rate limits of endpoints in addition to the concurrency limits: only as many deliveries are claimed as may
 * start at once. Endpoints without a rate limit are not looked up.
 */
export function limitRates(
  limiter: ConcurrencyLimiter,
  createRate: CreateRate,
): ConcurrencyLimiter {
  const rates = new LRUCache<string, Rate>({ max: RATES_MAX })
  const update = ({ id, rateLimit = 0 }: LimitedEndpoint): void => {
    if (rateLimit === 0) rates.delete(id)
    else if (rates.get(id)?.perSecond !== rateLimit) rates.set(id, createRate(id, rateLimit))
  }
  const availableTo = (endpointId: string): number =>
    rates.get(endpointId)?.available() ?? Number.POSITIVE_INFINITY
  return {
    ...limiter,
    allot(endpoints, waiting) {
      for (const endpoint of endpoints) update(endpoint)
      if (rates.size === 0) return limiter.allot(endpoints, waiting)
      // Endpoints without a token take no part of the shared capacity.
      const able = endpoints.filter(({ id }) => availableTo(id) > waiting(id))
      return limiter.allot(able, waiting).map(({ endpointId, share }) => {
        // Claims that wait have not taken their tokens yet.
        const left = availableTo(endpointId) - waiting(endpointId)
        return { endpointId, share: Math.min(share, left) }
      })
    },
    wantsMore: (endpointId, waiting) =>
      availableTo(endpointId) > waiting && limiter.wantsMore(endpointId, waiting),
    mayStart: (endpointId) => availableTo(endpointId) > 0 && limiter.mayStart(endpointId),
    started(endpointId) {
      rates.get(endpointId)?.take()
      limiter.started(endpointId)
    },
    resumesInMs() {
      let least = limiter.resumesInMs()
      for (const rate of rates.values()) {
        const inMs = rate.nextInMs()
        if (inMs > 0) least = Math.min(least, inMs)
      }
      return least
    },
  }
}

/** The burst is a tenth of the requests of a second. */
export function limitOf(perSecond: number): RateLimit {
  return { perSecond, burst: Math.max(1, Math.ceil(perSecond / 10)) }
}

/** Rates that all processes share, like the rate limits of callers. */
export function createSharedRates(runtime: Runtime): {
  readonly create: CreateRate
  stop(): Promise<void>
} {
  const { clock } = runtime
  const exchange = createExchange(runtime)
  return {
    create(endpointId, perSecond) {
      const name = `webhook ${endpointId}`
      const bucket = new SharedBucket(name, limitOf(perSecond), clock.now(), exchange.report)
      return {
        perSecond,
        available: () => (bucket.has(clock.now()) ? bucket.remaining : 0),
        take: () => void bucket.take(clock.now()),
        nextInMs: () => (bucket.has(clock.now()) ? 0 : bucket.nextInMs),
      }
    },
    stop: () => exchange.stop(),
  }
}
