import { Gauge, type Registry } from 'prom-client'
import { shareResult, withTimeout } from './concurrency.ts'

/** A value of a gauge with labels. */
export interface LabelledValue {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** A gauge whose value comes from a shared sample. */
interface SampledGauge<Sample> {
  readonly name: string
  readonly help: string
  /** Absent: no labels. */
  readonly labelNames?: readonly string[]
  /** @returns the value; undefined: the value is unknown and left out of the scrape */
  measure(sample: Sample): number | undefined | readonly LabelledValue[]
}

interface SampleTimes {
  /** How long a sample is used; default: 5 s. */
  readonly periodMs?: number
  /** How long a scrape waits for a sample; default: 2 s. */
  readonly timeoutMs?: number
}

/** Shorter than the usual scrape interval of 15 s, so that each scrape gets a new sample but many scrapes share one. */
const PERIOD_MS = 5_000

/** Shorter than the time-out of a scrape, so that other metrics arrive even if the database does not respond. */
const TIMEOUT_MS = 2_000

/**
 * Registers gauges that share one sample, such as the row of a statement. Scrapes within a period share the sample. If
 * the sample fails or does not arrive in time, the gauges have no value, because an old value would hide the failure.
 */
export function registerSampledGauges<Sample>(
  register: Registry,
  read: () => Promise<Sample>,
  gauges: readonly SampledGauge<Sample>[],
  { periodMs = PERIOD_MS, timeoutMs = TIMEOUT_MS }: SampleTimes = {},
): void {
  const sample = shareResult(async () => {
    const atMs = performance.now()
    return { value: await read(), atMs }
  }, periodMs)
  const take = async (): Promise<{ readonly value: Sample } | undefined> => {
    const taken = sample()
    const inTime = await withTimeout(taken, timeoutMs).catch(() => false)
    return inTime ? taken : undefined
  }
  for (const { name, help, labelNames = [], measure } of gauges) {
    new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers: [register],
      async collect() {
        const taken = await take()
        const measured = taken && measure(taken.value)
        this.reset()
        if (typeof measured === 'number') this.set(measured)
        else if (measured !== undefined)
          for (const { labels, value } of measured) this.set(labels, value)
        // Removes the initial value 0 of a gauge without labels.
        else if (labelNames.length === 0) this.remove()
      },
    })
  }
}
