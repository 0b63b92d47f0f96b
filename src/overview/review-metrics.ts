import { registerSampledGauges } from '../core/sampled-gauges.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { COUNT_MAX, SOURCES } from './list-review-items.ts'
import { REVIEW_KINDS, type ReviewKind } from './review-items.ts'
import type { Scope } from './scope.ts'

interface Waiting {
  readonly kind: ReviewKind
  readonly count: number
  readonly oldestSeconds: number
}

/** Operators are on call for live mode. */
const SCOPE: Scope = { businessIds: undefined, live: true, isOperator: true }

/** Two statements for each kind: less often than the others. */
const PERIOD_MS = 10_000

/** How many items of each kind wait in live mode, and how long the oldest has waited. */
async function readWaiting({ read }: Database, nowMs: number): Promise<readonly Waiting[]> {
  return Promise.all(
    REVIEW_KINDS.map(async (kind) => {
      const { count, list } = SOURCES[kind]
      const waiting = await read((on) => count(on, SCOPE, COUNT_MAX, nowMs))
      const { items } =
        waiting === 0 ? { items: [] } : await read((on) => list(on, SCOPE, '', 1, nowMs))
      const oldestSeconds = Math.max(0, nowMs - (items[0]?.sinceMs ?? nowMs)) / 1_000
      return { kind, count: waiting, oldestSeconds }
    }),
  )
}

/** Registers what waits for a decision of an operator. */
export function registerReviewMetrics({ metrics, database, clock }: Runtime): void {
  const gauge = (name: string, help: string, measure: (of: Waiting) => number) => ({
    name,
    help,
    labelNames: ['kind'],
    measure: (waiting: readonly Waiting[]) =>
      waiting.map((each) => ({ labels: { kind: each.kind }, value: measure(each) })),
  })
  registerSampledGauges(
    metrics,
    () => readWaiting(database, clock.now()),
    [
      gauge(
        'inflow_review_items',
        'Items in manual review in live mode, by kind: up to 1,000 of each.',
        ({ count }) => count,
      ),
      gauge(
        'inflow_review_oldest_seconds',
        'How long the oldest item in manual review in live mode has waited, by kind.',
        ({ oldestSeconds }) => oldestSeconds,
      ),
    ],
    { periodMs: PERIOD_MS },
  )
}
