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

/** When live banks are asked for payments that their notifications did not tell of. */
export interface ReconcileTimes {
  /** How far back a pass looks; 0: there are none. */
  readonly windowMs: number
  /** From the beginning of one pass to that of the next; 0: there are none. */
  readonly intervalMs: number
  /** What is younger is left to its notification. */
  readonly graceMs: number
}

interface Options extends RecordMissingDependencies {
  readonly live: ReadonlyMap<BankCode, ServedBank>
  readonly times: ReconcileTimes
  /** Told of each pass that came to its end. */
  readonly finished: (bank: BankCode, atMs: number) => void
}

/** For how long a pass is this instance's after it last said so; a page takes less. */
const LEASE_MS = 180_000
const RENEW_MS = 30_000

/** Between two portions, so that banks and database have room for others. */
const PAUSE_MS = 50
const BACKOFF = { minMs: 30_000, maxMs: 1_920_000 }

/** However long the service was away, it does not ask for what is older. */
const BACK_MAX_MS = 31 * 86_400_000

/**
 * Asks the live banks that can list, again and again, for the payments of a sliding window, and
 * records what was missed. One instance at a time works on a pass; another one goes on where it
 * died. All accounts are asked for twice in a window, and those with payments at every interval.
 */
export function createReconciliationJob(options: Options): Loop {
  const { pool, clock, log, times, live } = options
  const keys = times.windowMs === 0 || times.intervalMs === 0 ? [] : passesOf(live)
  let added = false
  return createLoop({
    name: 'reconciliation',
    log,
    async turn(signal) {
      if (keys.length === 0) return undefined
      const nowMs = clock.now()
      if (!added) await addRuns(pool, keys, nowMs)
      added = true
      const claimed = await claimRun(pool, keys, nowMs, nowMs + LEASE_MS)
      if (claimed === undefined) return undefined
      await work(options, claimed, signal)
      return PAUSE_MS
    },
  })
}

function passesOf(live: ReadonlyMap<BankCode, ServedBank>): RunKey[] {
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
  const { pool, clock, log, live } = options
  const { bank, scope } = claimed
  const served = live.get(bank)
  if (served === undefined) return
  const begun = claimed.underWay ? claimed : begin(options, claimed)
  let lease = claimed
  const renew = createRenew(
    options,
    begun,
    () => lease,
    (renewed) => {
      lease = renewed
    },
  )
  const state: RunState = { ...begun, underWay: true }
  try {
    const result = await runReconciliationPage(options, { pass: begun, served, signal, renew })
    const missed = state.missed + result.missed
    if (result.place !== undefined) {
      await saveRun(
        pool,
        lease,
        { ...state, place: result.place, missed, failures: 0 },
        clock.now(),
      )
      return
    }
    const done = { ...state, underWay: false, place: '', missed, failures: 0 }
    const nextMs = Math.max(
      begun.toMs + options.times.graceMs + everyMs(options, claimed),
      clock.now(),
    )
    if (!(await saveRun(pool, lease, done, nextMs))) return
    options.finished(bank, clock.now())
    log.info({ bank, scope, missed }, 'asked the bank for missed payments')
  } catch (error) {
    // On stopping another instance goes on at once; else the bank is given time.
    const waitMs = signal.aborted ? 0 : backoffMs(begun.failures + 1, BACKOFF)
    if (!signal.aborted) {
      log.warn({ err: error, bank, scope, waitMs }, 'asking the bank for missed payments failed')
    }
    await saveRun(pool, lease, { ...state, failures: begun.failures + 1 }, clock.now() + waitMs)
  }
}

/** A new pass, from before where the last one ended, so that being away leaves no hole. */
function begin({ clock, times }: Options, last: ClaimedRun): ClaimedRun {
  const nowMs = clock.now()
  const toMs = nowMs - times.graceMs
  const fromMs = Math.max(Math.min(nowMs - times.windowMs, last.toMs), nowMs - BACK_MAX_MS)
  return { ...last, fromMs, toMs: Math.max(toMs, fromMs), place: '', missed: 0 }
}

function everyMs({ times }: Options, { scope }: RunKey): number {
  const { intervalMs, windowMs } = times
  return scope === 'all accounts' ? Math.max(intervalMs, windowMs / 2) : intervalMs
}

/** Makes the claim last, when half a minute has passed since it was last made to. */
function createRenew(
  { pool, clock }: Options,
  state: RunState,
  current: () => ClaimedRun,
  renewed: (lease: ClaimedRun) => void,
): () => Promise<void> {
  let renewal: Promise<void> | undefined
  const renew = async () => {
    const lease = current()
    const leaseMs = clock.now() + LEASE_MS
    if (!(await saveRun(pool, lease, { ...state, underWay: true }, leaseMs))) {
      throw new Error('another instance has taken the pass over')
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
