/** How many payments businesses receive, hour by hour: skewed, in one time zone, growing, with bursts. */
export interface DemandOptions {
  readonly random: () => number
  readonly businesses: number
  /** Payments per second of all businesses together, averaged over the first day. */
  readonly perSecond: number
  /** The exponent of Zipf's law: the nth business receives 1/n^skew of what the first one does. */
  readonly skew: number
}

/** The demand of one business. */
export interface Business {
  readonly id: number
  /** Payments per second, averaged over the first day. */
  readonly perSecond: number
  /** The factor by which it grows in thirty days. */
  readonly monthlyGrowth: number
  /** The hours in which it receives `burst` times as much: fees of a term, a sale, a pay day. */
  readonly burstHours: ReadonlySet<number>
  readonly burst: number
}

export const HOURS_PER_DAY = 24
const DAYS_PER_MONTH = 30

/** A burst lasts two hours, and comes to a business once in thirty days. */
const BURST_HOURS = 2
/** Of a small business. The more customers a business has, the less they act as one. */
const BURST_MAX = 12

/**
 * The share of a day's payments in each hour in Lagos, as payment services see it: little at night, most
 * between ten and four.
 */
const HOURLY = [
  0.4, 0.3, 0.2, 0.2, 0.3, 0.5, 0.8, 1.1, 1.4, 1.6, 1.7, 1.7, 1.6, 1.6, 1.6, 1.5, 1.4, 1.2, 1.1,
  1.0, 0.9, 0.8, 0.6, 0.5,
]

/** Businesses in no order of size, as they sign up. */
export function createBusinesses(options: DemandOptions): Business[] {
  const { random, businesses, perSecond, skew } = options
  const weights = Array.from({ length: businesses }, (_, index) => 1 / (index + 1) ** skew)
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return shuffle(weights, random).map((weight, id) => {
    const own = (weight / sum) * perSecond
    return {
      id,
      perSecond: own,
      // Some shrink, most grow a little, a few fast: 1.1 on average.
      monthlyGrowth: 0.7 + 0.8 * random() * (0.6 + 0.8 * random()),
      burstHours: hoursFrom(Math.floor(random() * DAYS_PER_MONTH * HOURS_PER_DAY)),
      burst: 1 + (BURST_MAX - 1) / Math.sqrt(1 + own),
    }
  })
}

/** @returns payments per second in an hour */
export function demandAt(business: Business, hour: number): number {
  const ofDay = HOURLY[hour % HOURS_PER_DAY] as number
  const months = hour / (DAYS_PER_MONTH * HOURS_PER_DAY)
  const ofMonth = hour % (DAYS_PER_MONTH * HOURS_PER_DAY)
  const burst = business.burstHours.has(ofMonth) ? business.burst : 1
  return business.perSecond * (ofDay / MEAN_HOURLY) * business.monthlyGrowth ** months * burst
}

const MEAN_HOURLY = HOURLY.reduce((total, share) => total + share, 0) / HOURS_PER_DAY

function hoursFrom(from: number): ReadonlySet<number> {
  return new Set(Array.from({ length: BURST_HOURS }, (_, index) => from + index))
}

function shuffle<T>(values: readonly T[], random: () => number): T[] {
  const shuffled = [...values]
  for (let at = shuffled.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1))
    const [a, b] = [shuffled[at] as T, shuffled[other] as T]
    shuffled[at] = b
    shuffled[other] = a
  }
  return shuffled
}
