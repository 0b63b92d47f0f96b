import { type RateLimit, TokenBucket } from './token-bucket.ts'

/** Between two exchanges of a bucket that is in use. */
export const EXCHANGE_MS = 250

/**
 * A bucket that several instances spend from: here at once, and from the common one afterwards. It
 * says when it has spent enough to be worth telling the others, and again when that is urgent.
 */
export class SharedBucket extends TokenBucket {
  /** The same at every instance. */
  readonly name: string
  readonly #tell: (bucket: SharedBucket, urgent: boolean) => void
  #unshared = 0
  #urgentAt: number
  #tellAt: number

  constructor(
    name: string,
    limit: RateLimit,
    nowMs: number,
    tell: (bucket: SharedBucket, urgent: boolean) => void,
  ) {
    super(limit, nowMs)
    this.name = name
    this.#tell = tell
    this.#urgentAt = limit.burst / 4
    this.#tellAt = worthTelling(limit)
  }

  override take(nowMs: number): boolean {
    if (!super.take(nowMs)) return false
    this.#spent(1)
    return true
  }

  override owe(tokens: number, nowMs: number): void {
    super.owe(tokens, nowMs)
    this.#spent(tokens)
  }

  /** @returns what was spent here since the last time; the others are about to be told */
  collect(): number {
    const spent = this.#unshared
    this.#unshared = 0
    this.#tellAt = worthTelling(this.limit)
    return spent
  }

  /** The others could not be told. More than a burst is not worth remembering. */
  putBack(spent: number): void {
    this.#unshared = Math.min(this.#unshared + spent, this.limit.burst)
  }

  /** @param tokens what the common bucket held after it was told what `collect` returned */
  hear(tokens: number, nowMs: number): void {
    this.adopt(tokens - this.#unshared, nowMs)
    // The less there is, the more it matters what the others take of it.
    this.#urgentAt = this.remaining / 4
  }

  #spent(tokens: number): void {
    this.#unshared += tokens
    if (this.#unshared < this.#tellAt) return
    const urgent = this.#unshared >= this.#urgentAt
    this.#tellAt = urgent ? Number.POSITIVE_INFINITY : this.#urgentAt
    this.#tell(this, urgent)
  }
}

/** A small part of what the limit allows between two exchanges: who calls seldom costs nothing. */
function worthTelling({ perSecond }: RateLimit): number {
  return Math.max(1, Math.floor((perSecond * EXCHANGE_MS) / 1_000 / 32))
}
