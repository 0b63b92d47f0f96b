import { listOpenAccounts } from '../accounts/list-accounts.ts'
import type { AccountAtBank, BankCode } from '../banks/bank.ts'
import { BankUnreachableError, NotListedError } from '../banks/http/bank-http.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { backoffMs } from '../core/backoff.ts'
import { DAY_MS } from '../core/durations.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { inSpan } from '../core/tracing.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { findPaidAccounts } from '../transactions/find-reported.ts'
import { type RecordMissingDependencies, recordMissing } from './record-missing.ts'
import {
  addRuns,
  type ClaimedRun,
  claimRun,
  type RunKey,
  type RunState,
  saveRun,
} from './run-store.ts'

/** When to search live banks for payments that their notifications did not report. */
interface ReconcileTimes {
  /** How far back a run searches; 0 disables runs. */
  readonly windowMs: number
  /** From the start of one run to the start of the next; 0 disables runs. */
  readonly intervalMs: number
  /** Younger payments are left out, because their notification may still arrive. */
  readonly graceMs: number
}

interface Options extends RecordMissingDependencies {
  readonly live: ReadonlyMap<BankCode, ServedBank>
  readonly times: ReconcileTimes
  readonly onFinished: (bank: BankCode, atMs: number) => void
}

/** How long this instance owns a run after a renewal; a page takes less. */
const LEASE_MS = 180_000
const RENEW_MS = 30_000

/** The pause between two pages, so that the bank and the database can serve others. */
const PAUSE_MS = 50
const BACKOFF = { minMs: 30_000, maxMs: 1_920_000 }

/** How far back a run lists at most, even after a longer downtime. */
const BACK_MAX_MS = 31 * DAY_MS

/** The loop that works on due runs, one step at a time. */
export function createReconciliationJob(runtime: Runtime, options: Options): Loop {
  const turn = createReconciliationTurn(runtime, options)
  return createLoop({ name: 'reconciliation', log: runtime.log, turn })
}

/**
 * Lists the payments of a sliding window at the live banks that can list them, and records the missing ones. One
 * instance at a time works on a run; if it dies, another continues it. Accounts with payments are listed at every
 * interval, and all accounts twice in a window.
 *
 * @returns a function that does the next step of a due run; it returns undefined if no run is due
 */
export function createReconciliationTurn(
  runtime: Runtime,
  options: Options,
): (signal: AbortSignal) => Promise<number | undefined> {
  const { clock } = runtime
  const { durablePool, orm } = runtime.database
  const { times, live } = options
  const keys = times.windowMs === 0 || times.intervalMs === 0 ? [] : runsOf(live)
  let added = false
  return async (signal) => {
    if (keys.length === 0) return undefined
    const nowMs = clock.now()
    if (!added) await addRuns(orm.em.fork(), keys, nowMs)
    added = true
    const claimed = await claimRun(durablePool, keys, nowMs, nowMs + LEASE_MS)
    if (claimed === undefined) return undefined
    await work(runtime, options, claimed, signal)
    return PAUSE_MS
  }
}

function runsOf(live: ReadonlyMap<BankCode, ServedBank>): RunKey[] {
  return [...live].flatMap(([bank, { connector }]): RunKey[] => {
    if (connector.listing === 'by bank') return [{ bank, scope: 'payments' }]
    if (connector.listing === undefined) return []
    return [
      { bank, scope: 'active accounts' },
      { bank, scope: 'all accounts' },
    ]
  })
}

