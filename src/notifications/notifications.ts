import type { Acknowledgement, BankCode, BankNotification } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { isWithin } from '../core/addresses.ts'
import { DAY_MS } from '../core/durations.ts'
import { createLoop } from '../core/loop.ts'
import type { ObserveBatches } from '../postgres/batcher.ts'
import type { Runtime } from '../postgres/runtime.ts'
import {
  createReceiveNotification,
  createRetryNotifications,
  type ReceiveDependencies,
} from './receive-notification.ts'
import { createFinishProcessing, createStoreNotification, deleteOldNotifications } from './store.ts'

interface Options
  extends Omit<ReceiveDependencies, 'observe' | 'storeNotification' | 'finishProcessing'> {
  readonly live: ReadonlyMap<BankCode, ServedBank>
  readonly observeBatches?: ObserveBatches
  /** How long raw notifications are stored. */
  readonly retentionDays: number
  /** Called with the outcome of each notification; `REFUSED` if its address is not allowed. */
  readonly observe: (bank: BankCode, outcome: string) => void
}

const ROWS_MAX = 1_000
const DELETE_EVERY_MS = 600_000

/** Receives the notifications of live banks. */
export function createNotifications(runtime: Runtime, options: Options) {
  const { durablePool, relaxedPool } = runtime.database
  const { live, observe, observeBatches } = options
  const dependencies: ReceiveDependencies = {
    ...options,
    storeNotification: createStoreNotification(durablePool, observeBatches),
    finishProcessing: createFinishProcessing(relaxedPool, observeBatches),
  }
  const receive = createReceiveNotification(runtime, dependencies)
  const loops = live.size > 0 ? [createRetryNotifications(runtime, dependencies, live)] : []
  const jobs = [...loops, createRetention(runtime, options)]
  const allowed = new Map(
    [...live].map(([code, { allowedCidrs }]) => [
      code,
      allowedCidrs.length > 0 ? isWithin(allowedCidrs) : () => true,
    ]),
  )
  return {
    /** @returns undefined if no bank has this name, or the bank is not live */
    bankOf: (pathName: string): BankCode | undefined =>
      [...live.keys()].find((code) => code === pathName.toUpperCase()),
    /** Whether the bank may send notifications from this address. */
    allows(bank: BankCode, address: string): boolean {
      const allows = allowed.get(bank)?.(address) ?? true
      if (!allows) observe(bank, 'REFUSED')
      return allows
    },
    /** Processes a notification and returns the response in the bank's format. Never throws. */
    receive(bank: BankCode, notification: BankNotification): Promise<Acknowledgement> {
      const served = live.get(bank)
      if (served === undefined) throw new Error(`${bank} is not live`)
      return receive(bank, served, notification)
    },
    start() {
      for (const job of jobs) job.start()
    },
    stop: async () => void (await Promise.all(jobs.map((job) => job.stop()))),
  }
}

/** Deletes old processed notifications in batches. Keeps pending notifications and notifications in manual review. */
function createRetention(
  { database: { orm }, safeClock, log }: Runtime,
  { retentionDays }: Options,
) {
  return createLoop({
    name: 'notification retention',
    log,
    everyMs: DELETE_EVERY_MS,
    async turn() {
      const beforeMs = safeClock.now() - retentionDays * DAY_MS
      const deleted = await deleteOldNotifications(orm.em.fork(), beforeMs, ROWS_MAX)
      return deleted === ROWS_MAX ? 0 : undefined
    },
  })
}
