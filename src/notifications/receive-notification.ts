import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import type {
  Acknowledgement,
  BankCode,
  BankNotification,
  BankPayment,
  NotificationOutcome,
  Reading,
} from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { withTimeout } from '../core/concurrency.ts'
import { newId } from '../core/ids.ts'
import { createLogSampler } from '../core/log-sampler.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { AMOUNT_MINOR_MAX } from '../core/money.ts'
import {
  currentRequest,
  inRequest,
  inSpan,
  type PaymentTrace,
  parseTraceparent,
  paymentTraceOf,
  type Tracing,
} from '../core/tracing.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { withHeldEvent } from './message.ts'
import {
  failedProcessing,
  type ProcessDependencies,
  processNotification,
} from './process-notification.ts'
import {
  decryptNotification,
  encryptNotification,
  listedBody,
  listedPayment,
} from './raw-notification.ts'
import {
  claimDueNotifications,
  type DueNotification,
  type FinishProcessing,
  finishNotifications,
  insertListed,
  type Processed,
  type StoredNotification,
  type StoreNotification,
} from './store.ts'

/** The longest time before a bank gets a response; processing continues after that. */
const RESPONSE_TIMEOUT_MS = 20_000

/**
 * Beyond this number, a bank is asked to retry, so that notifications cannot fill the memory while the database hangs, and a
 * bank that responds slowly to requeries delays no other.
 */
const IN_PROGRESS_MAX = 256

/** How long processing may take in addition to the call to the bank. */
const PROCESSING_MS = 40_000

/** After this, a process that is processing a notification is considered dead. */
function processingLeaseMs({ callTimeoutMs }: Pick<ServedBank, 'callTimeoutMs'>): number {
  return callTimeoutMs + PROCESSING_MS
}

export interface ReceiveDependencies extends ProcessDependencies {
  readonly storeNotification: StoreNotification
  readonly finishProcessing: FinishProcessing
  readonly encrypter: Encrypter
  readonly observe: (bank: BankCode, outcome: NotificationOutcome) => void
}

/** Processes a notification and returns the response in the bank's format. Never throws. */
type ReceiveNotification = (
  bank: BankCode,
  served: ServedBank,
  notification: BankNotification,
) => Promise<Acknowledgement>

/**
 * Reads a notification, stores it, processes it, and only then acknowledges it. For any failure here
 * the response asks the bank to retry; it never says that the payment is rejected.
 */
export function createReceiveNotification(
  runtime: Runtime,
  dependencies: ReceiveDependencies,
): ReceiveNotification {
  // Sampled, because any caller can send forged notifications.
  const warnUnauthenticated = createLogSampler({
    log: runtime.log,
    level: 'warn',
    text: 'notification is not authentic',
    by: 'bank',
    linesMax: 10,
    totalMax: 40,
    windowMs: 60_000,
  })
  const inProgress = new Map<BankCode, number>()
  const add = (bank: BankCode, change: 1 | -1) =>
    void inProgress.set(bank, (inProgress.get(bank) ?? 0) + change)
  const serveLimited = async (
    bank: BankCode,
    served: ServedBank,
    notification: BankNotification,
    trace: PaymentTrace,
  ): Promise<NotificationOutcome> => {
    if ((inProgress.get(bank) ?? 0) >= IN_PROGRESS_MAX) return 'RETRY'
    add(bank, 1)
    const serving = serve(runtime, dependencies, bank, served, notification, trace).finally(() =>
      add(bank, -1),
    )
    return serveWithTimeout(runtime, bank, serving)
  }
  return async (bank, served, notification) => {
    const trace = traceNotification(runtime.tracing, bank, notification)
    const outcome = await inTrace(trace, () => serveLimited(bank, served, notification, trace))
    dependencies.observe(bank, outcome)
    if (outcome === 'UNAUTHENTICATED') warnUnauthenticated(bank, {})
    const acknowledgement = acknowledge(runtime, bank, served, outcome, notification)
    endReceipt(trace, outcome, acknowledgement)
    return acknowledgement
  }
}

