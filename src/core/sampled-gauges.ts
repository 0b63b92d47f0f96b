import { Gauge, type Registry } from 'prom-client'
import { shareResult } from './shared-result.ts'
import { withTimeout } from './with-timeout.ts'

/** A value of a gauge that has labels. */
export interface LabelledValue {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** A gauge whose value is part of a sample. */
export interface SampledGauge<Sample> {
  readonly name: string
  readonly help: string
  /** Absent: it has none. */
  readonly labelNames?: readonly string[]
  /** @returns undefined: not known, and left out of the scrape */
  measure(sample: Sample): number | undefined | readonly LabelledValue[]
}

interface SampleTimes {
  /** How long a sample is used; default: 5 s. */
  readonly periodMs?: number
  /** How long a scrape waits for a sample; default: 2 s. */
  readonly timeoutMs?: number
}

/** Prometheus scrapes every 15 s or so: each scrape has a new sample, and a flood of them costs no more. */
const PERIOD_MS = 5_000

/** Below the time-out of a scrape, so that the other metrics arrive whatever the database does. */
const TIMEOUT_MS = 2_000

/**
 * Registers gauges that share one sample, such as the row of a statement. Scrapes within a period share the sample. If
 * it fails or does not arrive in time, the gauges have no value: an old one would hide that.
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
        // A gauge without labels begins at 0, which would be a value.
        else if (labelNames.length === 0) this.remove()
      },
    })
  }
}
