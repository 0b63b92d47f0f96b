import type { Bench } from './bench.ts'
import { trackCpuUsage } from './cpu-usage.ts'

/** Measures on databases and processes of its own. Throws when that fails. */
export type Benchmark = (bench: Bench) => Promise<readonly Row[]>

/** One line of the table. */
export interface Row {
  readonly what: string
  readonly unit: string
  readonly ours: Figure
  readonly yardstick: Figure | undefined
  readonly target: Target
  /** Lines that are printed below the table, besides the details of the figures. */
  readonly notes?: readonly string[]
}

/** The target of a figure: a multiple of its yardstick, or an amount. */
export type Target =
  | { readonly atLeastTimes: number }
  | { readonly atMostTimes: number }
  | { readonly atMost: number }
  /** No target: the figure is for comparison. */
  | { readonly none: true }

/** What is measured: Inflow, or a yardstick. */
export interface Contender {
  readonly name: string
  /** Measures for about this many seconds. */
  measure(seconds: number): Promise<Sample>
}

/** What one round measured. */
export interface Sample {
  readonly value: number
  /** Further figures of the round by name, such as latencies and cores used. */
  readonly details?: Readonly<Record<string, number>>
}

/** The rounds of one contender. */
export interface Figure {
  readonly name: string
  readonly median: number
  readonly rounds: readonly number[]
  /** Medians of the further figures. */
  readonly details: Readonly<Record<string, number>>
}

/** Measures the service against one yardstick, each from a checkpoint on. @returns the one row */
export async function compare(
  bench: Bench,
  what: string,
  atLeastTimes: number,
  contenders: readonly [ours: Contender, yardstick: Contender],
  unit = '/s',
): Promise<readonly Row[]> {
  const [ours, yardstick] = await alternateRounds(bench, contenders)
  return [{ what, unit, ours, yardstick, target: { atLeastTimes } }]
}

/** Rounds whose spread exceeds this fraction of the highest were disturbed, and are run again. */
const SPREAD_MAX = 1 / 3

/**
 * Measures all contenders in every round, and starts each round with a different one, so that disturbances of the
 * machine affect all alike. An uncounted round warms everything up first. If the rounds of a contender vary too much,
 * all rounds are run once more and the second figures count.
 *
 * @param before runs before each measurement, so that all start from the same state
 */
export async function alternateRounds<const Contenders extends readonly Contender[]>(
  bench: Bench,
  contenders: Contenders,
  before: () => Promise<void> = bench.checkpoint,
): Promise<{ readonly [K in keyof Contenders]: Figure }> {
  for (const contender of contenders) await contender.measure(bench.warmUpSeconds)
  const measure = async () => {
    const samples = contenders.map((): Sample[] => [])
    for (let round = 0; round < bench.rounds; round++) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const at = (round + turn) % contenders.length
        const { name, measure } = contenders[at] as Contender
        await before()
        const sample = await measure(bench.seconds)
        samples[at]?.push(sample)
        bench.log(`  round ${round + 1}: ${name}: ${describe(sample)}`)
      }
    }
    return contenders.map(({ name }, at) => toFigure(name, samples[at] as Sample[]))
  }
  let figures = await measure()
  const disturbed = figures.filter(({ rounds }) => {
    const high = Math.max(...rounds)
    return high > 0 && (high - Math.min(...rounds)) / high > SPREAD_MAX
  })
  if (disturbed.length > 0) {
    const whose = disturbed.map(({ name }) => name).join(', ')
    bench.log(`  the rounds of ${whose} vary by more than a third: running them again`)
    figures = await measure()
  }
  return figures as { readonly [K in keyof Contenders]: Figure }
}

/** Measures several figures in each round. @returns the figure of each name */
export async function roundsOf<const Names extends readonly string[]>(
  bench: Bench,
  names: Names,
  measure: () => Promise<readonly Sample[]>,
): Promise<{ readonly [K in keyof Names]: Figure }> {
  const rounds: (readonly Sample[])[] = []
  for (let round = 1; round <= bench.rounds; round++) {
    const samples = await measure()
    rounds.push(samples)
    const texts = samples.map(({ value }, at) => `${names[at]} ${amountText(value)}`)
    bench.log(`  round ${round}: ${texts.join(', ')}`)
  }
  const figures = names.map((_, at) => {
    return toFigure(
      'Inflow',
      rounds.map((samples) => samples[at] as Sample),
    )
  })
  return figures as { readonly [K in keyof Names]: Figure }
}

/** A row in milliseconds. */
export function latencyRow(what: string, ours: Figure, atMost: number): Row {
  return { what, unit: ' ms', ours, yardstick: undefined, target: { atMost } }
}

/** Measures one value and, meanwhile, the cores that processes use. */
export async function withCores(
  pids: Readonly<Record<string, number>>,
  measure: () => Promise<number>,
): Promise<Sample> {
  const cpuUsage = trackCpuUsage(pids)
  return { value: await measure(), details: cpuUsage() }
}

export function toFigure(name: string, samples: readonly Sample[]): Figure {
  const names = new Set(samples.flatMap(({ details = {} }) => Object.keys(details)))
  const details = [...names].map((detail) => {
    return [detail, median(samples.flatMap((sample) => sample.details?.[detail] ?? []))]
  })
  const rounds = samples.map(({ value }) => value)
  return { name, median: median(rounds), rounds, details: Object.fromEntries(details) }
}

/** The middle value; of an even count, the mean of the two middle values. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('nothing was measured')
  return (
    (percentile(values, 0.5) +
      -percentile(
        values.map((value) => -value),
        0.5,
      )) /
    2
  )
}

/** The value that this part of all values does not exceed; NaN if there is none. */
export function percentile(values: readonly number[], part: number): number {
  return Float64Array.from(values).sort()[Math.floor(part * (values.length - 1))] ?? Number.NaN
}

function describe({ value, details = {} }: Sample): string {
  const rest = Object.entries(details).map(([name, amount]) => `${name} ${amountText(amount)}`)
  return [amountText(value), ...rest].join(', ')
}

export function amountText(amount: number): string {
  return amount >= 100 ? Math.round(amount).toLocaleString('en') : amount.toFixed(2)
}
