/** Asks a client now and then whether it is there. */
export class Keepalive {
  readonly #everyMs: number
  readonly #timeoutMs: number
  #askedMs: number
  #answered = true

  constructor(everyMs: number, timeoutMs: number, nowMs: number) {
    this.#everyMs = everyMs
    this.#timeoutMs = timeoutMs
    this.#askedMs = nowMs
  }

  answered(): void {
    this.#answered = true
  }

  /** @returns what is to be done now, if anything is */
  tick(nowMs: number): 'ask' | 'give up' | undefined {
    const sinceMs = nowMs - this.#askedMs
    if (!this.#answered) return sinceMs > this.#timeoutMs ? 'give up' : undefined
    if (sinceMs <= this.#everyMs) return undefined
    this.#askedMs = nowMs
    this.#answered = false
    return 'ask'
  }
}
