import type { BankCode } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { failedProcessing, look } from './process-notification.ts'
import { decryptNotification } from './raw-notification.ts'
import type { ReceiveDependencies } from './receive-notification.ts'
import { claimDueNotifications, type DueNotification, finishProcessing } from './store.ts'

/** How many notifications one turn looks at, all of them at once. */
const NOTIFICATIONS_MAX = 16

/** For how long the ones of a turn are this instance's. */
const LEASE_MS = 60_000

const IDLE_MS = 1_000

/**
 * Looks again at notifications that could not be served when they came: a bank gives up repeating
 * one after a while, and the money is there all the same.
 */
export function createRetryNotifications(
  dependencies: ReceiveDependencies,
  live: ReadonlyMap<BankCode, ServedBank>,
): Loop {
  const { pool, clock, log } = dependencies
  const banks = [...live.keys()]
  return createLoop({
    name: 'bank notifications',
    log,
    async turn() {
      const nowMs = clock.now()
      const untilMs = nowMs + LEASE_MS
      const due = await claimDueNotifications(pool, banks, nowMs, untilMs, NOTIFICATIONS_MAX)
      await Promise.all(due.map((kept) => retryNotifications(dependencies, live, kept)))
      return due.length === NOTIFICATIONS_MAX ? 0 : IDLE_MS
    },
  })
}

async function retryNotifications(
  dependencies: ReceiveDependencies,
  live: ReadonlyMap<BankCode, ServedBank>,
  { id, bank, sealed, receivedAtMs, tries }: DueNotification,
): Promise<void> {
  const { pool, clock, log, encrypter } = dependencies
  const served = live.get(bank)
  if (served === undefined) return
  try {
    const reading = served.connector.read(decryptNotification(encrypter, id, sealed))
    // It was authentic when it came; the bank's credentials have been changed since.
    const again = reading.kind === 'unauthenticated' ? held(reading.cause) : reading
    const looked = await look(dependencies, { bank, served, reading: again, receivedAtMs, tries })
    await finishProcessing(pool, id, looked)
    const { outcome, cause } = looked
    log.info(
      { bank, id, outcome, ...(cause !== '' && { cause }) },
      'looked again at a notification',
    )
  } catch (error) {
    log.error({ err: error, bank, id }, 'looking again at a notification failed')
    // Should this fail too, its lease says when it is looked at again.
    await finishProcessing(pool, id, failedProcessing(tries, clock.now())).catch(() => undefined)
  }
}

function held(cause: string) {
  return { kind: 'malformed', cause: `no longer authentic: ${cause}` } as const
}