async function serveWithTimeout(
  { log }: Runtime,
  bank: BankCode,
  outcome: Promise<NotificationOutcome>,
): Promise<NotificationOutcome> {
  const serving = outcome.catch((error: unknown): NotificationOutcome => {
    const text = 'receiving a notification failed; the response asks the bank to retry'
    log.error({ err: error, bank }, text)
    return 'RETRY'
  })
  if (await withTimeout(serving, RESPONSE_TIMEOUT_MS)) return serving
  log.warn({ bank }, 'processing a notification takes long; the response asks the bank to retry')
  return 'RETRY'
}

async function serve(
  runtime: Runtime,
  dependencies: ReceiveDependencies,
  bank: BankCode,
  served: ServedBank,
  notification: BankNotification,
  trace: PaymentTrace,
): Promise<NotificationOutcome> {
  const { clock, log } = runtime
  const { finishProcessing } = dependencies
  const reading = served.connector.read(notification)
  if (reading.kind === 'unauthenticated') return 'UNAUTHENTICATED'
  const receivedAtMs = clock.now()
  const received = { notification: withTrace(notification, trace), reading, receivedAtMs }
  const storing = trace.span?.child('store notification')
  const stored = await inSpan(storing, () => store(dependencies, bank, served, received))
  // A processed notification stays processed, except that the bank may by now confirm an unconfirmed payment.
  if (stored.state === 'PROCESSED' && stored.outcome !== 'UNCONFIRMED') {
    return stored.outcome === 'RECORDED' ? 'DUPLICATE' : stored.outcome
  }
  const { id, tries } = stored
  const recordedBy = 'notification'
  const authentic = { bank, served, reading, receivedAtMs, recordedBy, tries, ...trace } as const
  const processed = await processNotification(runtime, dependencies, authentic).catch(
    (error: unknown) => {
      log.error({ err: error, bank, id }, 'processing a notification failed')
      return failedProcessing(authentic, clock.now())
    },
  )
  // The payment is committed, so the notification is acknowledged even if its result is not stored: it is then still
  // pending, and is processed again.
  const facts = { id, bank, receivedAtMs, ...reportedFacts(reading) }
  const held = withHeldEvent(processed, facts, tries + 1, clock.now())
  await finishProcessing(id, held).catch((error: unknown) => {
    log.error({ err: error, bank, id }, 'the result of a notification could not be stored')
  })
  logProcessed(log, facts, processed, 'received')
  return processed.outcome
}

function logProcessed(
  log: Logger,
  {
    id,
    bank,
    accountNumber,
    sessionId,
  }: Pick<DueNotification, 'id' | 'bank' | 'accountNumber' | 'sessionId'>,
  { state, outcome, cause }: Processed,
  event: 'received' | 'retried',
): void {
  const line = { bank, id, outcome, ...(cause !== '' && { cause }) }
  if (state !== 'MANUAL_REVIEW') {
    log.info(line, event === 'received' ? 'notification received' : 'notification retried')
  } else {
    const held = 'notification held for manual review: see inflow notification show'
    log.warn({ ...line, accountNumber, sessionId }, held)
  }
}

interface Received {
  readonly notification: BankNotification
  readonly reading: Exclude<Reading, { kind: 'unauthenticated' }>
  readonly receivedAtMs: number
}

function store(
  { storeNotification, encrypter }: ReceiveDependencies,
  bank: BankCode,
  served: ServedBank,
  { notification, reading, receivedAtMs: nowMs }: Received,
): Promise<StoredNotification> {
  const id = newId('ntf', nowMs)
  return storeNotification({
    id,
    bank,
    bodyDigest: hash('sha256', notification.rawBody, 'buffer'),
    receivedAtMs: nowMs,
    rawEncrypted: encryptNotification(encrypter, id, notification),
    ...reportedFacts(reading),
    nextTryAtMs: nowMs + processingLeaseMs(served),
  })
}