async function work(
  runtime: Runtime,
  options: Options,
  claimed: ClaimedRun,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = runtime
  const { orm } = runtime.database
  const { live } = options
  const { bank, scope } = claimed
  const served = live.get(bank)
  if (served === undefined) return
  const run = claimed.inProgress ? claimed : begin(runtime, options, claimed)
  const lease = { current: claimed }
  const renew = createRenew(runtime, run, lease)
  const state: RunState = { ...run, inProgress: true }
  try {
    // If this throws, the whole page is repeated, which is safe.
    const step = { run, served, signal, renew }
    const result =
      scope === 'payments'
        ? await runPage(runtime, options, step, run.cursor || undefined, undefined)
        : await runAccounts(runtime, options, step)
    const missed = state.missed + result.missed
    if (result.cursor !== undefined) {
      const continued = { ...state, cursor: result.cursor, missed, failures: 0 }
      await saveRun(orm.em.fork(), lease.current, continued, clock.now())
      return
    }
    const finished = { ...state, inProgress: false, cursor: '', missed, failures: 0 }
    const nextMs = Math.max(
      run.toMs + options.times.graceMs + everyMs(options, claimed),
      clock.now(),
    )
    if (!(await saveRun(orm.em.fork(), lease.current, finished, nextMs))) return
    options.onFinished(bank, clock.now())
    log.info({ bank, scope, missed }, 'reconciliation run finished')
  } catch (error) {
    // If this instance is stopping, another continues at once; otherwise the bank gets time to recover.
    const waitMs = signal.aborted ? 0 : backoffMs(run.failures + 1, BACKOFF)
    if (!signal.aborted) {
      log.warn({ err: error, bank, scope, waitMs }, 'reconciliation run failed; it will be retried')
    }
    const failed = { ...state, failures: run.failures + 1 }
    await saveRun(orm.em.fork(), lease.current, failed, clock.now() + waitMs)
  }
}

/** Begins the period of a run before the end of the last period, so that downtime leaves no gap. */
function begin({ clock, log }: Runtime, { times }: Options, last: ClaimedRun): ClaimedRun {
  const nowMs = clock.now()
  const toMs = nowMs - times.graceMs
  const wantedMs = Math.min(nowMs - times.windowMs, last.toMs)
  const fromMs = Math.max(wantedMs, nowMs - BACK_MAX_MS)
  if (wantedMs < fromMs) {
    const { bank, scope } = last
    const skipped = { from: new Date(wantedMs).toISOString(), to: new Date(fromMs).toISOString() }
    const text = 'payments of this period are not looked for: compare the statement of the bank'
    log.error({ bank, scope, ...skipped }, text)
  }
  return { ...last, fromMs, toMs: Math.max(toMs, fromMs), cursor: '', missed: 0 }
}

function everyMs({ times }: Options, { scope }: RunKey): number {
  const { intervalMs, windowMs } = times
  return scope === 'all accounts' ? Math.max(intervalMs, windowMs / 2) : intervalMs
}

/** Extends the lease if its last renewal was half a minute ago or more. */
function createRenew(
  { database: { orm }, clock }: Runtime,
  state: RunState,
  lease: { current: ClaimedRun },
): () => Promise<void> {
  let renewal: Promise<void> | undefined
  const renew = async () => {
    const leaseMs = clock.now() + LEASE_MS
    if (!(await saveRun(orm.em.fork(), lease.current, { ...state, inProgress: true }, leaseMs))) {
      throw new Error('another instance has taken over the run')
    }
    lease.current = { ...lease.current, leaseMs }
  }
  return async () => {
    if (lease.current.leaseMs - clock.now() > LEASE_MS - RENEW_MS) return
    renewal ??= renew().finally(() => {
      renewal = undefined
    })
    await renewal
  }
}

/** One step of a run: a page of the bank's list, or some of its accounts. */
interface RunStep {
  readonly run: ClaimedRun
  readonly served: ServedBank
  /** Aborts the request in progress when the service stops. */
  readonly signal: AbortSignal
  /** Extends the claim of this instance. @throws if another instance has taken over */
  readonly renew: () => Promise<void>
}

interface PageResult {
  readonly missed: number
  /** Where the next page begins; undefined when the run is finished. */
  readonly cursor: string | undefined
}

/** How many accounts a step covers, and how many of them are listed concurrently. */
const ACCOUNTS_MAX = 32

const ACCOUNTS_CONCURRENCY = 8

/** No account has so many payments in a period: a bank that repeats pages must not loop forever. */
const PAGES_MAX = 1_000

/** How often a step fails before its failing accounts are skipped. */
const FAILURES_MAX = 3

/** A list takes longer than other calls. */
const LIST_TIMEOUT_MS_MIN = 20_000

