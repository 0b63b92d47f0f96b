import { countPending } from '../accounts/resolve-account.ts'
import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { listBreakers } from '../banks/breakers.ts'
import { readLag, readLogState } from '../events/log-state.ts'
import { latestNotificationAt } from '../notifications/held-notifications.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { listStandbys, readServerVersion, type Standby } from '../postgres/server-state.ts'
import { listRuns } from '../reconciliation/run-store.ts'
import { readBalance } from '../settlement/get-balance.ts'
import { findFirstDue, oldestUnsettledAt } from '../settlement/overdue.ts'
import type { BalanceKey } from '../settlement/settlement.ts'
import { type Due, dispatchedUpTo, readDue } from '../webhooks/deliveries/backlog.ts'
import { countByState } from '../webhooks/endpoints/list-unhealthy.ts'
import { countUncounted } from './figures-job.ts'
import { countReviewItems, type ReviewCount } from './list-review-items.ts'
import { type DayFigures, readHours, readLastPayments } from './read-hours.ts'
import type { Scope } from './scope.ts'

/** The data of the first page of the console. */
export interface Overview {
  readonly atMs: number
  readonly day: DayFigures
  readonly weekBefore: DayFigures
  readonly review: readonly ReviewCount[]
  readonly waiting: Waiting
  /** Empty for callers whose token is restricted to businesses; `health` is undefined for them. */
  readonly banks: readonly BankState[]
  readonly health: Health | undefined
  /** Undefined without a requested business. */
  readonly business: BusinessState | undefined
}

/** The deliveries and settlements that are due. */
interface Waiting extends Due {
  readonly oldestUnsettledAtMs: number | undefined
  readonly nextSettlementAtMs: number | undefined
}

export interface OverviewDependencies {
  readonly bankModes: BankModes
  /** Returns why the instance cannot serve calls; empty: it can. */
  readonly ready: () => Promise<readonly string[]>
}

const DELIVERIES_MAX = 10_000

/** With an empty business id, the overview of all businesses that the caller may see. */
export async function readOverview(
  { database, clock }: Runtime,
  { bankModes, ready }: OverviewDependencies,
  scope: Scope,
  { businessId, live }: BalanceKey,
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

/** The balance and endpoints of a business in one mode. */
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
  key: BalanceKey,
): Promise<BusinessState | undefined> {
  const [balance, counts] = await Promise.all([
    read((on) => readBalance(on, key)),
    read((on) => countByState(on, key)),
  ])
  const { isCurrent, availableMinor, pendingMinor } = balance
  return isCurrent ? { availableMinor, pendingMinor, ...counts } : undefined
}

/** Whether live mode of each bank is served by the sandbox or by the real bank. */
type BankModes = Readonly<Record<BankCode, 'sandbox' | 'live'>>

/** The state of a bank in one mode. */
export interface BankState {
  readonly bank: BankCode
  readonly connector: 'sandbox' | 'live'
  /** The worst state of all processes. */
  readonly breaker: 'closed' | 'half-open' | 'open'
  readonly breakerSinceMs: number | undefined
  /** Whether the bank denied access to the latest call of any process. */
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

/** @param ready returns why the instance cannot serve calls */
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
