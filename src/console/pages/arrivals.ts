import type { HourFigures } from '../../../gen/inflow/overview/v1/figures_pb.ts'

/** The payments that arrived since the figures were read, by second, oldest first. */
export type Arrivals = readonly Second[]

interface Second {
  readonly atMs: number
  readonly payments: number
  readonly amountMinor: bigint
}

interface Arrival {
  readonly atMs: number
  readonly amountMinor: bigint
}

export const NO_ARRIVALS: Arrivals = []

/** The most seconds that are kept; the figures are read more often than that. */
const SECONDS_MAX = 120

export function addArrivals(now: Arrivals, payments: readonly Arrival[]): Arrivals {
  const seconds = new Map(now.map((second) => [second.atMs, second]))
  for (const { atMs, amountMinor } of payments) {
    const key = Math.floor(atMs / 1_000) * 1_000
    const second = seconds.get(key)
    seconds.set(key, {
      atMs: key,
      payments: (second?.payments ?? 0) + 1,
      amountMinor: (second?.amountMinor ?? 0n) + amountMinor,
    })
  }
  return [...seconds.values()].sort((a, b) => a.atMs - b.atMs).slice(-SECONDS_MAX)
}

/**
 * Removes payments that new figures contain. The figures may lack the latest events. As many payments are kept as the
 * service has not counted, so that a number does not fall when it is read again.
 */
export function keepUncounted(now: Arrivals, figuresAtMs: number, uncounted: number): Arrivals {
  let left = uncounted
  return now
    .toReversed()
    .filter(({ atMs, payments }) => {
      if (atMs >= figuresAtMs) return true
      left -= payments
      return left >= 0
    })
    .toReversed()
}

export function withArrivals<F extends Pick<HourFigures, 'payments' | 'amountMinor'>>(
  figures: F,
  now: Arrivals,
): F {
  return {
    ...figures,
    payments: now.reduce((sum, { payments }) => sum + BigInt(payments), figures.payments),
    amountMinor: now.reduce((sum, { amountMinor }) => sum + amountMinor, figures.amountMinor),
  }
}
