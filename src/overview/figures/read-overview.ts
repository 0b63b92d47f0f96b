import { countPending } from '../../accounts/resolve-account.ts'
import { BANK_CODES, type BankCode } from '../../banks/bank.ts'
import { listBreakers } from '../../banks/breakers.ts'
import { readLag } from '../../events/lag.ts'
import { readLogState } from '../../events/log-state.ts'
import { latestNotificationAt } from '../../notifications/held-notifications.ts'
import type { Database } from '../../postgres/orm.ts'
import { listStandbys, readServerVersion, type Standby } from '../../postgres/replicas/standbys.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { listRuns } from '../../reconciliation/run-store.ts'
import { readBalance } from '../../settlement/get-balance.ts'
import { findFirstDue, oldestUnsettledAt } from '../../settlement/overdue.ts'
import { type Due, dispatchedUpTo, readDue } from '../../webhooks/deliveries/backlog.ts'
import { countByState } from '../../webhooks/endpoints/list-unhealthy.ts'
import { countReviewItems, type ReviewCount } from '../list-review-items.ts'
import type { Scope } from '../scope.ts'
import { countUncounted } from './figures-job.ts'
import { type DayFigures, readHours, readLastPayments } from './read-hours.ts'

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
  /** Undefined without a requested business. */
  readonly business: BusinessState | undefined
}

/** What waits for the service, or for receivers. */
interface Waiting extends Due {
  readonly oldestUnsettledAtMs: number | undefined
  readonly nextSettlementAtMs: number | undefined
}

export interface OverviewDependencies {
  readonly bankModes: BankModes
  /** Says why the instance cannot serve calls; empty: it can. */
  readonly ready: () => Promise<readonly string[]>
}

interface Requested {
  /** Empty: all that the caller may see. */
  readonly businessId: string
  readonly live: boolean
}

const DELIVERIES_MAX = 10_000

export async function readOverview(
  { database, clock }: Runtime,
  { bankModes, ready }: OverviewDependencies,
  scope: Scope,
  { businessId, live }: Requested,
): Promise<Overview> {
  const nowMs = clock.now()
  const [hours, review, waiting, banks, health, business] = await Promise.all([
    readHours(database, scope, live, nowMs),
    countReviewItems(database, { ...scope, live }, [], nowMs),
    readWaiting(database, scope, live),
    scope.isOperator ? readBanks(database, bankModes, live) : [],
    scope.isOperator ? readHealth(database, ready) : undefined,
    businessId === '' ? undefined : readBusiness(database, { businessId, live }),
  ])
  return { atMs: nowMs, ...hours, review, waiting, banks, health, business }
}

async function readWaiting(
  { durablePool, read }: Database,
  { businessIds }: Scope,
  live: boolean,
): Promise<Waiting> {
  const [due, first] = await Promise.all([
    readDue(durablePool, { businessIds, live }, DELIVERIES_MAX),
    read((on) => findFirstDue(on, { businessIds, live })),
  ])
  const oldestUnsettledAtMs = first && (await read((on) => oldestUnsettledAt(on, first)))
  return { ...due, oldestUnsettledAtMs, nextSettlementAtMs: first?.dueAtMs }
}

/** A business in one mode. */
interface BusinessState {
  readonly availableMinor: bigint
  readonly pendingMinor: bigint
  readonly endpoints: number
  readonly failing: number
  readonly disabled: number
}

/** @returns undefined after a restore, until the event log is ready */
async function readBusiness(
  { read }: Database,
  key: Requested,
): Promise<BusinessState | undefined> {
  const [balance, counts] = await Promise.all([
    read((on) => readBalance(on, key)),
    read((on) => countByState(on, key)),
  ])
  const { isCurrent, availableMinor, pendingMinor } = balance
  return isCurrent ? { availableMinor, pendingMinor, ...counts } : undefined
}

/** How each bank is served in live mode. */
type BankModes = Readonly<Record<BankCode, 'sandbox' | 'live'>>

/** The state of a bank in one mode. */
export interface BankState {
  readonly bank: BankCode
  readonly connector: 'sandbox' | 'live'
  /** The worst of all processes. */
  readonly breaker: 'closed' | 'half-open' | 'open'
  readonly breakerSinceMs: number | undefined
  /** Whether it denied the latest call of a process access. */
  readonly accessDenied: boolean
  readonly lastNotificationAtMs: number | undefined
  readonly lastPaymentAtMs: number | undefined
  readonly runs: Awaited<ReturnType<typeof listRuns>>
  readonly pendingOpenings: number
}

const OPENINGS_MAX = 1_000

async function readBanks(
  { orm, read }: Database,
  modes: BankModes,
  live: boolean,
): Promise<readonly BankState[]> {
  const isReal = (bank: BankCode) => live && modes[bank] === 'live'
  const [breakers, runs, lastPayments, pending, notified] = await Promise.all([
    listBreakers(orm.em.fork()),
    listRuns(orm),
    read((on) => readLastPayments(on, live)),
    read((on) => countPending(on, live, OPENINGS_MAX)),
    Promise.all(
      BANK_CODES.map(async (bank) =>
        isReal(bank) ? latestNotificationAt(orm.em.fork(), bank) : undefined,
      ),
    ),
  ])
  return BANK_CODES.map((bank, index): BankState => {
    const reported = isReal(bank) ? breakers.filter((each) => each.bank === bank) : []
    const own = reported.filter(({ state }) => state !== 'closed')
    return {
      bank,
      connector: isReal(bank) ? 'live' : 'sandbox',
      breaker: own.some(({ state }) => state === 'open') ? 'open' : (own[0]?.state ?? 'closed'),
      breakerSinceMs: own[0]?.openedAt.getTime(),
      accessDenied: reported.some(({ denial }) => denial !== ''),
      lastNotificationAtMs: notified[index]?.getTime(),
      lastPaymentAtMs: lastPayments.get(bank),
      runs: isReal(bank) ? runs.filter((run) => run.bank === bank) : [],
      pendingOpenings: pending.get(bank) ?? 0,
    }
  })
}

/** The health of this instance and its database. */
export interface Health {
  /** Why the instance cannot serve calls; empty: it can. */
  readonly notReady: readonly string[]
  readonly databaseLatencyMs: number
  readonly postgresVersion: string
  readonly standbys: readonly Standby[]
  readonly sequencerLagMs: number
  readonly uncountedEvents: bigint
  readonly undispatchedEvents: bigint
}

const STANDBYS_MAX = 20

/** @param ready says why the instance cannot serve calls */
async function readHealth(
  { durablePool }: Database,
  ready: () => Promise<readonly string[]>,
): Promise<Health> {
  const server = await readServerVersion(durablePool)
  const [notReady, standbys, lag, { end }, dispatched, uncountedEvents] = await Promise.all([
    ready(),
    listStandbys(durablePool, STANDBYS_MAX),
    readLag(durablePool),
    readLogState(durablePool),
    dispatchedUpTo(durablePool),
    countUncounted(durablePool),
  ])
  return {
    notReady,
    databaseLatencyMs: Math.ceil(server.latencyMs),
    postgresVersion: server.version,
    standbys,
    sequencerLagMs: Math.max(0, Math.round((lag?.seconds ?? 0) * 1000)),
    uncountedEvents,
    undispatchedEvents: end.position > dispatched ? end.position - dispatched : 0n,
  }
}
