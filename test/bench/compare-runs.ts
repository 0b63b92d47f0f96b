import { readFile } from 'node:fs/promises'
import type { Result } from './benchmark.ts'

/** What `BENCH_JSON` gets. */
interface Run {
  readonly server: string
  readonly results: readonly (Result & { readonly ratio: number | null })[]
}

/** No row may be more than a tenth slower on one server than on another. */
const PART_MIN = 0.9

/**
 * Prints each row of a run as a part of the same row of an earlier one: by its own figure, and by its ratio to the
 * yardstick, which shows whether the service or the machine was slower.
 *
 * @param paths of the earlier run and of the other, as `BENCH_JSON` wrote them
 * @returns how many rows are more than a tenth slower
 */
export async function compareRuns(paths: readonly string[]): Promise<number> {
  const [one, other] = await Promise.all(paths.map(readRun))
  if (one === undefined || other === undefined) throw new Error('name two files of BENCH_JSON')
  console.log(`${other.server}, as a part of ${one.server}:\n`)
  let slower = 0
  for (const [row, first] of pairs(one, other)) {
    const part = speedOf(row) / speedOf(first)
    if (part < PART_MIN) slower += 1
    const byRatio =
      row.ratio && first.ratio && speedOf(row, row.ratio) / speedOf(first, first.ratio)
    const ratio = byRatio ? `, by ratio ${byRatio.toFixed(2)}` : ''
    const verdict = part < PART_MIN ? 'SLOWER ' : 'as fast'
    console.log(`${verdict} ${part.toFixed(2)}${ratio}  ${titleOf(row)}`)
  }
  return slower
}

async function readRun(path: string): Promise<Run> {
  return JSON.parse(await readFile(path, 'utf8'))
}

/** The rows that both runs have. */
function pairs(one: Run, other: Run) {
  const known = new Map(one.results.map((row) => [titleOf(row), row]))
  return other.results.flatMap((row) => {
    const first = known.get(titleOf(row))
    return first === undefined ? [] : [[row, first] as const]
  })
}

function titleOf({ name, what, yardstick }: Result): string {
  return `${name}: ${what}${yardstick ? `, against ${yardstick.name}` : ''}`
}

/** Of a row with an upper bound, such as a latency, less is faster. */
function speedOf({ ours, target }: Result, figure = ours.median): number {
  return 'atMost' in target || 'atMostTimes' in target ? 1 / figure : figure
}
