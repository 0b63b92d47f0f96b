/** The most events that a relay has published and that the broker has not acknowledged. */
export const WINDOW_MAX = 256

/**
 * Once the window is full, it is half emptied: events that are published without a pause in between go to
 * the network together, which costs a fraction of writing each.
 */
const WINDOW_MIN = WINDOW_MAX / 2

/** Publications in progress. */
export class PublishWindow {
  #inFlight = 0
  #failure: { readonly error: unknown } | undefined
  #limit = 0
  #resume: (() => void) | undefined

  get isFull(): boolean {
    return this.#inFlight >= WINDOW_MAX
  }

  /** Adds a publication. Call `room` first if the window is full. */
  add(publication: Promise<void>): void {
    this.#inFlight += 1
    publication.then(
      () => this.#onEnd(),
      (error: unknown) => {
        this.#failure ??= { error }
        this.#onEnd()
      },
    )
  }

  /** Waits for room. Rejects once a publication has failed. */
  room(): Promise<void> {
    return this.#wait(WINDOW_MIN)
  }

  /** Waits for all publications. Rejects once one has failed. */
  drain(): Promise<void> {
    return this.#wait(0)
  }

  async #wait(limit: number): Promise<void> {
    this.#limit = limit
    if (this.#inFlight > limit && this.#failure === undefined) {
      await new Promise<void>((resolve) => {
        this.#resume = resolve
      })
    }
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #onEnd(): void {
    this.#inFlight -= 1
    if (this.#inFlight <= this.#limit || this.#failure !== undefined) this.#resume?.()
  }
}
