import { assert } from '../../core/errors.ts'
import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import {
  type AccountAtBank,
  type Acknowledgement,
  type BankNotification,
  type BankPayment,
  type Closing,
  failure,
  type LiveConnector,
  type NotificationOutcome,
  type PaymentListing,
  type PaymentPage,
  type Reading,
  type Requery,
} from '../bank.ts'
import {
  type BankFields,
  equalSecrets,
  fieldsOf,
  getPath,
  isAccountNumber,
  isPaymentKey,
  malformed,
  parseNaira,
  plainText,
  textOf,
} from '../bank-fields.ts'
import {
  AccessDeniedError,
  BankUnreachableError,
  type ConnectorOptions,
  NotListedError,
  parseBankJson,
} from '../http/bank-http.ts'
import {
  createSafeHavenCall,
  FAILED_STATUSES,
  isRefused,
  pagesOf,
  type SafeHavenCall,
} from './call.ts'
import { createOpenAccount } from './open-account.ts'
import type { SafeHavenSettings } from './settings.ts'
import { createSafeHavenTransfers } from './transfer.ts'

/**
 * Accounts at Safe Haven: permanent sub-accounts, which have statements but cannot be closed, or
 * expiring virtual accounts, which can be closed but have no statements.
 */
export function createSafeHaven(options: ConnectorOptions<SafeHavenSettings>): LiveConnector {
  const { settings, clock, warn } = options
  const call = createSafeHavenCall(options)
  const transfers =
    settings.transfers && createSafeHavenTransfers(options, settings.transfers, call)
  const common = {
    ...(transfers && { transfers }),
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
  // If the bank retries, it may confirm the transfer by then.
  UNCONFIRMED: 404,
  RETRY: 503,
}

/** The bank documents no format, so the response is a status with a short JSON body. */
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
  if (response.kind !== 'success') return failure('unknown', response)
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
  // An account that no longer exists counts as closed, so that a retry after a lost response succeeds.
  const isGone = response.kind === 'refused' && response.code === 404
  if (response.kind === 'success' || isGone) return { kind: 'closed' }
  return failure('unavailable', response)
}

/** Parses a notification. It is not signed, so the bank always has to confirm it. */
function readNotification(notification: BankNotification, secret: string): Reading {
  if (!equalSecrets(notification.pathSecret, secret)) {
    return { kind: 'unauthenticated', cause: 'wrong secret in the path' }
  }
  const body = fieldsOf(parseBankJson(notification.rawBody.toString('utf8')))
  const transfer = body && fieldsOf(body['data'])
  if (!body || !transfer) return { kind: 'malformed', cause: 'not a JSON object with `data`' }
  const kind = plainText(kindOf(body), 80)
  if (kind === 'transfer') return toReading(transfer, true)
  if (kind === 'virtualAccount.transfer') return toReading(transfer, false)
  // An inward transfer of an unknown kind goes to manual review, so that no payment is lost.
  return textOf(transfer, 'type').toLowerCase() === 'inwards'
    ? { kind: 'malformed', cause: `inward transfer of unknown kind "${kind}"` }
    : { kind: 'ignored', cause: `unknown kind "${kind}"` }
}

/** The bank uses three names for this field. */
function kindOf(body: BankFields): string {
  return ['type', 'eventType', 'event'].map((name) => textOf(body, name)).find(Boolean) ?? ''
}

function toReading(fields: BankFields, directed: boolean): Reading {
  const transfer = readTransfer(fields, directed)
  switch (transfer.kind) {
    case 'paid':
      return { kind: 'payment', payment: transfer.payment, bound: false }
    case 'reversed':
      return { kind: 'reversal', payment: transfer.payment, bound: false }
    case 'outward':
      return { kind: 'ignored', cause: 'outward transfer' }
    case 'pending':
    case 'failed':
      return { kind: 'ignored', cause: `status ${transfer.status}` }
    case 'malformed':
      return transfer
  }
}

const PAGE_SIZE = 100

/**
 * Lists the credits of one account. Some may not be transfers, so an unrecorded payment has to be
 * requeried before it is recorded.
 *
 * @throws BankUnreachableError, NotListedError
 */
