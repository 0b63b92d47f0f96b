/** How often something may happen. */
export interface RateLimit {
  /** What is sustained; more than 0. */
  readonly perSecond: number
  /** What may come at once after a pause; at least 1. */
  readonly burst: number
}

/** No bucket takes longer than this to fill, so that whoever overdid it is not shut out for long. */
export const FULL_SECONDS_MAX = 60

/**
 * Holds up to `burst` tokens, gains `perSecond` of them, and lets through what finds one. So it
 * never lets through more than `burst + perSecond × seconds` in any span of time.
 *
 * Tokens may be owed: what is learnt of afterwards is taken nevertheless, down to one burst below
 * zero, and nothing is let through until it is paid. A clock that is set back neither gives tokens
 * nor stops them from coming.
 */
export class TokenBucket {
  #limit: RateLimit
  #limitText: string
  #tokens: number
  #atMs: number

  /** Begins full. @param nowMs milliseconds of any steady origin */
  constructor(limit: RateLimit, nowMs: number) {
    this.#limit = limit
    this.#limitText = String(limit.burst)
    this.#tokens = limit.burst
    this.#atMs = nowMs
  }

  get limit(): RateLimit {
    return this.#limit
  }

  /** The burst, as headers say it. */
  get limitText(): string {
    return this.#limitText
  }

  /** How many would be let through at once, as of when it was last asked. */
  get remaining(): number {
    return Math.max(0, Math.floor(this.#tokens))
  }

  /** Whole seconds until it is full again, as of when it was last asked. */
  get resetSeconds(): number {
    return Math.ceil((this.#limit.burst - this.#tokens) / this.#limit.perSecond)
  }

  /** Whole seconds until one more is let through, at least 1, as of when it was last asked. */
  get retryAfterSeconds(): number {
    return Math.max(1, Math.ceil((1 - this.#tokens) / this.#limit.perSecond))
  }

  /** Takes a token. @returns false when there is none */
  take(nowMs: number): boolean {
    if (!this.has(nowMs)) return false
    this.#tokens -= 1
    return true
  }

  /** Whether there is a token to take. */
  has(nowMs: number): boolean {
    if (nowMs !== this.#atMs) this.#refill(nowMs)
    return this.#tokens >= 1
  }

  /** Takes tokens for what has happened already. */
  owe(tokens: number, nowMs: number): void {
    this.#refill(nowMs)
    this.#settle(this.#tokens - tokens)
  }

  /** Goes on from how many tokens there are by somebody else's count. */
  adopt(tokens: number, nowMs: number): void {
    this.#atMs = nowMs
    this.#settle(tokens)
  }

  /** Goes on under another limit; what had been taken stays taken. */
  change(limit: RateLimit, nowMs: number): void {
    this.#refill(nowMs)
    const taken = this.#limit.burst - this.#tokens
    this.#limit = limit
    this.#limitText = String(limit.burst)
    this.#settle(limit.burst - taken)
  }

  #refill(nowMs: number): void {
    const gained = (Math.max(0, nowMs - this.#atMs) / 1_000) * this.#limit.perSecond
    this.#atMs = nowMs
    this.#settle(this.#tokens + gained)
  }

  #settle(tokens: number): void {
    const { burst } = this.#limit
    this.#tokens = Math.max(-burst, Math.min(burst, tokens))
  }
}
