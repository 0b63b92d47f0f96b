/** Something that is told when its time has come. */
export interface Timed {
  /** In milliseconds of `performance.now()`. */
  readonly dueMs: number
  /** Where it is kept; written by `Deadlines` alone. */
  slot: number
  expired(): void
}

/** Deadlines are kept to a slot, and the slots come round. */
const SLOT_MS = 10
const SLOTS = 512

/** The deadlines of all calls, with one timer for them instead of one for each. */
export class Deadlines {
  readonly #slots: (Set<Timed> | undefined)[] = Array.from({ length: SLOTS }, () => undefined)
  #count = 0
  #timer: NodeJS.Timeout | undefined
  /** The slot that is looked at next. */
  #next = 0

  add(timed: Timed): void {
    if (this.#timer === undefined) {
      this.#next = Math.floor(performance.now() / SLOT_MS)
      this.#timer = setInterval(() => this.#sweep(), SLOT_MS).unref()
    }
    // What is due already is looked at next.
    timed.slot = Math.max(Math.ceil(timed.dueMs / SLOT_MS), this.#next) % SLOTS
    let slot = this.#slots[timed.slot]
    if (slot === undefined) {
      slot = new Set()
      this.#slots[timed.slot] = slot
    }
    slot.add(timed)
    this.#count += 1
  }

  remove(timed: Timed): void {
    if (this.#slots[timed.slot]?.delete(timed) === true) this.#count -= 1
  }

  #sweep(): void {
    const nowMs = performance.now()
    const last = Math.floor(nowMs / SLOT_MS)
    // After a long turn all slots have come round, and each is looked at once.
    for (let at = Math.max(this.#next, last - SLOTS + 1); at <= last; at++) {
      const slot = this.#slots[at % SLOTS]
      for (const timed of slot ?? []) {
        // Of another round.
        if (timed.dueMs > nowMs) continue
        slot?.delete(timed)
        this.#count -= 1
        timed.expired()
      }
    }
    this.#next = last + 1
    if (this.#count > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
