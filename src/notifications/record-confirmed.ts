import { LRUCache } from 'lru-cache'
import type { BankCode } from '../banks/bank.ts'
import { accessDenied, KEYED_BY_SESSION } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { Fault } from '../core/errors.ts'
import { growingTo } from '../core/growing-to.ts'
import { createBatcher } from '../postgres/batcher.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore, type Semaphore } from '../postgres/semaphore.ts'
import { findConfirmedAccounts } from '../transactions/find-reported.ts'
import { createIsFinal } from '../transactions/find-transactions.ts'
import type { RecordTokenPayment } from '../transactions/record-payment.ts'
import type { RecordResult, TokenPayment } from '../transactions/transaction.ts'
import { confirmAndRecord, type ProcessDependencies } from './process-notification.ts'

interface Dependencies extends Omit<ProcessDependencies, 'reversePayment'> {
  /** Finds the open accounts that the numbers of payments name, in order. */
  readonly findOpenAccounts: (
    payments: readonly TokenPayment[],
  ) => Promise<readonly ({ readonly live: boolean } | undefined)[]>
  readonly live: ReadonlyMap<BankCode, ServedBank>
}

/** The most payments that this instance requeries at one bank at once. Further capacity is left for notifications. */
const REQUERIES_MAX = 8

/** No requery starts after this time, so that a call gets a response whatever the bank does. */
const START_MS = 15_000

const RETRY_AFTER_SECONDS = 10

/**
 * Creates a function that records the payments that internal services report. A payment at a live bank is recorded only
 * once the bank confirms it, and as the bank describes it. A payment that is not confirmed is not stored, so the caller has
 * to repeat the call.
 *
 * Payments into test accounts, and repeats of recorded payments, which credit nothing, do not wait for the bank.
 *
 * Faults: payment_unconfirmed, bank_key_required, bank_unavailable, and the faults of `recordPayment`.
 */
export function createRecordConfirmed(
  runtime: Runtime,
  dependencies: Dependencies,
): RecordTokenPayment {
  const { clock } = runtime
  const { durablePool } = runtime.database
  const { live, findOpenAccounts, recordPayment } = dependencies
  const findAccount = createBatcher({ run: findOpenAccounts })
  const isFinal = createIsFinal(durablePool)
  const semaphores = new Map<BankCode, Semaphore>()
  for (const bank of live.keys()) semaphores.set(bank, createSemaphore(REQUERIES_MAX))
  return async (payment) => {
    const { bank, sessionId } = payment
    const served = live.get(bank)
    const semaphore = semaphores.get(bank)
    if (served === undefined || semaphore === undefined) return recordPayment(payment)
    const untilMs = clock.now() + START_MS
    const account = await findAccount(payment)
    // A live account may get the number at any time, so the mode is fixed here.
    if (account?.live === false) return recordPayment({ ...payment, live: false })
    if (await isFinal({ bank, sessionId, live: true })) {
      return recordPayment({ ...payment, live: true })
    }
    const bankKey = keyOf(payment)
    return semaphore(async () => {
      if (clock.now() < untilMs)
        return confirm(runtime, dependencies, served, { ...payment, bankKey })
      throw unavailable('The bank could not be asked to confirm the payment in time')
    })
  }
}

/** The part of an open account that shows whether it was imported. */
interface ImportableAccount {
  readonly id: string
  readonly live: boolean
  /** Undefined: the account was not imported. */
  readonly importedAtMs: number | undefined
}

/** The most imported accounts that are cached as confirmed. */
const CONFIRMED_MAX = 50_000

/**
 * Creates a function that records the payments that internal services report at once, except payments into an imported
 * account at a live bank: until the bank has confirmed a payment, only the import says that the number is ours.
 *
 * Faults: as `createRecordConfirmed`.
 */
export function createRecordUnlessImported(
  runtime: Runtime,
  dependencies: Pick<Dependencies, 'live' | 'recordPayment'> & {
    readonly findOpenAccounts: (
      payments: readonly TokenPayment[],
    ) => Promise<readonly (ImportableAccount | undefined)[]>
    /** Records a payment once the bank confirms it. */
    readonly recordConfirmed: RecordTokenPayment
  },
): RecordTokenPayment {
  const { durablePool } = runtime.database
  const { live, findOpenAccounts, recordPayment, recordConfirmed } = dependencies
  const findAccount = createBatcher({ run: findOpenAccounts })
  const confirmed = new LRUCache<string, true>(growingTo(CONFIRMED_MAX))
  const awaitsBank = async ({ id, importedAtMs, live: isLive }: ImportableAccount) => {
    if (importedAtMs === undefined || !isLive || confirmed.has(id)) return false
    if (!(await findConfirmedAccounts(durablePool, [{ id, importedAtMs }])).has(id)) return true
    confirmed.set(id, true)
    return false
  }
  return async (payment) => {
    if (!live.has(payment.bank)) return recordPayment(payment)
    const account = await findAccount(payment)
    const waits = account !== undefined && (await awaitsBank(account))
    return waits ? recordConfirmed(payment) : recordPayment(payment)
  }
}

/** @throws Fault if the bank cannot be asked for the payment */
function keyOf({ bank, bankKey, sessionId, status }: TokenPayment): string {
  if (status !== 'SUCCESS') {
    throw unconfirmed('a bank confirms only payments that arrived, with the status SUCCESS')
  }
  const key = KEYED_BY_SESSION.has(bank) ? sessionId : bankKey
  if (key !== '') return key
  const text = `${bank} confirms a payment by its own key: bank_key is required`
  throw new Fault('bank_key_required', text)
}

async function confirm(
  runtime: Runtime,
  dependencies: Dependencies,
  served: ServedBank,
  payment: TokenPayment,
): Promise<RecordResult> {
  const { log } = runtime
  const { bank, sessionId, recordedBy, traceparent, span } = payment
  const { outcome, cause, refusal, recorded } = await confirmAndRecord(
    runtime,
    // A token that may record payments may not reverse them; only the bank's own notification may.
    { ...dependencies, reversePayment: undefined },
    {
      bank,
      served,
      reading: { kind: 'payment', payment, bound: false },
      receivedAtMs: payment.paidAtMs,
      recordedBy,
      traceparent,
      span,
    },
  )
  const line = { bank, sessionId, recordedBy, outcome, ...(cause !== '' && { cause }) }
  if (recorded !== undefined) {
    log.info(line, 'the bank confirmed a payment that a token reported')
    return recorded
  }
  log.warn(line, 'the bank did not confirm a payment that a token reported: nothing is recorded')
  if (refusal === 'access') throw accessDenied(cause)
  if (outcome === 'RETRY') throw unavailable('The bank did not confirm or deny the payment')
  throw unconfirmed(cause)
}

function unconfirmed(cause: string): Fault {
  return new Fault('payment_unconfirmed', `The payment is not confirmed by its bank: ${cause}`)
}

function unavailable(text: string): Fault {
  return new Fault('bank_unavailable', `${text}; nothing was recorded, try again shortly`, {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })
}