/**
 * Stores a payment that the bank listed and that is not recorded, as if a notification had reported it: the service asks
 * the bank about it again, or it is held for manual review. The same payment is stored once, whether a notification
 * reported it or the bank listed it, also after an operator has resolved it.
 *
 * @returns whether it was not stored before
 */
export type StoreListed = (
  bank: BankCode,
  payment: BankPayment,
  result: { readonly outcome: 'RETRY' | 'MANUAL_REVIEW'; readonly cause: string },
) => Promise<boolean>

export function createStoreListed(
  { database: { durablePool }, clock, onCommit }: Runtime,
  encrypter: Encrypter,
): StoreListed {
  return async (bank, payment, { outcome, cause }) => {
    const nowMs = clock.now()
    const id = newId('ntf', nowMs)
    const raw = { headers: {}, rawBody: listedBody(payment), pathSecret: '' }
    const facts = { id, bank, ...reportedFacts({ kind: 'payment', payment, bound: false }) }
    const isNew = await insertListed(durablePool, {
      ...facts,
      bodyDigest: hash('sha256', raw.rawBody, 'buffer'),
      receivedAtMs: nowMs,
      rawEncrypted: encryptNotification(encrypter, id, raw),
      // If this process dies before the next statement, the service asks the bank again.
      nextTryAtMs: nowMs + PROCESSING_MS,
    })
    if (!isNew) return false
    if (outcome === 'RETRY') return true
    const processed = { state: outcome, outcome, cause, nextTryAtMs: undefined }
    const held = withHeldEvent(processed, { ...facts, receivedAtMs: nowMs }, 1, nowMs)
    await finishNotifications(durablePool, [{ ...held, id, tries: 1 }])
    onCommit()
    return true
  }
}

/** The facts of the reported payment, which are stored unencrypted for operators. */
function reportedFacts(reading: Received['reading']) {
  if (!('payment' in reading)) {
    return { bankKey: '', accountNumber: '', sessionId: '', amountMinor: 0n }
  }
  const { bankKey, accountNumber, sessionId, amountMinor } = reading.payment
  const plain = (text: string) => text.slice(0, 200).replaceAll('\0', '')
  return {
    bankKey: plain(bankKey),
    accountNumber: plain(accountNumber),
    sessionId: plain(sessionId),
    amountMinor: amountMinor > AMOUNT_MINOR_MAX ? 0n : amountMinor,
  }
}

function acknowledge(
  { log }: Runtime,
  bank: BankCode,
  { connector }: ServedBank,
  outcome: NotificationOutcome,
  notification: BankNotification,
): Acknowledgement {
  try {
    return connector.acknowledge(outcome, notification)
  } catch (error) {
    log.error({ err: error, bank, outcome }, 'building the response to a notification failed')
    return { status: 500, contentType: 'text/plain', body: 'try again' }
  }
}

const ROUTE = '/banks/:bank/notifications'

function traceNotification(
  tracing: Tracing | undefined,
  bank: BankCode,
  { headers: { traceparent } }: BankNotification,
): PaymentTrace {
  const span = tracing?.start(`POST ${ROUTE}`, {
    kind: 'server',
    parent: parseTraceparent(traceparent),
    attributes: { 'http.request.method': 'POST', 'http.route': ROUTE, 'inflow.bank': bank },
  })
  return paymentTraceOf({ traceparent, span })
}

/** The trace of a notification that the service retries: it continues the stored trace. */
function traceRetry(
  tracing: Tracing | undefined,
  bank: BankCode,
  { headers: { traceparent } }: BankNotification,
): PaymentTrace {
  const span = tracing?.start('retry notification', {
    parent: parseTraceparent(traceparent),
    attributes: { 'inflow.bank': bank },
  })
  return paymentTraceOf({ traceparent, span })
}

