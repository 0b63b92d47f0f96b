import { formatAmount } from '../../core/money.ts'
import { numberToken } from '../number-token.ts'

/** A transfer into an account of the fake Safe Haven. */
export interface SafeHavenTransfer {
  readonly id: string
  readonly sessionId: string
  readonly accountId: string
  readonly accountNumber: string
  readonly accountName: string
  /** Into an expiring account, which has a notification of its own. */
  readonly isVirtual: boolean
  readonly amountMinor: bigint
  readonly senderName: string
  readonly senderAccountNumber: string
  readonly narration: string
  readonly atMs: number
  status: string
  isReversed: boolean
}

/** The three names under which a notification says its kind. */
export type SafeHavenSpelling = 'type' | 'eventType' | 'event'

export function notificationBody(
  transfer: SafeHavenTransfer,
  client: string,
  spelling: SafeHavenSpelling,
): string {
  const kind = transfer.isVirtual ? 'virtualAccount.transfer' : 'transfer'
  return JSON.stringify({ [spelling]: kind, data: toShown(transfer, client) })
}

/** A transfer that left an account: it is told of at the same address. */
export function outwardBody(transfer: SafeHavenTransfer, client: string): string {
  const data = { ...toShown({ ...transfer, isVirtual: false }, client), type: 'Outwards' }
  return JSON.stringify({ type: 'transfer', data })
}

/** As notifications and status requests show it. */
export function toShown(transfer: SafeHavenTransfer, client: string): Record<string, unknown> {
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

/** As a statement shows it. */
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

/** Naira as a number without needless zeros, to the last digit: 1500.5. */
function naira(amountMinor: bigint): unknown {
  return numberToken(formatAmount(amountMinor).replace(/\.?0+$/, ''))
}
