/** A rate limit, enforced by a token bucket. */
export interface RateLimit {
  /** The sustained rate; more than 0. */
  readonly perSecond: number
  /** The most requests at once after a pause; at least 1. */
  readonly burst: number
}

/** The longest time that a bucket may take to fill, and so the longest time that a caller can be refused. */
export const FULL_SECONDS_MAX = 60

/**
 * Holds up to `burst` tokens and gains `perSecond` of them per second. A request takes a token, so
 * any span of time admits at most `burst + perSecond × seconds` requests.
 *
 * The level may be negative: tokens that other instances spent are charged afterwards, down to one
 * burst below zero, and no request is admitted until they are repaid. A clock that is set back neither
 * adds tokens nor stops the refill.
 */
export class TokenBucket {
  #limit: RateLimit
  #limitText: string
  #tokens: number
  #atMs: number

  /** Starts full. @param nowMs milliseconds since any fixed origin */
  constructor(limit: RateLimit, nowMs: number) {
    this.#limit = limit
    this.#limitText = String(limit.burst)
    this.#tokens = limit.burst
    this.#atMs = nowMs
  }

  get limit(): RateLimit {
    return this.#limit
  }

  /** The burst, as a header value. */
  get limitText(): string {
    return this.#limitText
  }

  /** The requests that would be admitted at once, as of the last refill. */
  get remaining(): number {
    return Math.max(0, Math.floor(this.#tokens))
  }

  /** Whole seconds until the bucket is full again, as of the last refill. */
  get resetSeconds(): number {
    return Math.ceil((this.#limit.burst - this.#tokens) / this.#limit.perSecond)
  }

  /** Whole seconds until the next request is admitted, at least 1, as of the last refill. */
  get retryAfterSeconds(): number {
    return Math.max(1, Math.ceil((1 - this.#tokens) / this.#limit.perSecond))
  }

  /** Milliseconds until the next request is admitted, as of the last refill; 0: now. */
  get nextInMs(): number {
    return Math.max(0, Math.ceil(((1 - this.#tokens) / this.#limit.perSecond) * 1_000))
  }

  /** Takes a token. @returns false if there is none */
  take(nowMs: number): boolean {
    if (!this.has(nowMs)) return false
    this.#tokens -= 1
    return true
  }

  /** Whether there is a token. */
  has(nowMs: number): boolean {
    if (nowMs !== this.#atMs) this.#refill(nowMs)
    return this.#tokens >= 1
  }

  /** Charges tokens for requests that were already admitted. The level may become negative. */
  debit(tokens: number, nowMs: number): void {
    this.#refill(nowMs)
    this.#clamp(this.#tokens - tokens)
  }

  /** Sets the level to that of the shared bucket. */
  setLevel(tokens: number, nowMs: number): void {
    this.#atMs = nowMs
    this.#clamp(tokens)
  }

  /** Changes the limit. Tokens that were taken are not given back. */
  change(limit: RateLimit, nowMs: number): void {
    this.#refill(nowMs)
    const taken = this.#limit.burst - this.#tokens
    this.#limit = limit
    this.#limitText = String(limit.burst)
    this.#clamp(limit.burst - taken)
  }

  #refill(nowMs: number): void {
    const gained = (Math.max(0, nowMs - this.#atMs) / 1_000) * this.#limit.perSecond
    this.#atMs = nowMs
    this.#clamp(this.#tokens + gained)
  }

  #clamp(tokens: number): void {
    const { burst } = this.#limit
    this.#tokens = Math.max(-burst, Math.min(burst, tokens))
  }
}

/** The interval between two exchanges of a bucket that is in use. */
export const EXCHANGE_MS = 250

/**
 * The local copy of a bucket that several instances spend from. It spends locally at once, and from the shared bucket in the
 * next exchange. It reports when it has spent enough for an exchange, and again when the exchange becomes urgent.
 */
export class SharedBucket extends TokenBucket {
  /** The name of the bucket, which is the same in all instances. */
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

  /** Counts the tokens of a failed exchange as spent again, up to one burst. */
  restore(spent: number): void {
    this.#unshared = Math.min(this.#unshared + spent, this.limit.burst)
  }

  /** @param tokens the level of the shared bucket after it was charged the tokens that `collect` returned */
  applyLevel(tokens: number, nowMs: number): void {
    this.setLevel(tokens - this.#unshared, nowMs)
    // The fewer tokens are left, the sooner the next exchange is urgent.
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

/** A small part of the tokens that the limit allows between two exchanges, so that rare callers cause no exchange. */
function reportThreshold({ perSecond }: RateLimit): number {
  return Math.max(1, Math.floor((perSecond * EXCHANGE_MS) / 1_000 / 32))
}
