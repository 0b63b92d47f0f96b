import type { Logger } from 'pino'
import { createEndAccounts } from '../accounts/close-account.ts'
import { createCreateAccount } from '../accounts/create-account.ts'
import { createFindOpenAccounts } from '../accounts/open-accounts.ts'
import { createOpenAtBank, createResolveOpenings, trackOpenings } from '../accounts/open-at-bank.ts'
import { systemActor } from '../auth/caller.ts'
import type { BankCode, BankConnector, BankOf, IsSimulated } from '../banks/bank.ts'
import { createReportBreakers } from '../banks/breakers.ts'
import { type BankMetrics, createBankMetrics } from '../banks/metrics.ts'
import { createSandboxBank } from '../banks/sandbox.ts'
import { type ServedBank, serveBanks } from '../banks/serve-banks.ts'
import type { Config } from '../config/config.ts'
import { newId } from '../core/ids.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { createNotifications } from '../notifications/notifications.ts'
import { createAssignSession } from '../notifications/payment-sessions.ts'
import { createReversePayment } from '../notifications/process-notification.ts'
import { createStoreListed } from '../notifications/receive-notification.ts'
import {
  createRecordConfirmed,
  createRecordUnlessImported,
} from '../notifications/record-confirmed.ts'
import { findPaidReturn } from '../payouts/refund-transaction.ts'
import { createBatchWatch, type ObserveBatches } from '../postgres/batcher.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createReconciliationJob } from '../reconciliation/job.ts'
import { createPaymentCounter } from '../transactions/count-payments.ts'
import { createRecordPayment, createRecordPayments } from '../transactions/record-payment.ts'
import { createIsReturned } from '../transactions/resolve-unmatched.ts'
import type { StoredConflict, UnmatchedPayment } from '../transactions/transaction.ts'

interface Options {
  readonly config: Config
  readonly encrypter: Encrypter
  readonly observeBatches: ObserveBatches
  /** Returns the prefix of a business's account names. @throws Fault not_found */
  readonly aliasOf: (businessId: string) => Promise<string>
}

/** Incoming money: the banks, their virtual accounts and the recording of payments. */
export type Payments = ReturnType<typeof composePayments>

/** Composes the banks and payments. Sends nothing to a bank before `start`. */
export function composePayments(runtime: Runtime, options: Options) {
  const { clock, log, metrics } = runtime
  const { durablePool, recordingPool } = runtime.database
  const { config, encrypter, observeBatches, aliasOf } = options
  const bankMetrics = createBankMetrics(metrics)
  const served = serveBanks(runtime, { liveBanks: config.liveBanks, metrics: bankMetrics })
  const { conditions } = served
  const processId = newId('ins', clock.now())
  const reportBreakers = createReportBreakers(runtime, { processId, conditions })
  const isSimulated: IsSimulated = (bank) =>
    config.simulatesLiveAccounts && config.banks[bank] === 'sandbox'
  const bankOf = createBankOf(createSandboxBank(durablePool, clock), served.live, isSimulated)
  const opening = trackOpenings(createOpenAtBank(runtime, { bankOf }))
  const { openAtBank } = opening
  const openings = createResolveOpenings(runtime, {
    openAtBank,
    encrypter,
    aliasOf,
    live: served.live,
  })
  const endings = createEndAccounts(runtime, { bankOf })
  const onConflict = reportConflict(bankMetrics, log)
  const batches = createBatchWatch()
  const findOpenAccounts = createFindOpenAccounts(recordingPool, isSimulated)
  const recordPayment = createRecordPayment(runtime, {
    findOpenAccounts,
    isSimulated,
    batches,
    observeBatches,
    counter: createPaymentCounter(metrics),
    onUnmatched: reportUnmatched(bankMetrics, log),
    onConflict,
  })
  const actor = systemActor(encrypter)
  const reversePayment = createReversePayment(runtime, {
    isSimulated,
    findPaidReturn: (transactionId) => findPaidReturn(durablePool, transactionId),
    actor,
  })
  const { live } = served
  const reconciling = {
    live,
    isSimulated,
    recordPayment,
    reversePayment,
    onConflict,
    assignSession: createAssignSession(runtime, observeBatches),
    isReturned: createIsReturned(durablePool),
  }
  const reconciliation = createReconciliationJob(runtime, {
    ...reconciling,
    storeListed: createStoreListed(runtime, encrypter),
    times: config.reconcile,
    onMissed: bankMetrics.missing,
    onFinished: bankMetrics.reconciled,
  })
  const notifications = createNotifications(runtime, {
    ...reconciling,
    encrypter,
    observeBatches,
    retentionDays: config.notificationRetentionDays,
    observe: (bank, outcome) => bankMetrics.notification(bank, outcome, clock.now()),
  })
  const recordConfirmed = createRecordConfirmed(runtime, { ...reconciling, findOpenAccounts })
  const recordTokenPayment = config.recordRequiresConfirmation
    ? recordConfirmed
    : createRecordUnlessImported(runtime, { ...reconciling, findOpenAccounts, recordConfirmed })
  return {
    bankOf,
    isSimulated,
    createAccount: createCreateAccount(runtime, { bankOf, openAtBank, encrypter, aliasOf }),
    recordPayment,
    /** Records payments that internal services report. */
    recordTokenPayment,
    recordPayments: createRecordPayments({ findOpenAccounts, recordPayment: recordTokenPayment }),
    /** Watches the batches of `recordPayment`. */
    batches,
    notifications,
    /** The dependencies of reconciliation against a bank's statement. */
    reconciling,
    /** Reports the circuit breakers of this process: each worker has its own. */
    breakers: reportBreakers,
    /** The condition of each live bank: its circuit breaker, and whether it denies access. */
    conditions,
    start() {
      openings.start()
      endings.start()
      notifications.start()
      reconciliation.start()
    },
    async stop() {
      const jobs = [openings, endings, notifications, reconciliation, reportBreakers]
      await Promise.all(jobs.map((job) => job.stop()))
      await served.close()
      // Waits until the requests of account openings have ended and their results are stored.
      await opening.ended()
    },
  }
}

function createBankOf(
  sandbox: BankConnector,
  live: ReadonlyMap<BankCode, ServedBank>,
  isSimulated: IsSimulated,
): BankOf {
  const simulated = { name: 'sandbox', connector: sandbox, callTimeoutMs: 10_000 } as const
  return (account) => {
    if (!account.live) return simulated
    const served = live.get(account.bank)
    if (served !== undefined) return { name: 'live', ...served }
    return isSimulated(account.bank) ? simulated : undefined
  }
}

function reportUnmatched({ unmatched }: BankMetrics, log: Logger) {
  return ({ bank, id, sessionId }: UnmatchedPayment): void => {
    unmatched(bank)
    log.warn(
      { bank, id, sessionId },
      'payment for an account number that is not open: see inflow unmatched list',
    )
  }
}

function reportConflict({ conflict }: BankMetrics, log: Logger) {
  return ({ bank, id, transaction, accountNumber, sessionId }: StoredConflict): void => {
    conflict(bank)
    const text =
      'payment conflicts with the recorded transaction, queued for manual review: see inflow conflict list'
    log.warn({ bank, id, transactionId: transaction, accountNumber, sessionId }, text)
  }
}
