/** Limits of what may be in use at once. */
interface UsageLimits {
  readonly streamsMax: number
  readonly heldBytesMax: number
}

/** Counts what calls use: per connection, per address and in total, each within the next. */
export class Usage {
  readonly #limits: UsageLimits
  readonly #outer: Usage | undefined
  #streams = 0
  #heldBytes = 0

  constructor(limits: UsageLimits, outer?: Usage) {
    this.#limits = limits
    this.#outer = outer
  }

  /** @returns whether the stream is within every limit; it counts either way */
  addStream(): boolean {
    this.#streams += 1
    const fits = this.#outer?.addStream() ?? true
    return fits && this.#streams <= this.#limits.streamsMax
  }

  removeStream(): void {
    this.#streams -= 1
    this.#outer?.removeStream()
  }

  /** @returns whether the bytes are within every limit; they count either way */
  hold(bytes: number): boolean {
    this.#heldBytes += bytes
    const fits = this.#outer?.hold(bytes) ?? true
    return fits && this.#heldBytes <= this.#limits.heldBytesMax
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes
    this.#outer?.release(bytes)
  }
}
