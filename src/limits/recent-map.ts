/**
 * A map that holds at most `max` entries and forgets what was not asked for longest, roughly: in
 * two generations, so that finding an entry costs one look and moves nothing.
 */
export class RecentMap<V> {
  readonly #half: number
  #young = new Map<string, V>()
  #old = new Map<string, V>()

  /** @param max at least 2 */
  constructor(max: number) {
    this.#half = Math.max(1, Math.floor(max / 2))
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }

  get(key: string): V | undefined {
    const value = this.#young.get(key)
    if (value !== undefined || this.#old.size === 0) return value
    const kept = this.#old.get(key)
    if (kept === undefined) return undefined
    this.#old.delete(key)
    this.set(key, kept)
    return kept
  }

  set(key: string, value: V): void {
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#old.delete(key)
    this.#young.set(key, value)
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }
}