/** Processes a notification in its trace, so that log lines have the trace id. */
function inTrace<T>({ span, traceparent }: PaymentTrace, process: () => T): T {
  const request = currentRequest()
  const trace = span?.context ?? parseTraceparent(traceparent)
  if (request === undefined || trace === undefined) return process()
  return inRequest({ ...request, trace_id: trace.traceId }, process)
}

/** A notification to be stored with its trace, so that a retry continues the trace. */
function withTrace(
  notification: BankNotification,
  { traceparent }: PaymentTrace,
): BankNotification {
  if (traceparent === undefined) return notification
  return { ...notification, headers: { ...notification.headers, traceparent } }
}

function endReceipt({ span }: PaymentTrace, outcome: string, { status }: Acknowledgement): void {
  span?.set({ 'inflow.notification.outcome': outcome, 'http.response.status_code': status })
  span?.end(status >= 500 ? `${status}` : undefined)
}

/** The most notifications that one turn processes, all concurrently. */
const NOTIFICATIONS_MAX = 16

const IDLE_MS = 1_000

/**
 * Retries notifications that could not be processed when they arrived, because a bank stops repeating a notification after
 * a while, although the money has arrived.
 */
export function createRetryNotifications(
  runtime: Runtime,
  dependencies: ReceiveDependencies,
  live: ReadonlyMap<BankCode, ServedBank>,
): Loop {
  const { clock, log } = runtime
  const { durablePool } = runtime.database
  const banks = [...live.keys()]
  // One statement claims the notifications of all banks, so the lease is as long as the slowest bank may take.
  const leaseMs = Math.max(...[...live.values()].map(processingLeaseMs))
  return createLoop({
    name: 'bank notifications',
    log,
    async turn() {
      const nowMs = clock.now()
      const untilMs = nowMs + leaseMs
      const due = await claimDueNotifications(durablePool, banks, nowMs, untilMs, NOTIFICATIONS_MAX)
      await Promise.all(due.map((stored) => retryNotification(runtime, dependencies, live, stored)))
      return due.length === NOTIFICATIONS_MAX ? 0 : IDLE_MS
    },
  })
}

async function retryNotification(
  runtime: Runtime,
  dependencies: ReceiveDependencies,
  live: ReadonlyMap<BankCode, ServedBank>,
  stored: DueNotification,
): Promise<void> {
  const { clock, log } = runtime
  const { encrypter, finishProcessing } = dependencies
  const { id, bank, rawEncrypted, receivedAtMs, tries } = stored
  const { accountNumber, sessionId, amountMinor, listed } = stored
  const served = live.get(bank)
  if (served === undefined) return
  try {
    const raw = decryptNotification(encrypter, id, rawEncrypted)
    const read: Reading = listed
      ? { kind: 'payment', payment: listedPayment(raw), bound: false }
      : served.connector.read(raw)
    // The notification was authentic on arrival, but the bank's credentials have been changed since.
    const reading =
      read.kind === 'unauthenticated'
        ? ({ kind: 'malformed', cause: `no longer authentic: ${read.cause}` } as const)
        : read
    const recordedBy = listed ? 'reconciliation' : 'notification'
    const authentic = { bank, served, reading, receivedAtMs, recordedBy, tries } as const
    const traced = { ...authentic, ...traceRetry(runtime.tracing, bank, raw) }
    const processed = await inSpan(
      traced.span,
      () => processNotification(runtime, dependencies, traced),
      ({ outcome }) => (outcome === 'RETRY' ? outcome : undefined),
    )
    const facts = { id, bank, receivedAtMs, accountNumber, sessionId, amountMinor }
    await finishProcessing(id, withHeldEvent(processed, facts, tries + 1, clock.now()))
    logProcessed(log, facts, processed, 'retried')
  } catch (error) {
    log.error({ err: error, bank, id }, 'retrying a notification failed')
    // If this fails too, the notification is retried when its lease ends.
    await finishProcessing(id, failedProcessing(stored, clock.now())).catch(() => undefined)
  }
}
