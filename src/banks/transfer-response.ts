import type { TransferOrder, TransferState } from './transfer.ts'

/** Why a bank will not pay a transfer. */
type FailureReason = Extract<TransferState, { kind: 'failed' }>['reason']

/** Reads the reason from the text of a refusal, for banks without a code. */
export function reasonOfText(text: string): FailureReason {
  if (/insufficient|not enough|low balance/i.test(text)) return 'insufficient_float'
  if (/\b(debit|source|sender)/i.test(text)) return 'bank_rejected'
  return /beneficiary|payee|credit account|invalid account/i.test(text)
    ? 'beneficiary_rejected'
    : 'bank_rejected'
}

/** Texts of a reference that is known already, of a transfer that was taken or has not ended, and of a fault on the way. */
const OPEN =
  /duplicat|already|must be unique|(?<!\bnot )\bexists|in use|pending|progress|processing|submitted|received|queued|accepted|success|completed|\bpaid\b|credited|time.?out|timed out|malfunction|unavailable|not available|unable to (?!locate|find)|connection|try again|error|unknown/i

/** Whether the text of a refusal leaves open that the transfer was or will be made. */
export function leavesOpen(text: string): boolean {
  return OPEN.test(text)
}

/** What a response says of the transfer that it is about. */
interface Stated {
  readonly reference: string
  /** Undefined if it cannot be read. */
  readonly amountMinor: bigint | undefined
  /** Empty if it is not stated. */
  readonly accountNumber: string
}

/**
 * Compares a response with the order that it should be about.
 *
 * @returns the difference, without account numbers; undefined if there is none
 */
export function differenceFrom(order: TransferOrder, stated: Stated): string | undefined {
  const { reference, amountMinor, accountNumber } = stated
  if (reference === '') return 'the response names no reference'
  if (reference !== order.reference) return 'the response is about another reference'
  if (amountMinor === undefined) return 'the response names no amount'
  if (amountMinor !== order.amountMinor) {
    return `the response is about another amount: ${amountMinor} kobo`
  }
  return accountNumber === '' || accountNumber === order.beneficiary.accountNumber
    ? undefined
    : 'the response is about another account'
}
