/** What a scrape of /metrics returned. */
export interface Scrape {
  /** The value of a series, such as `name{label="value"}`; undefined: there is none. */
  value(series: string): number | undefined
  /** The sum of all series of a metric. */
  sum(name: string): number
  /** The metrics that it describes: name and type. */
  readonly types: ReadonlyMap<string, string>
  readonly helps: ReadonlyMap<string, string>
  /** The names of the labels of each metric that has values. */
  readonly labels: ReadonlyMap<string, ReadonlySet<string>>
}

/** Scrapes the metrics of a service. */
export async function scrape(url: string): Promise<Scrape> {
  const response = await fetch(`${url}/metrics`)
  if (!response.ok) throw new Error(`/metrics: ${response.status}`)
  return parseScrape(await response.text())
}

export function parseScrape(text: string): Scrape {
  const values = new Map<string, number>()
  const types = new Map<string, string>()
  const helps = new Map<string, string>()
  const labels = new Map<string, Set<string>>()
  for (const line of text.split('\n')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\w+) (.*)$/.exec(line) ?? []
    if (kind === 'TYPE') types.set(name, rest)
    else if (kind === 'HELP') helps.set(name, rest)
    const [, series, value] = /^(\w+(?:\{.*\})?) (\S+)$/.exec(line) ?? []
    if (series === undefined || line.startsWith('#')) continue
    values.set(series, Number(value))
    const metric = nameOf(series)
    const found = labels.get(metric) ?? new Set<string>()
    labels.set(metric, found)
    for (const [, label = ''] of series.matchAll(/(\w+)="/g)) if (label !== 'le') found.add(label)
  }
  return {
    value: (series) => values.get(series),
    sum: (name) =>
      [...values].reduce((sum, [series, value]) => {
        return series === name || series.startsWith(`${name}{`) ? sum + value : sum
      }, 0),
    types,
    helps,
    labels,
  }
}

/** The metric of a series: a histogram has several. */
function nameOf(series: string): string {
  return (series.split('{')[0] ?? '').replace(/_(bucket|sum|count)$/, '')
}
