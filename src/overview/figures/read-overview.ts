import type { Clock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import { findFirstDue, oldestUnsettledAt } from '../../settlement/overdue.ts'
import { type Due, readDue } from '../../webhooks/deliveries/backlog.ts'
import { countReviewItems, type ReviewCount } from '../review/list-review-items.ts'
import type { Scope } from '../scope.ts'
import { type BankModes, type BankState, readBanks } from './read-banks.ts'
import { type Health, readHealth } from './read-health.ts'
import { type DayFigures, readHours } from './read-hours.ts'

/** What the first page of the console shows. */
export interface Overview {
  readonly atMs: number
  readonly day: DayFigures
  readonly weekBefore: DayFigures
  readonly review: readonly ReviewCount[]
  readonly waiting: Waiting
  /** Empty, or undefined, for callers that see some businesses only. */
  readonly banks: readonly BankState[]
  readonly health: Health | undefined
}

/** What waits for the service, or for receivers. */
interface Waiting extends Due {
  readonly oldestUnsettledAtMs: number | undefined
  readonly nextSettlementAtMs: number | undefined
}

export interface OverviewDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly bankModes: BankModes
  /** Says why the instance cannot serve calls; empty: it can. */
  readonly ready: () => Promise<readonly string[]>
}

const DELIVERIES_MAX = 10_000

export async function readOverview(
  { database, clock, bankModes, ready }: OverviewDependencies,
  scope: Scope,
  live: boolean,
): Promise<Overview> {
  const nowMs = clock.now()
  const [hours, review, waiting, banks, health] = await Promise.all([
    readHours(database, scope, live, nowMs),
    countReviewItems(database, { ...scope, live }, [], nowMs),
    readWaiting(database, scope, live),
    scope.isOperator ? readBanks(database, bankModes, live) : [],
    scope.isOperator ? readHealth(database, ready) : undefined,
  ])
  return { atMs: nowMs, ...hours, review, waiting, banks, health }
}

async function readWaiting(
  { pool, read }: Database,
  { businessIds }: Scope,
  live: boolean,
): Promise<Waiting> {
  const [due, first] = await Promise.all([
    readDue(pool, { businessIds, live }, DELIVERIES_MAX),
    read((on) => findFirstDue(on, { businessIds, live })),
  ])
  const oldestUnsettledAtMs = first && (await read((on) => oldestUnsettledAt(on, first)))
  return { ...due, oldestUnsettledAtMs, nextSettlementAtMs: first?.dueAtMs }
}
