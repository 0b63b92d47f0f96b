import { type RateLimit, TokenBucket } from './token-bucket.ts'

/** The interval between two exchanges of a bucket that is in use. */
export const EXCHANGE_MS = 250

/**
 * A bucket that several instances spend from: locally at once, and from the shared bucket later. It
 * reports when it has spent enough to be worth an exchange, and again when that is urgent.
 */
export class SharedBucket extends TokenBucket {
  /** The same in every instance. */
  readonly name: string
  readonly #report: (bucket: SharedBucket, urgent: boolean) => void
  #unshared = 0
  #urgentAt: number
  #reportAt: number

  constructor(
    name: string,
    limit: RateLimit,
    nowMs: number,
    report: (bucket: SharedBucket, urgent: boolean) => void,
  ) {
    super(limit, nowMs)
    this.name = name
    this.#report = report
    this.#urgentAt = limit.burst / 4
    this.#reportAt = reportThreshold(limit)
  }

  override take(nowMs: number): boolean {
    if (!super.take(nowMs)) return false
    this.#spent(1)
    return true
  }

  override debit(tokens: number, nowMs: number): void {
    super.debit(tokens, nowMs)
    this.#spent(tokens)
  }

  /** @returns the tokens spent here since the last call, to be exchanged now */
  collect(): number {
    const spent = this.#unshared
    this.#unshared = 0
    this.#reportAt = reportThreshold(this.limit)
    return spent
  }

  /** Takes back what a failed exchange had collected, up to one burst. */
  restore(spent: number): void {
    this.#unshared = Math.min(this.#unshared + spent, this.limit.burst)
  }

  /** @param tokens the level of the shared bucket after it was charged what `collect` returned */
  applyLevel(tokens: number, nowMs: number): void {
    this.setLevel(tokens - this.#unshared, nowMs)
    // The fewer tokens are left, the sooner the others must know what is spent.
    this.#urgentAt = this.remaining / 4
  }

  #spent(tokens: number): void {
    this.#unshared += tokens
    if (this.#unshared < this.#reportAt) return
    const urgent = this.#unshared >= this.#urgentAt
    this.#reportAt = urgent ? Number.POSITIVE_INFINITY : this.#urgentAt
    this.#report(this, urgent)
  }
}

/** A small part of what the limit allows between two exchanges. Rare callers cause no exchange. */
function reportThreshold({ perSecond }: RateLimit): number {
  return Math.max(1, Math.floor((perSecond * EXCHANGE_MS) / 1_000 / 32))
}
