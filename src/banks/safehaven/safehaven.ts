import type { Clock } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import { DENIED } from '../access-denied.ts'
import type {
  AccountAtBank,
  Acknowledgement,
  BankPayment,
  Closing,
  LiveConnector,
  NotificationOutcome,
  PaymentListing,
  PaymentPage,
  Requery,
} from '../bank.ts'
import { fieldsOf } from '../bank-fields.ts'
import type { BankHttp, OnAccess } from '../http/bank-http.ts'
import { createSafeHavenCall, type SafeHavenCall } from './call.ts'
import { readNotification } from './notification.ts'
import { createOpenAccount } from './open-account.ts'
import type { SafeHavenSettings } from './settings.ts'
import { listStatement } from './statement.ts'
import { readTransfer } from './transfer.ts'

export interface SafeHavenOptions {
  readonly settings: SafeHavenSettings
  readonly http: BankHttp
  readonly clock: Clock
  /** Called for each listed credit that cannot be parsed. */
  readonly warn?: (text: string) => void
  readonly onAccess?: OnAccess
}

/**
 * Accounts at Safe Haven: permanent sub-accounts, which have statements but cannot be closed, or
 * expiring virtual accounts, which can be closed but have no statements.
 */
export function createSafeHaven(options: SafeHavenOptions): LiveConnector {
  const { settings, clock, warn } = options
  const call = createSafeHavenCall(options)
  const common = {
    afterCrash: 'manual review' as const,
    openAccount: createOpenAccount(settings, call, clock),
    read: (notification: Parameters<LiveConnector['read']>[0]) =>
      readNotification(notification, settings.callbackSecret),
    acknowledge,
    requery: (payment: BankPayment, signal: AbortSignal) =>
      requery(settings, call, payment, signal),
  }
  if (settings.account.kind === 'virtual') {
    return {
      ...common,
      fixesExpiry: true,
      closeAccount: (account, signal) => closeAccount(settings, call, account, signal),
    }
  }
  return {
    ...common,
    listing: 'by account',
    async listPayments(listing: PaymentListing, signal: AbortSignal): Promise<PaymentPage> {
      const { account } = listing
      assert(account, 'statements of Safe Haven are listed by account')
      return listStatement(settings.accountsPath, call, { ...listing, account }, signal, warn)
    },
  }
}

const STATUSES: Readonly<Record<NotificationOutcome, number>> = {
  RECORDED: 200,
  DUPLICATE: 200,
  UNMATCHED: 200,
  MANUAL_REVIEW: 200,
  IGNORED: 200,
  UNAUTHENTICATED: 401,
  // If the bank retries, it may know the transfer by then.
  UNCONFIRMED: 404,
  RETRY: 503,
}

/** The bank documents no format: any 2xx with a short JSON body will do. */
function acknowledge(outcome: NotificationOutcome): Acknowledgement {
  const status = STATUSES[outcome]
  const body = JSON.stringify({ received: status === 200 })
  return { status, contentType: 'application/json', body }
}

async function requery(
  { account, virtualStatusPath, transferStatusPath }: SafeHavenSettings,
  call: SafeHavenCall,
  { bankKey }: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const isVirtual = account.kind === 'virtual'
  const path = isVirtual ? virtualStatusPath : transferStatusPath
  const response = await call('POST', path, { sessionId: bankKey }, signal)
  // The bank returns HTTP 400 for an unknown session.
  if (response.kind === 'refused' && [400, 404].includes(response.code)) {
    return { kind: 'denied', cause: response.cause }
  }
  if (response.kind !== 'success') {
    return { kind: 'unknown', cause: response.cause, ...(response.kind === 'denied' && DENIED) }
  }
  const transfer = readTransfer(fieldsOf(response.body['data']) ?? {}, !isVirtual)
  if (transfer.kind === 'outward') return { kind: 'denied', cause: 'outward transfer' }
  if (transfer.kind === 'failed') return { kind: 'denied', cause: `status ${transfer.status}` }
  if (transfer.kind === 'pending') return { kind: 'unknown', cause: `status ${transfer.status}` }
  if (transfer.kind === 'malformed') return { kind: 'unknown', cause: transfer.cause }
  if (transfer.payment.bankKey !== bankKey) {
    return { kind: 'unknown', cause: `Safe Haven returned session ${transfer.payment.bankKey}` }
  }
  const { payment } = transfer
  return { kind: transfer.kind === 'reversed' ? 'reversed' : 'confirmed', payment }
}

async function closeAccount(
  { virtualAccountsPath }: SafeHavenSettings,
  call: SafeHavenCall,
  { bankAccountId }: AccountAtBank,
  signal: AbortSignal,
): Promise<Closing> {
  const path = `${virtualAccountsPath}/${encodeURIComponent(bankAccountId)}`
  const response = await call('DELETE', path, undefined, signal)
  // An account that does not exist any more is closed: a retry after a lost response succeeds.
  const isGone = response.kind === 'refused' && response.code === 404
  if (response.kind === 'success' || isGone) return { kind: 'closed' }
  return { kind: 'unavailable', cause: response.cause, ...(response.kind === 'denied' && DENIED) }
}
