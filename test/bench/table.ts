import type { Figure } from './alternate-rounds.ts'
import { isMet, type Result, ratioOf, type Target } from './benchmark.ts'

const HEAD = ['what', 'ours', 'yardstick', 'ratio', 'target', 'verdict']

/** The results as one table, with the server that they were measured on and their notes below it. */
export function table(results: readonly Result[], server: string): string {
  const lines = results.map((result) => [
    `${result.name}: ${result.what}`,
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

function verdict(result: Result): string {
  if ('none' in result.target) return '–'
  return isMet(result) ? 'met' : 'MISSED'
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

function amountText(amount: number): string {
  return amount >= 100 ? Math.round(amount).toLocaleString('en') : amount.toFixed(2)
}
