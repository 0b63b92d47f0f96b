/** How often something may happen: a burst, and so many a second after it. */
export class Budget {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #atMs: number

  constructor(burst: number, perSecond: number, nowMs: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
    this.#atMs = nowMs
  }

  /** @returns false when it is used up */
  spend(cost: number, nowMs: number): boolean {
    const earned = ((nowMs - this.#atMs) / 1_000) * this.#perSecond
    this.#left = Math.min(this.#burst, this.#left + earned) - cost
    this.#atMs = nowMs
    return this.#left >= 0
  }

  earn(amount: number): void {
    this.#left = Math.min(this.#burst, this.#left + amount)
  }
}
