import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import type {
  Acknowledgement,
  BankCode,
  BankNotification,
  NotificationOutcome,
  Reading,
} from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { newId } from '../core/ids.ts'
import { withTimeout } from '../core/with-timeout.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import {
  failedProcessing,
  look,
  type Notified,
  type ProcessDependencies,
} from './process-notification.ts'
import { encryptNotification } from './raw-notification.ts'
import { finishProcessing, type KeptNotification, keepNotification } from './store.ts'

/** How long a bank waits for the answer at the most; what is not done then goes on behind it. */
const ANSWER_MS = 20_000

/** Beyond so many at once, banks are told to try again: a database that hangs must not fill memory. */
const UNDER_WAY_MAX = 1_024

/** Beyond this a process that looks at a notification is taken for dead. */
const LOOK_MS = 60_000

export interface ReceiveDependencies extends ProcessDependencies {
  readonly encrypter: Encrypter
  readonly log: Logger
  /** Told what became of each notification. */
  readonly observe: (bank: BankCode, outcome: NotificationOutcome) => void
}

/** Serves one notification, and answers in the words of its bank. It does not throw. */
export type ReceiveNotification = (
  bank: BankCode,
  served: ServedBank,
  notification: BankNotification,
) => Promise<Acknowledgement>

/**
 * Reads a notification, keeps it, does what it asks for, and only then acknowledges it. Whatever
 * goes wrong here, the bank is told to try again, and never that its payment is refused.
 */
export function createReceiveNotification(dependencies: ReceiveDependencies): ReceiveNotification {
  const told = createSparseLog(dependencies)
  let underWay = 0
  const serveWithin = async (...of: Parameters<typeof serve>): Promise<NotificationOutcome> => {
    if (underWay >= UNDER_WAY_MAX) return 'try again'
    underWay += 1
    const serving = serve(...of).finally(() => {
      underWay -= 1
    })
    return serveInTime(dependencies, of[1], serving)
  }
  return async (bank, served, notification) => {
    const outcome = await serveWithin(dependencies, bank, served, notification)
    dependencies.observe(bank, outcome)
    if (outcome === 'forged') told(bank)
    return acknowledge(dependencies, bank, served, outcome, notification)
  }
}

async function serveInTime(
  { log }: ReceiveDependencies,
  bank: BankCode,
  served: Promise<NotificationOutcome>,
): Promise<NotificationOutcome> {
  const serving = served.catch((error: unknown): NotificationOutcome => {
    const text = 'serving a notification failed; the bank is told to try again'
    log.error({ err: error, bank }, text)
    return 'try again'
  })
  if (await withTimeout(serving, ANSWER_MS)) return serving
  log.warn({ bank }, 'a notification takes long; the bank is told to try again')
  return 'try again'
}

async function serve(
  dependencies: ReceiveDependencies,
  bank: BankCode,
  served: ServedBank,
  notification: BankNotification,
): Promise<NotificationOutcome> {
  const { pool, clock, log } = dependencies
  const reading = served.connector.read(notification)
  if (reading.kind === 'unauthenticated') return 'forged'
  const receivedAtMs = clock.now()
  const kept = await keep(dependencies, bank, notification, reading, receivedAtMs)
  // What is settled is settled. A payment that the bank denied may be known to it by now.
  if (kept.state === 'DONE' && kept.outcome !== 'denied') return repeatOf(kept.outcome)
  const notified: Notified = { bank, served, reading, receivedAtMs, tries: kept.tries }
  const looked = await look(dependencies, notified).catch((error: unknown) => {
    log.error({ err: error, bank, id: kept.id }, 'looking at a notification failed')
    return failedProcessing(kept.tries, clock.now())
  })
  await finishProcessing(pool, kept.id, looked)
  const { state, outcome, cause } = looked
  const line = { bank, id: kept.id, outcome, ...(cause !== '' && { cause }) }
  if (state === 'HELD') log.warn(line, 'a notification needs a person')
  else log.info(line, 'a notification was served')
  return outcome
}

function keep(
  { pool, encrypter }: ReceiveDependencies,
  bank: BankCode,
  notification: BankNotification,
  reading: Exclude<Reading, { kind: 'unauthenticated' }>,
  nowMs: number,
): Promise<KeptNotification> {
  const id = newId('ntf', nowMs)
  return keepNotification(pool, {
    id,
    bank,
    bodyDigest: hash('sha256', notification.rawBody, 'buffer'),
    receivedAtMs: nowMs,
    sealed: encryptNotification(encrypter, id, notification),
    bankKey: 'payment' in reading ? reading.payment.bankKey.slice(0, 200).replaceAll('\0', '') : '',
    nextTryAtMs: nowMs + LOOK_MS,
  })
}

function repeatOf(outcome: NotificationOutcome): NotificationOutcome {
  return outcome === 'recorded' ? 'duplicate' : outcome
}

function acknowledge(
  { log }: ReceiveDependencies,
  bank: BankCode,
  { connector }: ServedBank,
  outcome: NotificationOutcome,
  notification: BankNotification,
): Acknowledgement {
  try {
    return connector.acknowledge(outcome, notification)
  } catch (error) {
    log.error({ err: error, bank, outcome }, 'wording the answer to a notification failed')
    return { status: 500, contentType: 'text/plain', body: 'try again' }
  }
}

const LINES_MAX = 10
const LINES_EVERY_MS = 60_000

/** Anybody can send forgeries: they are told of a few times a minute, and counted. */
function createSparseLog({ log, clock }: ReceiveDependencies): (bank: BankCode) => void {
  let sinceMs = 0
  let count = 0
  return (bank) => {
    if (clock.now() >= sinceMs + LINES_EVERY_MS) {
      if (count > LINES_MAX) log.warn({ count }, 'forged notifications in the last minute')
      sinceMs = clock.now()
      count = 0
    }
    count += 1
    if (count <= LINES_MAX) log.warn({ bank }, 'a notification is not authentic')
  }
}
