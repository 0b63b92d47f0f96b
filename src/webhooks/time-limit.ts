/** Ends what takes too long. */
export interface TimeLimit<T> {
  begin(item: T): void
  /** It was over in time. */
  end(item: T): void
}

/**
 * As all have the same limit, those that began first reach it first, and one timer serves them all.
 *
 * @param expire called with what was not over in time
 */
export function createTimeLimit<T>(limitMs: number, expire: (item: T) => void): TimeLimit<T> {
  /** By when each must be over, on the monotonic clock. */
  const underWay = new Map<T, number>()
  let armed = false

  const arm = (waitMs: number): void => {
    armed = true
    // What is timed keeps the process going by itself.
    setTimeout(check, Math.ceil(waitMs)).unref()
  }
  const check = (): void => {
    armed = false
    const nowMs = performance.now()
    for (const [item, untilMs] of underWay) {
      if (untilMs > nowMs) {
        arm(untilMs - nowMs)
        return
      }
      underWay.delete(item)
      expire(item)
    }
  }
  return {
    begin(item) {
      underWay.set(item, performance.now() + limitMs)
      if (!armed) arm(limitMs)
    },
    end: (item) => void underWay.delete(item),
  }
}