async function listStatement(
  accountsPath: string,
  call: SafeHavenCall,
  listing: PaymentListing & { readonly account: AccountAtBank },
  signal: AbortSignal,
  warn: (text: string) => void,
): Promise<PaymentPage> {
  const page = Number(listing.page ?? 0)
  const query = new URLSearchParams({
    page: String(page),
    limit: String(PAGE_SIZE),
    fromDate: new Date(listing.fromMs).toISOString(),
    toDate: new Date(listing.toMs).toISOString(),
    type: 'Credit',
  })
  const id = encodeURIComponent(listing.account.bankAccountId)
  const response = await call('GET', `${accountsPath}/${id}/statement?${query}`, undefined, signal)
  if (response.kind !== 'success') {
    const text = `Safe Haven returned no statement: ${response.cause}`
    if (response.kind === 'denied') throw new AccessDeniedError(text)
    throw isRefused(response)
      ? new NotListedError(text)
      : new BankUnreachableError(text, response.kind !== 'unreached')
  }
  const entries = response.body['data']
  if (!Array.isArray(entries)) throw new NotListedError('the statement has no list')
  const payments = entries.flatMap((entry): BankPayment[] => {
    const payment = readEntry(fieldsOf(entry) ?? {}, listing.account)
    if (payment && 'cause' in payment)
      warn(`skipped a malformed credit in a statement of Safe Haven: ${payment.cause}`)
    return payment && !('cause' in payment) ? [payment] : []
  })
  const pages = pagesOf(response.body)
  const isLast = pages === undefined ? entries.length < PAGE_SIZE : page + 1 >= pages
  // The callers limit how many pages they read.
  const hasMore = entries.length > 0 && !isLast
  return { payments, next: hasMore ? String(page + 1) : undefined }
}

/** Reads a statement entry. It has fewer fields than a transfer, so the requested account is filled in. */
function readEntry(fields: BankFields, account: AccountAtBank) {
  if (textOf(fields, 'type').toLowerCase() !== 'credit' || fields['isReversed'] === true) return
  return readPayment({
    ...fields,
    sessionId: textOf(fields, 'sessionId') || textOf(fields, 'paymentReference'),
    creditAccountNumber: textOf(fields, 'creditAccountNumber') || account.accountNumber,
    createdAt: textOf(fields, 'createdAt') || textOf(fields, 'transactionDate'),
  })
}

/** A transfer in a notification or a requery. */
type Transfer =
  | { readonly kind: 'paid' | 'reversed'; readonly payment: BankPayment }
  /** Money that left an account. */
  | { readonly kind: 'outward' }
  /** Not completed yet. */
  | { readonly kind: 'pending'; readonly status: string }
  /** Will never complete. */
  | { readonly kind: 'failed'; readonly status: string }
  | { readonly kind: 'malformed'; readonly cause: string }

/** @param directed whether the direction is required; transfers to virtual accounts have no direction */
function readTransfer(fields: BankFields, directed: boolean): Transfer {
  const direction = textOf(fields, 'type').toLowerCase()
  if (direction === '' ? directed : direction !== 'inwards') {
    return direction === 'outwards' ? { kind: 'outward' } : malformed('type', direction)
  }
  const reversed = reversalOf(fields)
  if (reversed === undefined) return malformed('isReversed', String(fields['isReversed']))
  const status = plainText(getPath(fields, 'status'), 40)
  if (!reversed && status.toLowerCase() !== 'completed') {
    if (status === '') return malformed('status', status)
    return { kind: FAILED_STATUSES.includes(status.toLowerCase()) ? 'failed' : 'pending', status }
  }
  const payment = readPayment(fields)
  if ('cause' in payment) return payment
  return { kind: reversed ? 'reversed' : 'paid', payment }
}

function reversalOf(fields: BankFields): boolean | undefined {
  if (textOf(fields, 'status').toLowerCase() === 'reversed') return true
  const flag = fields['isReversed'] ?? false
  if (typeof flag === 'boolean') return flag
  return flag === 'true' ? true : flag === 'false' ? false : undefined
}

/** Parses the payment of a transfer into an account. */
function readPayment(fields: BankFields): BankPayment | Extract<Transfer, { kind: 'malformed' }> {
  const sessionId = textOf(fields, 'sessionId')
  if (!isPaymentKey(sessionId)) return malformed('sessionId', sessionId)
  const accountNumber = textOf(fields, 'creditAccountNumber')
  if (!isAccountNumber(accountNumber)) return malformed('creditAccountNumber', accountNumber)
  const amount = textOf(fields, 'amount')
  const amountMinor = parseNaira(amount)
  if (!amountMinor || amountMinor > AMOUNT_MINOR_MAX) return malformed('amount', amount)
  return {
    bankKey: sessionId,
    sessionId,
    accountNumber,
    amountMinor,
    paidAtMs: timeOf(textOf(fields, 'approvedAt')) ?? timeOf(textOf(fields, 'createdAt')),
    payer: {
      name: plainText(getPath(fields, 'debitAccountName'), 200),
      accountNumber: plainText(getPath(fields, 'debitAccountNumber'), 40),
      // An interbank session id begins with the code of the sending institution.
      bankCode: /^\d{30}$/.test(sessionId) ? sessionId.slice(0, 6) : '',
      bankName: '',
    },
    narration: plainText(getPath(fields, 'narration'), 500),
  }
}

/** Parses ISO 8601 with a zone; Safe Haven sends UTC. */
function timeOf(text: string): number | undefined {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.test(text)
  const epochMs = isTime ? Date.parse(text) : Number.NaN
  return Number.isNaN(epochMs) ? undefined : epochMs
}
