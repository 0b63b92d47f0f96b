/** Makes one call, and says once how it went: nothing, or what was wrong with the answer. */
export type Lane = (done: (failure: string | undefined) => void) => void

/** What a generator of load is told. */
export interface LoadCommand {
  readonly seconds: number
}

/** What a generator of load has seen. */
export interface LoadAnswer {
  readonly callsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failures: number
  readonly firstFailure: string | undefined
}

/** Calls on all lanes, on each one call after the other, and waits for the last answers. */
export function runLanes(lanes: readonly Lane[], seconds: number): Promise<LoadAnswer> {
  const started = performance.now()
  const until = started + seconds * 1000
  const latenciesMs: number[] = []
  const failures: string[] = []
  let open = lanes.length
  return new Promise((resolve) => {
    const finish = (): void => {
      const elapsed = (performance.now() - started) / 1000
      const sorted = Float64Array.from(latenciesMs).sort()
      const at = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN
      resolve({
        callsPerSecond: latenciesMs.length / elapsed,
        p50Ms: at(0.5),
        p99Ms: at(0.99),
        failures: failures.length,
        firstFailure: failures[0],
      })
    }
    for (const lane of lanes) {
      let sent = 0
      const next = (): void => {
        sent = performance.now()
        lane(done)
      }
      const done = (failure: string | undefined): void => {
        const now = performance.now()
        if (failure === undefined) latenciesMs.push(now - sent)
        else failures.push(failure)
        // A service that fails has no figure; nothing is gained by asking on.
        if (now < until && failures.length < 1_000) next()
        else if (--open === 0) finish()
      }
      next()
    }
  })
}
