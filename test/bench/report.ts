import { readFile } from 'node:fs/promises'
import { amountText, type Figure, type Row, type Target } from './rounds.ts'

/** A row with the name of its benchmark. */
export interface Result extends Row {
  readonly name: string
  readonly notes: readonly string[]
}

/** A row's name and its notes, with the further figures of each contender: latencies and CPU usage. */
export function toResult(name: string, row: Row): Result {
  const figures = [row.ours, ...(row.yardstick ? [row.yardstick] : [])]
  const details = figures.flatMap((figure) => {
    const parts = Object.entries(figure.details).map(
      ([what, amount]) => `${what} ${amount.toFixed(2)}`,
    )
    return parts.length > 0 ? [`${figure.name}: ${parts.join(', ')}`] : []
  })
  return { name, ...row, notes: [...(row.notes ?? []), ...details] }
}

const HEAD = ['what', 'ours', 'yardstick', 'ratio', 'target', 'verdict']

/** The results as one table, with the server that they were measured on and their notes below it. */
export function table(results: readonly Result[], server: string): string {
  const lines = results.map((result) => [
    titleOf({ ...result, yardstick: undefined }),
    `${rangeText(result.ours)} ${result.unit}`,
    result.yardstick ? `${result.yardstick.name}: ${rangeText(result.yardstick)}` : '–',
    ratioOf(result)?.toFixed(2) ?? '–',
    targetText(result.target),
    verdict(result),
  ])
  const all = [HEAD, ...lines]
  const widths = HEAD.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)))
  const text = all.map((line) => line.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  '))
  text.splice(1, 0, widths.map((width) => '─'.repeat(width)).join('  '))
  const notes = results.flatMap(({ name, notes }) => notes.map((note) => `${name}: ${note}`))
  return [...text, '', `Measured on ${server}.`, ...new Set(notes)]
    .map((line) => line.trimEnd())
    .join('\n')
}

/** The results as JSON text. */
export function toJson(
  results: readonly Result[],
  server: string,
  failed: readonly string[],
): string {
  const rows = results.map((result) => ({
    ...result,
    ratio: ratioOf(result) ?? null,
    yardstick: result.yardstick ?? null,
    verdict: verdict(result).toLowerCase(),
  }))
  return `${JSON.stringify({ server, results: rows, failed }, undefined, 2)}\n`
}

/** Our median divided by the yardstick's; undefined without a yardstick. */
function ratioOf({ ours, yardstick }: Row): number | undefined {
  return yardstick && ours.median / yardstick.median
}

function verdict(row: Row): string {
  const { target, ours } = row
  if ('none' in target) return '–'
  const ratio = ratioOf(row) ?? Number.NaN
  if ('atMost' in target) return ours.median <= target.atMost ? 'met' : 'MISSED'
  const isMet = 'atMostTimes' in target ? ratio <= target.atMostTimes : ratio >= target.atLeastTimes
  return isMet ? 'met' : 'MISSED'
}

function targetText(target: Target): string {
  if ('none' in target) return '–'
  if ('atMost' in target) return `≤ ${target.atMost}`
  return 'atMostTimes' in target ? `≤ ${target.atMostTimes}×` : `≥ ${target.atLeastTimes}×`
}

/** The median, and the lowest and highest round. */
function rangeText({ median, rounds }: Figure): string {
  if (rounds.length < 2) return amountText(median)
  const [low, high] = [Math.min(...rounds), Math.max(...rounds)].map(amountText)
  return `${amountText(median)} [${low}–${high}]`
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
  const [one, other] = await Promise.all(
    paths.map(async (path): Promise<{ server: string; results: Result[] }> => {
      return JSON.parse(await readFile(path, 'utf8'))
    }),
  )
  if (one === undefined || other === undefined) throw new Error('name two files of BENCH_JSON')
  console.log(`${other.server}, as a part of ${one.server}:\n`)
  const known = new Map(one.results.map((row) => [titleOf(row), row]))
  let slower = 0
  for (const row of other.results) {
    const first = known.get(titleOf(row))
    if (first === undefined) continue
    const part = speedOf(row, row.ours.median) / speedOf(first, first.ours.median)
    if (part < PART_MIN) slower += 1
    const [ratio, firstRatio] = [ratioOf(row), ratioOf(first)]
    const byRatio = ratio && firstRatio && speedOf(row, ratio) / speedOf(first, firstRatio)
    console.log(
      `${part < PART_MIN ? 'SLOWER ' : 'as fast'} ${part.toFixed(2)}${byRatio ? `, by ratio ${byRatio.toFixed(2)}` : ''}  ${titleOf(row)}`,
    )
  }
  return slower
}

function titleOf({ name, what, yardstick }: Result): string {
  return `${name}: ${what}${yardstick ? `, against ${yardstick.name}` : ''}`
}

/** Of a row with an upper bound, such as a latency, less is faster. */
function speedOf({ target }: Result, figure: number): number {
  return 'atMost' in target || 'atMostTimes' in target ? 1 / figure : figure
}
