/** The most events that a relay has published and that the broker has not acknowledged. */
export const WINDOW_MAX = 256

/** Publications in progress, in order. */
export class PublishWindow {
  readonly #inFlight: Promise<void>[] = []

  /** Adds a publication. Waits for the oldest one if there are too many. Rejects if that failed. */
  async add(publication: Promise<void>): Promise<void> {
    // It is awaited later, or not at all if an earlier one fails.
    publication.catch(() => undefined)
    this.#inFlight.push(publication)
    if (this.#inFlight.length >= WINDOW_MAX) await this.#inFlight.shift()
  }

  /** Waits for all publications. Rejects if one failed. */
  async drain(): Promise<void> {
    for (const publication of this.#inFlight.splice(0)) await publication
  }
}
