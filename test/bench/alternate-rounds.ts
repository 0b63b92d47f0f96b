/** What one round measured. */
export interface Sample {
  readonly value: number
  /** Further figures of the round by name, such as latencies and cores used. */
  readonly details?: Readonly<Record<string, number>>
}

/** What is measured: Inflow, or a yardstick. */
export interface Contender {
  readonly name: string
  /** Measures for about this many seconds. */
  measure(seconds: number): Promise<Sample>
}

/** The rounds of one contender. */
export interface Figure {
  readonly name: string
  readonly median: number
  readonly rounds: readonly number[]
  /** Medians of the further figures. */
  readonly details: Readonly<Record<string, number>>
}

interface Rounds {
  readonly rounds: number
  readonly seconds: number
  /** Length of the uncounted round before the first. */
  readonly warmUpSeconds: number
  /** Runs before every measurement, so that all start from the same state. */
  readonly before?: () => Promise<void>
  readonly log: (line: string) => void
}

/** Rounds whose spread exceeds this fraction of the highest were disturbed, and are run again. */
const SPREAD_MAX = 1 / 3

/**
 * Measures all contenders in every round, and starts each round with a different one, so that
 * disturbances of the machine affect all alike. An uncounted round warms everything up first. If the
 * rounds of a contender vary too much, all rounds are run once more and the second figures count.
 */
export async function alternateRounds<Names extends string>(
  contenders: Readonly<Record<Names, Contender>>,
  options: Rounds,
): Promise<Readonly<Record<Names, Figure>>> {
  const names = Object.keys(contenders) as Names[]
  for (const name of names) await contenders[name].measure(options.warmUpSeconds)
  const figures = await measureRounds(contenders, names, options)
  const disturbed = names.filter((name) => spreadOf(figures[name].rounds) > SPREAD_MAX)
  if (disturbed.length === 0) return figures
  const whose = disturbed.map((name) => contenders[name].name).join(', ')
  options.log(`  the rounds of ${whose} vary by more than a third: running them again`)
  return measureRounds(contenders, names, options)
}

async function measureRounds<Names extends string>(
  contenders: Readonly<Record<Names, Contender>>,
  names: readonly Names[],
  options: Rounds,
): Promise<Readonly<Record<Names, Figure>>> {
  const samples = new Map<Names, Sample[]>(names.map((name) => [name, []]))
  for (let round = 0; round < options.rounds; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length] as Names
      await options.before?.()
      const sample = await contenders[name].measure(options.seconds)
      samples.get(name)?.push(sample)
      options.log(`  round ${round + 1}: ${contenders[name].name}: ${describe(sample)}`)
    }
  }
  const figures = names.map((name) => [name, toFigure(contenders[name], samples.get(name) ?? [])])
  return Object.fromEntries(figures)
}

function spreadOf(rounds: readonly number[]): number {
  const high = Math.max(...rounds)
  return high === 0 ? 0 : (high - Math.min(...rounds)) / high
}

/** The middle value; of an even count, the mean of the two middle values. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('nothing was measured')
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  const low = sorted[Math.ceil(half) - 1] as number
  const high = sorted[Math.floor(half)] as number
  return (low + high) / 2
}

export function toFigure(contender: { readonly name: string }, samples: readonly Sample[]): Figure {
  const names = new Set(samples.flatMap((sample) => Object.keys(sample.details ?? {})))
  const details = [...names].map((name) => {
    const values = samples.flatMap((sample) => sample.details?.[name] ?? [])
    return [name, median(values)]
  })
  const rounds = samples.map((sample) => sample.value)
  return {
    name: contender.name,
    median: median(rounds),
    rounds,
    details: Object.fromEntries(details),
  }
}

function describe({ value, details = {} }: Sample): string {
  const rest = Object.entries(details).map(([name, amount]) => `${name} ${round(amount)}`)
  return [round(value), ...rest].join(', ')
}

function round(amount: number): string {
  return amount >= 100 ? Math.round(amount).toLocaleString('en') : amount.toFixed(2)
}

/** The further figures of each contender as text: latencies and CPU usage. */
export function detailNotes(...figures: readonly Figure[]): readonly string[] {
  return figures.flatMap(({ name, details }) => {
    const parts = Object.entries(details).map(([what, amount]) => `${what} ${amount.toFixed(2)}`)
    return parts.length > 0 ? [`${name}: ${parts.join(', ')}`] : []
  })
}
