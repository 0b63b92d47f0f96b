import type { BankCode } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { backoffMs } from '../core/backoff.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { RecordMissingDependencies } from './record-missing.ts'
import { runReconciliationPage } from './run-page.ts'
import {
  addRuns,
  type ClaimedRun,
  claimRun,
  type RunKey,
  type RunState,
  saveRun,
} from './run-store.ts'

/** When to search live banks for payments that their notifications did not report. */
export interface ReconcileTimes {
  /** How far back a run searches; 0 disables runs. */
  readonly windowMs: number
  /** From the start of one run to that of the next; 0 disables runs. */
  readonly intervalMs: number
  /** Younger payments are left to their notification. */
  readonly graceMs: number
}

interface Options extends RecordMissingDependencies {
  readonly live: ReadonlyMap<BankCode, ServedBank>
  readonly times: ReconcileTimes
  /** Called when a run finishes. */
  readonly onFinished: (bank: BankCode, atMs: number) => void
}

/** How long this instance owns a run after a renewal; a page takes less. */
const LEASE_MS = 180_000
const RENEW_MS = 30_000

/** Between two pages, so that banks and database have capacity for others. */
const PAUSE_MS = 50
const BACKOFF = { minMs: 30_000, maxMs: 1_920_000 }

/** However long the service was down, it does not list older payments. */
const BACK_MAX_MS = 31 * 86_400_000

/**
 * Periodically lists the payments of a sliding window at the live banks that can list them, and
 * records those that were missed. One instance at a time works on a run; if it dies, another continues
 * it. Lists all accounts twice in a window, and those with payments at every interval.
 */
export function createReconciliationJob(options: Options): Loop {
  const { pool, orm, clock, log, times, live } = options
  const keys = times.windowMs === 0 || times.intervalMs === 0 ? [] : runsOf(live)
  let added = false
  return createLoop({
    name: 'reconciliation',
    log,
    async turn(signal) {
      if (keys.length === 0) return undefined
      const nowMs = clock.now()
      if (!added) await addRuns(orm.em.fork(), keys, nowMs)
      added = true
      const claimed = await claimRun(pool, keys, nowMs, nowMs + LEASE_MS)
      if (claimed === undefined) return undefined
      await work(options, claimed, signal)
      return PAUSE_MS
    },
  })
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

async function work(options: Options, claimed: ClaimedRun, signal: AbortSignal): Promise<void> {
  const { orm, clock, log, live } = options
  const { bank, scope } = claimed
  const served = live.get(bank)
  if (served === undefined) return
  const run = claimed.inProgress ? claimed : begin(options, claimed)
  let lease = claimed
  const renew = createRenew(
    options,
    run,
    () => lease,
    (renewed) => {
      lease = renewed
    },
  )
  const state: RunState = { ...run, inProgress: true }
  try {
    const result = await runReconciliationPage(options, { run, served, signal, renew })
    const missed = state.missed + result.missed
    if (result.cursor !== undefined) {
      const continued = { ...state, cursor: result.cursor, missed, failures: 0 }
      await saveRun(orm.em.fork(), lease, continued, clock.now())
      return
    }
    const finished = { ...state, inProgress: false, cursor: '', missed, failures: 0 }
    const nextMs = Math.max(
      run.toMs + options.times.graceMs + everyMs(options, claimed),
      clock.now(),
    )
    if (!(await saveRun(orm.em.fork(), lease, finished, nextMs))) return
    options.onFinished(bank, clock.now())
    log.info({ bank, scope, missed }, 'reconciliation run finished')
  } catch (error) {
    // If this instance is stopping, another continues at once; otherwise the bank gets time to recover.
    const waitMs = signal.aborted ? 0 : backoffMs(run.failures + 1, BACKOFF)
    if (!signal.aborted) {
      log.warn({ err: error, bank, scope, waitMs }, 'reconciliation run failed; it will be retried')
    }
    await saveRun(
      orm.em.fork(),
      lease,
      { ...state, failures: run.failures + 1 },
      clock.now() + waitMs,
    )
  }
}

/** Begins a run before the end of the last one, so that downtime leaves no gap. */
function begin({ clock, times }: Options, last: ClaimedRun): ClaimedRun {
  const nowMs = clock.now()
  const toMs = nowMs - times.graceMs
  const fromMs = Math.max(Math.min(nowMs - times.windowMs, last.toMs), nowMs - BACK_MAX_MS)
  return { ...last, fromMs, toMs: Math.max(toMs, fromMs), cursor: '', missed: 0 }
}

function everyMs({ times }: Options, { scope }: RunKey): number {
  const { intervalMs, windowMs } = times
  return scope === 'all accounts' ? Math.max(intervalMs, windowMs / 2) : intervalMs
}

/** Extends the lease if its last renewal is half a minute ago or more. */
function createRenew(
  { orm, clock }: Options,
  state: RunState,
  current: () => ClaimedRun,
  renewed: (lease: ClaimedRun) => void,
): () => Promise<void> {
  let renewal: Promise<void> | undefined
  const renew = async () => {
    const lease = current()
    const leaseMs = clock.now() + LEASE_MS
    if (!(await saveRun(orm.em.fork(), lease, { ...state, inProgress: true }, leaseMs))) {
      throw new Error('another instance has taken over the run')
    }
    renewed({ ...lease, leaseMs })
  }
  return async () => {
    if (current().leaseMs - clock.now() > LEASE_MS - RENEW_MS) return
    renewal ??= renew().finally(() => {
      renewal = undefined
    })
    await renewal
  }
}
