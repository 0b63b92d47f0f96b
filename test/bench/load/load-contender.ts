import type { Contender, Sample } from '../alternate-rounds.ts'
import type { Bench } from '../bench.ts'
import type { ChildProcess } from '../child-process.ts'
import { trackCpuUsage } from '../cpu-usage.ts'
import type { LoadCommand, LoadResult } from './run-callers.ts'

/** How much longer than requested a round of load may take. */
const GRACE_MS = 30_000

interface LoadContenderOptions {
  readonly name: string
  readonly load: ChildProcess<unknown, LoadCommand, LoadResult>
  /** Process id of the server under load; undefined: the generator does the work itself. */
  readonly server?: number
  /** How many units one call counts as. */
  readonly unitsPerCall?: number
  /** Further details, measured right after the load. */
  readonly after?: () => Promise<Record<string, number>>
}

/** A contender measured by its throughput under load. A single failed call fails the benchmark. */
export function loadContender({ postmaster }: Bench, options: LoadContenderOptions): Contender {
  const { name, load, server, unitsPerCall = 1 } = options
  const watched = {
    load: load.pid,
    ...(server !== undefined && { server }),
    ...(postmaster !== undefined && { database: postmaster }),
  }
  return {
    name,
    async measure(seconds): Promise<Sample> {
      const cpuUsage = trackCpuUsage(watched)
      const measured = await load.run({ seconds }, seconds * 1000 + GRACE_MS)
      const used = cpuUsage()
      if (measured.failures > 0) {
        throw new Error(`${name}: ${measured.failures} failures, first: ${measured.firstFailure}`)
      }
      const { p50Ms, p99Ms } = measured
      return {
        value: measured.callsPerSecond * unitsPerCall,
        details: {
          'p50 ms': p50Ms,
          'p99 ms': p99Ms,
          ...used,
          ...costs(used, measured.callsPerSecond * unitsPerCall),
          ...(await options.after?.()),
        },
      }
    },
  }
}

/** The CPU time of each unit, which a busy machine changes less than its speed. */
function costs(cores: Readonly<Record<string, number>>, perSecond: number): Record<string, number> {
  const ofServers = ['server', 'database'].flatMap((name) => {
    const used = cores[`${name} cores`]
    return used === undefined ? [] : [[`${name} µs each`, (used / perSecond) * 1e6] as const]
  })
  return Object.fromEntries(ofServers)
}
