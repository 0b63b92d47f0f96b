import { alternateRounds, type Contender, detailNotes, type Figure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'

/** A benchmark that `npm run bench -- <name>` runs. */
export interface Benchmark {
  readonly name: string
  /** It takes so long that it runs only when it is named. */
  readonly onlyWhenNamed?: boolean
  /** A quick run skips it unless it is named. */
  readonly slow?: boolean
  /** Measures on databases and processes of its own. Throws when that fails. */
  measure(bench: Bench): Promise<readonly Result[]>
}

/** The target of a figure: a multiple of its yardstick, or an amount. */
export type Target =
  | { readonly atLeastTimes: number }
  | { readonly atMostTimes: number }
  | { readonly atMost: number }
  /** No target: the figure is for comparison. */
  | { readonly none: true }

/** One line of the table. */
export interface Result {
  readonly name: string
  readonly what: string
  readonly unit: string
  readonly ours: Figure
  readonly yardstick: Figure | undefined
  readonly target: Target
  /** Lines that are printed below the table. */
  readonly notes: readonly string[]
}

/** Measures the service against one yardstick, each from a checkpoint on. @returns the one row */
export async function compareWith(
  bench: Bench,
  row: Pick<Result, 'name' | 'what' | 'unit' | 'target'>,
  contenders: Readonly<Record<'ours' | 'yardstick', Contender>>,
): Promise<readonly Result[]> {
  const { ours, yardstick } = await alternateRounds(contenders, {
    ...bench,
    before: bench.checkpoint,
  })
  return [{ ...row, ours, yardstick, notes: detailNotes(ours, yardstick) }]
}

/** Our median divided by the yardstick's; undefined without a yardstick. */
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