async function runAccounts(
  runtime: Runtime,
  dependencies: RecordMissingDependencies,
  step: RunStep,
): Promise<PageResult> {
  const { bank, scope, cursor: afterId, fromMs } = step.run
  const paidSinceMs = scope === 'active accounts' ? fromMs : undefined
  const request = { bank, afterId, paidSinceMs, limit: ACCOUNTS_MAX }
  const { accounts, cursor } = await listAccountsPage(runtime.database, request)
  const skipsFailing = step.run.failures >= FAILURES_MAX
  let missed = 0
  const failed: { readonly account: AccountAtBank; readonly error: unknown }[] = []
  for (let at = 0; at < accounts.length; at += ACCOUNTS_CONCURRENCY) {
    const some = accounts.slice(at, at + ACCOUNTS_CONCURRENCY)
    // Waits for all accounts, so that none is still in progress when the claim is released after a failure.
    const counts = await Promise.allSettled(
      some.map((account) => runAccount(runtime, dependencies, step, account)),
    )
    for (const [index, count] of counts.entries()) {
      if (count.status === 'fulfilled') missed += count.value
      else failed.push({ account: some[index] as AccountAtBank, error: count.reason })
    }
    if (failed.length > 0 && !skipsFailing) throw failed[0]?.error
  }
  const isUnavailable = isBankUnavailable(
    failed.map(({ error }) => error),
    accounts.length,
  )
  if (failed.length > 0 && (isUnavailable || step.signal.aborted)) throw failed[0]?.error
  for (const { account, error } of failed) {
    const context = { err: error, bank, accountNumber: account.accountNumber }
    runtime.log.warn(context, 'the payments of an account could not be listed; skipped')
  }
  return { missed, cursor }
}

/** Accounts of an unavailable bank are never skipped: no later run would cover their payments. */
function isBankUnavailable(errors: readonly unknown[], accounts: number): boolean {
  // A request that was not sent says nothing about the account.
  if (errors.some((error) => error instanceof BankUnreachableError && !error.sent)) return true
  return errors.length === accounts && !errors.some((error) => error instanceof NotListedError)
}

async function runAccount(
  runtime: Runtime,
  dependencies: RecordMissingDependencies,
  step: RunStep,
  account: AccountAtBank,
): Promise<number> {
  let missed = 0
  let page: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const result = await runPage(runtime, dependencies, step, page, account)
    missed += result.missed
    if (result.cursor === undefined) return missed
    page = result.cursor
  }
  throw new NotListedError(`the list of account ${account.accountNumber} does not end`)
}

async function runPage(
  runtime: Runtime,
  dependencies: RecordMissingDependencies,
  { run, served, signal, renew }: RunStep,
  page: string | undefined,
  account: AccountAtBank | undefined,
): Promise<PageResult> {
  await renew()
  const { fromMs, toMs } = run
  const timeoutMs = Math.max(served.callTimeoutMs, LIST_TIMEOUT_MS_MIN)
  const timed = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  const span = runtime.tracing?.start(`list payments ${run.bank}`, {
    kind: 'client',
    attributes: { 'inflow.bank': run.bank },
  })
  const listed = await inSpan(span, async () =>
    served.connector.listPayments?.({ fromMs, toMs, page, account }, timed),
  )
  if (listed === undefined) return { missed: 0, cursor: undefined }
  const missed = await recordMissing(runtime, dependencies, run.bank, served, listed)
  return { missed, cursor: listed.next }
}

interface AccountsRequest {
  readonly bank: BankCode
  /** The last account of the page before; empty at the beginning. */
  readonly afterId: string
  /** Only accounts with a payment since then; undefined: all. */
  readonly paidSinceMs: number | undefined
  readonly limit: number
}

interface AccountsPage {
  readonly accounts: readonly AccountAtBank[]
  /** Where the next page begins; undefined at the end. */
  readonly cursor: string | undefined
}

/** How many accounts one statement reads, whether or not they have payments. */
const SCANNED_MAX = 2_000

/** Lists the open accounts that the real bank opened. It does not know accounts of the sandbox. */
export async function listAccountsPage(
  { durablePool, orm }: Pick<Database, 'durablePool' | 'orm'>,
  { bank, afterId, paidSinceMs, limit }: AccountsRequest,
): Promise<AccountsPage> {
  const scannedMax = paidSinceMs === undefined ? limit : SCANNED_MAX
  const scanned = await listOpenAccounts(orm.em.fork(), bank, afterId, scannedMax)
  const ids = scanned.map(({ id }) => id)
  const paid =
    paidSinceMs === undefined ? undefined : await findPaidAccounts(durablePool, ids, paidSinceMs)
  const requested = scanned.filter(({ id }) => paid?.has(id) ?? true)
  const accounts = requested.slice(0, limit)
  const last = requested.length > limit ? accounts.at(-1) : scanned.at(-1)
  const more = requested.length > limit || scanned.length === scannedMax
  return { accounts, cursor: more ? last?.id : undefined }
}
