/** Lets a few in at once, and a few more wait. */
export interface Gate {
  /**
   * Waits for a place; whoever got one has to call what it resolves to, once.
   *
   * @returns undefined when too many wait, or when the signal aborted first
   */
  enter(signal: AbortSignal): Promise<(() => void) | undefined>
}

export function createGate(placesMax: number, waitingMax: number): Gate {
  let taken = 0
  const waiting = new Set<() => void>()

  const leave = (): void => {
    const [next] = waiting
    // The place goes from hand to hand, so that nobody comes in between.
    if (next) next()
    else taken -= 1
  }
  return {
    enter(signal) {
      if (signal.aborted) return Promise.resolve(undefined)
      if (taken < placesMax) {
        taken += 1
        return Promise.resolve(leave)
      }
      if (waiting.size >= waitingMax) return Promise.resolve(undefined)
      return new Promise((resolve) => {
        const giveUp = (): void => {
          waiting.delete(admit)
          resolve(undefined)
        }
        const admit = (): void => {
          waiting.delete(admit)
          signal.removeEventListener('abort', giveUp)
          resolve(leave)
        }
        waiting.add(admit)
        signal.addEventListener('abort', giveUp, { once: true })
      })
    },
  }
}
