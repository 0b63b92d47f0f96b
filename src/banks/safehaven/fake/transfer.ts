import { formatAmount } from '../../../core/money.ts'
import { numberToken } from '../../fake/number-token.ts'

/** A transfer into an account of the fake Safe Haven. */
export interface SafeHavenTransfer {
  readonly id: string
  readonly sessionId: string
  readonly accountId: string
  readonly accountNumber: string
  readonly accountName: string
  /** Into an expiring account, whose notifications have another format. */
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
function naira(amountMinor: bigint): unknown {
  return numberToken(formatAmount(amountMinor).replace(/\.?0+$/, ''))
}
