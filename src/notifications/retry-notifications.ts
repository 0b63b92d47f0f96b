import type { BankCode } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { inSpan } from '../tracing/tracing.ts'
import { withHeldEvent } from './message.ts'
import { failedProcessing, processNotification } from './process-notification.ts'
import { decryptNotification } from './raw-notification.ts'
import { processingLeaseMs, type ReceiveDependencies } from './receive-notification.ts'
import { claimDueNotifications, type DueNotification } from './store.ts'
import { traceRetry } from './trace-notification.ts'

/** How many notifications one turn processes, all of them concurrently. */
const NOTIFICATIONS_MAX = 16

const IDLE_MS = 1_000

/**
 * Retries notifications that could not be processed when they arrived: a bank stops repeating one
 * after a while, although the money has arrived.
 */
export function createRetryNotifications(
  dependencies: ReceiveDependencies,
  live: ReadonlyMap<BankCode, ServedBank>,
): Loop {
  const { pool, clock, log } = dependencies
  const banks = [...live.keys()]
  // One statement claims the notifications of all banks, so for as long as the slowest bank may take.
  const leaseMs = Math.max(...[...live.values()].map(processingLeaseMs))
  return createLoop({
    name: 'bank notifications',
    log,
    async turn() {
      const nowMs = clock.now()
      const untilMs = nowMs + leaseMs
      const due = await claimDueNotifications(pool, banks, nowMs, untilMs, NOTIFICATIONS_MAX)
      await Promise.all(due.map((stored) => retryNotification(dependencies, live, stored)))
      return due.length === NOTIFICATIONS_MAX ? 0 : IDLE_MS
    },
  })
}

async function retryNotification(
  dependencies: ReceiveDependencies,
  live: ReadonlyMap<BankCode, ServedBank>,
  stored: DueNotification,
): Promise<void> {
  const { clock, log, encrypter, finishProcessing } = dependencies
  const { id, bank, rawEncrypted, receivedAtMs, tries } = stored
  const { accountNumber, sessionId, amountMinor } = stored
  const served = live.get(bank)
  if (served === undefined) return
  try {
    const raw = decryptNotification(encrypter, id, rawEncrypted)
    const read = served.connector.read(raw)
    // It was authentic on arrival; the bank's credentials have been changed since.
    const reading = read.kind === 'unauthenticated' ? noLongerAuthentic(read.cause) : read
    const recordedBy = 'notification'
    const authentic = { bank, served, reading, receivedAtMs, recordedBy, tries } as const
    const traced = { ...authentic, ...traceRetry(dependencies.tracing, bank, raw) }
    const processed = await inSpan(
      traced.span,
      () => processNotification(dependencies, traced),
      ({ outcome }) => (outcome === 'RETRY' ? outcome : undefined),
    )
    const facts = { id, bank, receivedAtMs, accountNumber, sessionId, amountMinor }
    await finishProcessing(id, withHeldEvent(processed, facts, tries + 1, clock.now()))
    const { state, outcome, cause } = processed
    const line = { bank, id, outcome, ...(cause !== '' && { cause }) }
    const text = 'notification held for manual review: see inflow notification show'
    if (state === 'MANUAL_REVIEW') log.warn({ ...line, accountNumber, sessionId }, text)
    else log.info(line, 'notification retried')
  } catch (error) {
    log.error({ err: error, bank, id }, 'retrying a notification failed')
    // If this fails too, the notification is retried when its lease ends.
    await finishProcessing(id, failedProcessing(stored, clock.now())).catch(() => undefined)
  }
}

function noLongerAuthentic(cause: string) {
  return { kind: 'malformed', cause: `no longer authentic: ${cause}` } as const
}
