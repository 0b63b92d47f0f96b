import type { Bench } from './bench.ts'
import type { Figure } from './in-turn.ts'

/** One line that `npm run bench -- <name>` can ask for. */
export interface Row {
  readonly name: string
  /** It takes so long that it is measured only when it is named. */
  readonly onlyWhenNamed?: boolean
  /** The same of a quick run. */
  readonly slow?: boolean
  /** Measures on databases and processes of its own. Throws when that fails. */
  measure(bench: Bench): Promise<readonly Result[]>
}

/** What a figure should be: a multiple of its yardstick, or an amount. */
export type Target =
  | { readonly atLeastTimes: number }
  | { readonly atMostTimes: number }
  | { readonly atMost: number }
  /** It is there for comparison. */
  | { readonly none: true }

/** One line of the table. */
export interface Result {
  readonly name: string
  readonly what: string
  readonly unit: string
  readonly ours: Figure
  readonly yardstick: Figure | undefined
  readonly target: Target
  /** What a reader should know beside the figures. */
  readonly notes: readonly string[]
}

/** Ours divided by the yardstick; undefined where there is no yardstick. */
export function ratioOf({ ours, yardstick }: Result): number | undefined {
  return yardstick === undefined ? undefined : ours.median / yardstick.median
}

export function isMet(result: Result): boolean {
  const { target, ours } = result
  if ('none' in target) return true
  if ('atMost' in target) return ours.median <= target.atMost
  const ratio = ratioOf(result)
  if (ratio === undefined) throw new Error(`${result.name}: a ratio needs a yardstick`)
  return 'atMostTimes' in target ? ratio <= target.atMostTimes : ratio >= target.atLeastTimes
}
