import { Budget } from './budget.ts'
import { IDLE_FRAMES, REFUSALS_MAX, RESETS } from './limits.ts'

/** Streams that we reset, and whose frames may still be on their way. */
const RESET_IDS_MAX = 1_000

/** What is borne of one client: how often it may do what costs us and brings nothing. */
export class Patience {
  readonly #resets: Budget
  readonly #idleFrames: Budget
  readonly #resetIds = new Set<number>()
  #refusals = 0

  constructor(nowMs: number) {
    this.#resets = new Budget(RESETS.burst, RESETS.perSecond, nowMs)
    this.#idleFrames = new Budget(IDLE_FRAMES.burst, IDLE_FRAMES.perSecond, nowMs)
  }

  /** A stream ended before its answer, by whoever. @returns whether that is borne */
  spendReset(nowMs: number): boolean {
    return this.#resets.spend(1, nowMs)
  }

  /** A frame came that brings nothing. @returns whether that is borne */
  spendIdleFrame(cost: number, nowMs: number): boolean {
    return this.#idleFrames.spend(cost, nowMs)
  }

  /** Frames of bodies went out: there will be windows to widen for them. */
  sent(frames: number): void {
    this.#idleFrames.earn(frames * IDLE_FRAMES.perFrameSent)
  }

  /** A call was over a limit. @returns whether that is borne */
  refuse(): boolean {
    this.#refusals += 1
    return this.#refusals < REFUSALS_MAX
  }

  /** The oldest are forgotten. */
  rememberReset(id: number): void {
    this.#resetIds.add(id)
    if (this.#resetIds.size <= RESET_IDS_MAX) return
    for (const oldest of this.#resetIds) {
      this.#resetIds.delete(oldest)
      return
    }
  }

  wasReset(id: number): boolean {
    return this.#resetIds.has(id)
  }
}
