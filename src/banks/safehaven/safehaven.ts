import type { Clock } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import type {
  AccountAtBank,
  Acknowledgement,
  BankPayment,
  LiveConnector,
  NotificationOutcome,
  PaymentListing,
  PaymentPage,
  Requery,
} from '../bank.ts'
import { fieldsOf } from '../bank-fields.ts'
import type { BankHttp } from '../http/bank-http.ts'
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
  /** Hears of listed credits that cannot be understood. */
  readonly warn?: (text: string) => void
}

/**
 * Accounts at Safe Haven: permanent sub-accounts, which have statements and cannot be closed, or
 * expiring virtual accounts, which are the other way round.
 */
export function createSafeHaven(options: SafeHavenOptions): LiveConnector {
  const { settings, warn } = options
  const call = createSafeHavenCall(options)
  const common = {
    afterCrash: 'person' as const,
    openAccount: createOpenAccount(settings, call),
    read: (notification: Parameters<LiveConnector['read']>[0]) =>
      readNotification(notification, settings.callbackSecret),
    acknowledge,
    requery: (payment: BankPayment, signal: AbortSignal) =>
      requery(settings, call, payment, signal),
  }
  if (settings.account.kind === 'virtual') {
    return {
      ...common,
      closeAccount: (account, signal) => closeAccount(settings, call, account, signal),
    }
  }
  return {
    ...common,
    listing: 'by account',
    async listPayments(listing: PaymentListing, signal: AbortSignal): Promise<PaymentPage> {
      const { account } = listing
      assert(account, 'a statement is asked for with its account')
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
  // Should the bank send again, it may know the transfer by then.
  UNCONFIRMED: 404,
  RETRY: 503,
}

/** The bank documents no form: any 2xx with small JSON. */
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
  const answer = await call('POST', path, { sessionId: bankKey }, signal)
  // An unknown session is HTTP 400.
  if (answer.kind === 'refused' && [400, 404].includes(answer.code)) {
    return { kind: 'denied', cause: answer.cause }
  }
  if (answer.kind !== 'done') return { kind: 'unknown', cause: answer.cause }
  const transfer = readTransfer(fieldsOf(answer.body['data']) ?? {}, !isVirtual)
  if (transfer.kind === 'outward') return { kind: 'denied', cause: 'an outward transfer' }
  if (transfer.kind === 'failed') return { kind: 'denied', cause: `status ${transfer.status}` }
  if (transfer.kind === 'open') return { kind: 'unknown', cause: `status ${transfer.status}` }
  if (transfer.kind === 'unreadable') return { kind: 'unknown', cause: transfer.cause }
  if (transfer.payment.bankKey !== bankKey) {
    return { kind: 'unknown', cause: `answered for ${transfer.payment.bankKey}` }
  }
  const { payment } = transfer
  return { kind: transfer.kind === 'reversed' ? 'reversed' : 'confirmed', payment }
}

async function closeAccount(
  { virtualAccountsPath }: SafeHavenSettings,
  call: SafeHavenCall,
  { bankAccountId }: AccountAtBank,
  signal: AbortSignal,
) {
  const path = `${virtualAccountsPath}/${encodeURIComponent(bankAccountId)}`
  const answer = await call('DELETE', path, undefined, signal)
  // One that is not there any more is closed: a repeat after a lost answer comes to the same.
  const gone = answer.kind === 'refused' && answer.code === 404
  if (answer.kind === 'done' || gone) return { kind: 'closed' as const }
  return { kind: 'unavailable' as const, cause: answer.cause }
}
