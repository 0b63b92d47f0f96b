import type { Bench } from '../bench.ts'
import { watchCores } from '../cores.ts'
import type { Contender, Sample } from '../in-turn.ts'
import type { Program } from '../program.ts'
import type { LoadAnswer, LoadCommand } from './lanes.ts'

/** How much longer than asked for a round of load may take. */
const GRACE_MS = 30_000

interface UnderLoad {
  readonly name: string
  readonly load: Program<undefined, LoadCommand, LoadAnswer>
  /** Process id of what works under the load; undefined: the generator does the work itself. */
  readonly server?: number
  /** What one call counts for. */
  readonly unitsPerCall?: number
  /** Processed at right after the load. */
  readonly after?: () => Promise<Record<string, number>>
}

/** A contender that is measured by how much of a load it bears. A single failed call fails it. */
export function underLoad({ postmaster }: Bench, options: UnderLoad): Contender {
  const { name, load, server, unitsPerCall = 1 } = options
  const watched = {
    load: load.pid,
    ...(server !== undefined && { server }),
    ...(postmaster !== undefined && { database: postmaster }),
  }
  return {
    name,
    async measure(seconds): Promise<Sample> {
      const cores = watchCores(watched)
      const answer = await load.run({ seconds }, seconds * 1000 + GRACE_MS)
      const used = cores()
      if (answer.failures > 0) {
        throw new Error(`${name}: ${answer.failures} failures, first: ${answer.firstFailure}`)
      }
      const { p50Ms, p99Ms } = answer
      return {
        value: answer.callsPerSecond * unitsPerCall,
        aside: {
          'p50 ms': p50Ms,
          'p99 ms': p99Ms,
          ...used,
          ...(await options.after?.()),
        },
      }
    },
  }
}
