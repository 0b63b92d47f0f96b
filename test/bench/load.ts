import type { Bench } from './bench.ts'
import type { Child } from './child.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import { type Contender, percentile } from './rounds.ts'

/** Makes one call and reports once: undefined on success, or the failure. */
export type Caller = (done: (failure: string | undefined) => void) => void

/** What a generator of load measured. */
export interface LoadResult {
  readonly callsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failures: number
  readonly firstFailure: string | undefined
}

/** A program that makes calls as fast as it can for some seconds. */
export type Load = Child<unknown, number, LoadResult>

/** Runs all callers concurrently, each one call after the other, and waits for the last responses. */
export function runCallers(callers: readonly Caller[], seconds: number): Promise<LoadResult> {
  const started = performance.now()
  const until = started + seconds * 1000
  const latenciesMs: number[] = []
  const failures: string[] = []
  let open = callers.length
  return new Promise((resolve) => {
    const finish = (): void =>
      resolve({
        callsPerSecond: latenciesMs.length / ((performance.now() - started) / 1000),
        p50Ms: percentile(latenciesMs, 0.5),
        p99Ms: percentile(latenciesMs, 0.99),
        failures: failures.length,
        firstFailure: failures[0],
      })
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

/** Sends at an even rate. A late turn of the event loop sends what it has missed. */
export async function sendAtRate(
  count: number,
  perSecond: number,
  send: () => void,
): Promise<void> {
  const started = performance.now()
  for (let sent = 0; sent < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - started) / 1000) * perSecond))
    for (; sent < due; sent++) send()
    await nextTurn()
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1))
}

interface UnderLoad {
  /** Process id of the server under load; absent: the generator does the work itself. */
  readonly server?: number
  /** How many units one call counts as. */
  readonly unitsPerCall?: number
  readonly before?: () => Promise<void>
  /** Further details, measured right after the load. */
  readonly after?: () => Promise<Record<string, number>>
}

/** A contender measured by its throughput under load. A single failed call fails the benchmark. */
export function underLoad(
  bench: Bench,
  name: string,
  load: Load,
  { server, unitsPerCall = 1, before, after }: UnderLoad = {},
): Contender {
  return {
    name,
    async measure(seconds) {
      await before?.()
      const costs = trackCosts(bench, load.pid, server)
      const { callsPerSecond, p50Ms, p99Ms, failures, firstFailure } = await load.run(seconds)
      const value = callsPerSecond * unitsPerCall
      const details = { 'p50 ms': p50Ms, 'p99 ms': p99Ms, ...costs(value) }
      if (failures > 0) throw new Error(`${name}: ${failures} failures, first: ${firstFailure}`)
      return { value, details: { ...details, ...(await after?.()) } }
    },
  }
}

/**
 * Starts to track the cores that load, server and database use.
 *
 * @returns a function that returns them, and the CPU time of each unit, which a busy machine changes less than its speed
 */
function trackCosts({ postmaster }: Bench, load: number, server?: number) {
  const cpuUsage = trackCpuUsage({
    load,
    ...(server !== undefined && { server }),
    ...(postmaster !== undefined && { database: postmaster }),
  })
  return (perSecond: number): Record<string, number> => {
    const used = cpuUsage()
    const costs = ['server', 'database'].flatMap((name) => {
      const cores = used[`${name} cores`]
      return cores === undefined ? [] : [[`${name} µs each`, (cores / perSecond) * 1e6]]
    })
    return { ...used, ...Object.fromEntries(costs) }
  }
}
