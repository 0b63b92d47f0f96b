import { AggregatorRegistry } from 'prom-client'
import type { Measured, Metric } from './messages.ts'

/** Collects what all workers measured. */
export interface MetricsAggregator {
  /** Of each worker that answers in time, and what else belongs to the sums. */
  all(): Promise<readonly Measured[]>
  /** A worker answered. */
  heard(worker: number, id: number, metrics: Measured): void
  /** A worker has ended. */
  left(worker: number): void
}

interface Options {
  /** The numbers of the workers that there are to ask. */
  readonly workers: () => readonly number[]
  readonly ask: (worker: number, id: number) => void
  /** How long to wait for those that do not answer. */
  readonly answerMs?: number
}

const ANSWER_MS = 1_000

interface Asking {
  readonly id: number
  readonly waiting: Set<number>
  readonly answers: Measured[]
  readonly finish: () => void
}

/**
 * Sums must never fall but for a restart of the service: whoever reads them would take the fall for
 * one, and count everything twice. So what a worker had counted when it was last asked stays, when
 * it does not answer this time, and when it has ended.
 */
export function createMetricsAggregator({
  workers,
  ask,
  answerMs = ANSWER_MS,
}: Options): MetricsAggregator {
  const last = new Map<number, Measured>()
  let past: readonly Measured[] = []
  let asking: Asking | undefined
  let underWay: Promise<readonly Measured[]> | undefined
  let ids = 0

  const askAll = (): Promise<Asking> =>
    new Promise((resolve) => {
      ids += 1
      const finish = (): void => {
        clearTimeout(timer)
        asking = undefined
        resolve(round)
      }
      const round: Asking = { id: ids, waiting: new Set(workers()), answers: [], finish }
      const timer = setTimeout(finish, answerMs)
      asking = round
      for (const worker of round.waiting) ask(worker, round.id)
      if (round.waiting.size === 0) finish()
    })
  const collect = async (): Promise<readonly Measured[]> => {
    const { answers, waiting } = await askAll()
    const silent = [...waiting].flatMap((worker) => last.get(worker) ?? []).filter(isCount)
    const before = past
    past = []
    // A worker may end meanwhile.
    past = [...(before.length > 1 ? [await sumOf(before)] : before), ...past]
    return [...answers, silent, ...past]
  }
  return {
    all() {
      underWay ??= collect().finally(() => {
        underWay = undefined
      })
      return underWay
    },
    heard(worker, id, metrics) {
      last.set(worker, metrics)
      if (asking?.id !== id || !asking.waiting.delete(worker)) return
      asking.answers.push(metrics)
      if (asking.waiting.size === 0) asking.finish()
    },
    left(worker) {
      const counted = last.get(worker)?.filter(isCount)
      last.delete(worker)
      if (counted) past = [...past, counted]
      if (asking?.waiting.delete(worker) && asking.waiting.size === 0) asking.finish()
    },
  }
}

/** Text of the sums, or of what else each metric's aggregator says. */
export function expose(parts: readonly Measured[]): Promise<string> {
  return AggregatorRegistry.aggregate([...parts]).metrics()
}

async function sumOf(parts: readonly Measured[]): Promise<Measured> {
  const metrics: unknown = await AggregatorRegistry.aggregate([...parts]).getMetricsAsJSON()
  return metrics as Measured
}

function isCount({ type }: Metric): boolean {
  return type === 'counter' || type === 'histogram'
}
