/** Makes one call and reports once: undefined on success, or the failure. */
export type Caller = (done: (failure: string | undefined) => void) => void

/** The command to a load generator. */
export interface LoadCommand {
  readonly seconds: number
}

/** What a load generator measured. */
export interface LoadResult {
  readonly callsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failures: number
  readonly firstFailure: string | undefined
}

/** Runs all callers concurrently, each one call after the other, and waits for the last responses. */
export function runCallers(callers: readonly Caller[], seconds: number): Promise<LoadResult> {
  const started = performance.now()
  const until = started + seconds * 1000
  const latenciesMs: number[] = []
  const failures: string[] = []
  let open = callers.length
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
    for (const caller of callers) {
      let sent = 0
      const next = (): void => {
        sent = performance.now()
        caller(done)
      }
      const done = (failure: string | undefined): void => {
        const now = performance.now()
        if (failure === undefined) latenciesMs.push(now - sent)
        else failures.push(failure)
        // A service that fails has no figure: further calls would add nothing.
        if (now < until && failures.length < 1_000) next()
        else if (--open === 0) finish()
      }
      next()
    }
  })
}
