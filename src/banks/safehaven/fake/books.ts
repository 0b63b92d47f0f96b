import type { Clock } from '../../../core/clock.ts'
import { formatAmount } from '../../../core/money.ts'
import { BANK_FACTS } from '../../bank.ts'
import { createFakeIds, numberToken } from '../../fake/fake-ids.ts'
import { readAmount } from '../../fake/notifier.ts'

export interface SafeHavenAccount {
  readonly id: string
  readonly accountNumber: string
  readonly name: string
  readonly reference: string
  readonly isVirtual: boolean
  /** The URL for notifications of payments; empty: none are sent. */
  readonly callbackUrl: string
  /** How many more responses omit the number of an expiring account. */
  pollsWithoutNumber: number
  status: 'Active' | 'Closed'
}

/** The fields that a payment may set; the rest is generated. */
type SafeHavenPayment = Partial<
  Pick<
    SafeHavenTransfer,
    'sessionId' | 'senderName' | 'senderAccountNumber' | 'narration' | 'status'
  >
> & {
  /** When the payment is received, in epoch milliseconds; default: now. */
  readonly atMs?: number
}

export type SafeHavenBooks = ReturnType<typeof createSafeHavenBooks>

/** The accounts and transfers of the fake Safe Haven. */
export function createSafeHavenBooks(clock: Clock) {
  const ids = createFakeIds(clock, BANK_FACTS.SAFEHAVEN.nubanCode, '000016')
  const accounts = new Map<string, SafeHavenAccount>()
  const accountsById = new Map<string, SafeHavenAccount>()
  const transfers = new Map<string, SafeHavenTransfer>()
  const received = new Map<string, SafeHavenTransfer[]>()
  let rows = 0
  const newId = () => {
    rows += 1
    return clock.now().toString(16).padStart(12, '0') + rows.toString(16).padStart(12, '0')
  }
  return {
    ids,
    accounts,
    accountsById,
    transfers,
    received,
    open(details: Omit<SafeHavenAccount, 'id' | 'accountNumber' | 'status'>): SafeHavenAccount {
      const id = newId()
      const accountNumber = ids.accountNumber()
      const account: SafeHavenAccount = { ...details, id, accountNumber, status: 'Active' }
      accounts.set(accountNumber, account)
      accountsById.set(id, account)
      return account
    },
    /** @throws RangeError for a closed account or an invalid amount */
    receive(number: string, amount: string, payment: SafeHavenPayment = {}): SafeHavenTransfer {
      const account = accounts.get(number)
      if (account?.status !== 'Active') throw new RangeError(`no active account ${number}`)
      const amountMinor = readAmount(amount)
      const atMs = payment.atMs ?? clock.now()
      const senderName = payment.senderName ?? 'AMAKA BELLO'
      const transfer: SafeHavenTransfer = {
        id: newId(),
        sessionId: payment.sessionId ?? ids.sessionId(atMs),
        accountId: account.id,
        accountNumber: number,
        accountName: account.name,
        isVirtual: account.isVirtual,
        amountMinor,
        senderName,
        senderAccountNumber: payment.senderAccountNumber ?? '0987654321',
        narration: payment.narration ?? `MOB/${senderName}`,
        atMs,
        status: payment.status ?? 'Completed',
        isReversed: false,
      }
      transfers.set(transfer.sessionId, transfer)
      const own = received.get(account.id)
      if (own) own.push(transfer)
      else received.set(account.id, [transfer])
      return transfer
    },
  }
}

/** A transfer into an account of the fake Safe Haven. */
export interface SafeHavenTransfer {
  readonly id: string
  readonly sessionId: string
  readonly accountId: string
  readonly accountNumber: string
  readonly accountName: string
  /** Whether the account is an expiring one, whose notifications have another format. */
  readonly isVirtual: boolean
  readonly amountMinor: bigint
  readonly senderName: string
  readonly senderAccountNumber: string
  readonly narration: string
  readonly atMs: number
  status: string
  isReversed: boolean
}

/** The three names of the field with the kind of a notification. */
export type SafeHavenSpelling = 'type' | 'eventType' | 'event'

export function notificationBody(
  transfer: SafeHavenTransfer,
  client: string,
  spelling: SafeHavenSpelling,
): string {
  const kind = transfer.isVirtual ? 'virtualAccount.transfer' : 'transfer'
  return JSON.stringify({ [spelling]: kind, data: toJson(transfer, client) })
}

/** The notification of a transfer out of an account, which is sent to the same URL. */
export function outwardBody(transfer: SafeHavenTransfer, client: string): string {
  const data = { ...toJson({ ...transfer, isVirtual: false }, client), type: 'Outwards' }
  return JSON.stringify({ type: 'transfer', data })
}

/** The transfer as in notifications and status responses. */
export function toJson(transfer: SafeHavenTransfer, client: string): Record<string, unknown> {
  const { accountId, isVirtual } = transfer
  return {
    _id: transfer.id,
    client,
    ...(isVirtual ? { virtualAccount: accountId } : { account: accountId, type: 'Inwards' }),
    sessionId: transfer.sessionId,
    nameEnquiryReference: transfer.sessionId.replace(/^\d{6}/, '999240'),
    paymentReference: transfer.sessionId,
    mandateReference: null,
    isReversed: transfer.isReversed,
    reversalReference: transfer.isReversed ? `RV-${transfer.id}` : null,
    provider: 'NIBSS',
    providerChannel: 'NIP',
    destinationInstitutionCode: '090286',
    creditAccountName: transfer.accountName,
    creditAccountNumber: transfer.accountNumber,
    debitAccountName: transfer.senderName,
    debitAccountNumber: transfer.senderAccountNumber,
    narration: transfer.narration,
    amount: naira(transfer.amountMinor),
    fees: 0,
    vat: 0,
    stampDuty: 0,
    responseCode: '00',
    responseMessage: 'Approved or completed successfully',
    status: transfer.status,
    createdAt: new Date(transfer.atMs).toISOString(),
    approvedAt: new Date(transfer.atMs + 1_000).toISOString(),
  }
}

/** The transfer as a statement entry. */
export function toEntry(transfer: SafeHavenTransfer): Record<string, unknown> {
  return {
    _id: `st-${transfer.id}`,
    account: transfer.accountId,
    type: 'Credit',
    paymentReference: transfer.sessionId,
    narration: transfer.narration,
    amount: naira(transfer.amountMinor),
    isReversed: transfer.isReversed,
    transactionDate: new Date(transfer.atMs).toISOString(),
  }
}

/** Naira as an exact JSON number without trailing zeros: 1500.5. */
export function naira(amountMinor: bigint): unknown {
  return numberToken(formatAmount(amountMinor).replace(/\.?0+$/, ''))
}
