/** What one round measured. */
export interface Sample {
  readonly value: number
  /** Further figures of the round by name, such as latencies and cores used. */
  readonly aside?: Readonly<Record<string, number>>
}

/** Whoever is measured: ours, or a yardstick. */
export interface Contender {
  readonly name: string
  /** Measures for about so many seconds. */
  measure(seconds: number): Promise<Sample>
}

/** The rounds of one contender. */
export interface Figure {
  readonly name: string
  readonly median: number
  readonly rounds: readonly number[]
  /** Medians of the further figures. */
  readonly aside: Readonly<Record<string, number>>
}

interface Rounds {
  readonly rounds: number
  readonly seconds: number
  /** Of the round before the first. */
  readonly warmUpSeconds: number
  /** Runs before every measurement, so that all begin alike. */
  readonly before?: () => Promise<void>
  readonly log: (line: string) => void
}

/**
 * Measures all contenders in every round, each round beginning with another one, so that what
 * disturbs the machine disturbs all alike. A round before the first warms everything up and does not
 * count.
 */
export async function inTurn<Names extends string>(
  contenders: Readonly<Record<Names, Contender>>,
  options: Rounds,
): Promise<Readonly<Record<Names, Figure>>> {
  const names = Object.keys(contenders) as Names[]
  const samples = new Map<Names, Sample[]>(names.map((name) => [name, []]))
  for (const name of names) await contenders[name].measure(options.warmUpSeconds)
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

/** The middle one; of an even number, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('nothing was measured')
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  const low = sorted[Math.ceil(half) - 1] as number
  const high = sorted[Math.floor(half)] as number
  return (low + high) / 2
}

export function toFigure(contender: { readonly name: string }, samples: readonly Sample[]): Figure {
  const names = new Set(samples.flatMap((sample) => Object.keys(sample.aside ?? {})))
  const aside = [...names].map((name) => {
    const values = samples.flatMap((sample) => sample.aside?.[name] ?? [])
    return [name, median(values)]
  })
  const rounds = samples.map((sample) => sample.value)
  return {
    name: contender.name,
    median: median(rounds),
    rounds,
    aside: Object.fromEntries(aside),
  }
}

function describe({ value, aside = {} }: Sample): string {
  const rest = Object.entries(aside).map(([name, amount]) => `${name} ${round(amount)}`)
  return [round(value), ...rest].join(', ')
}

function round(amount: number): string {
  return amount >= 100 ? Math.round(amount).toLocaleString('en') : amount.toFixed(2)
}
