import type { TransferOrder, TransferState } from './transfer.ts'

/** Why a bank will not pay a transfer. */
export type FailureReason = Extract<TransferState, { kind: 'failed' }>['reason']

/**
 * The response codes of the interbank switch (NIP) after which no money moves. Any other code but 00
 * is not clear: 01, 09, 68, 91, 96 and 97 leave the transfer open, and 26 and 94 speak of a duplicate.
 *
 * Source: NIBSS, NIP interface specification, response codes.
 */
const REASONS: Readonly<Record<string, FailureReason>> = {
  '03': 'bank_rejected', // invalid sender
  '05': 'bank_rejected', // do not honour
  '06': 'beneficiary_rejected', // dormant account
  '07': 'beneficiary_rejected', // invalid account
  '08': 'beneficiary_rejected', // account name mismatch
  '12': 'bank_rejected', // invalid transaction
  '13': 'bank_rejected', // invalid amount
  '16': 'beneficiary_rejected', // unknown bank
  '30': 'bank_rejected', // format error
  '34': 'bank_rejected', // suspected fraud
  '51': 'insufficient_float',
  '57': 'bank_rejected', // not permitted to the sender
  '58': 'bank_rejected', // not permitted on the channel
  '61': 'bank_rejected', // limit exceeded
  '63': 'bank_rejected', // security violation
  '65': 'bank_rejected', // too many transfers
  '69': 'beneficiary_rejected', // account is blocked
}

/** @returns undefined unless the code states that no money moved */
export function reasonOfCode(code: string): FailureReason | undefined {
  return Object.hasOwn(REASONS, code) ? REASONS[code] : undefined
}

/** Reads the reason from the text of a refusal, for banks without a code. */
export function reasonOfText(text: string): FailureReason {
  if (/insufficient|not enough|low balance/i.test(text)) return 'insufficient_float'
  if (/\b(debit|source|sender)/i.test(text)) return 'bank_rejected'
  return /beneficiary|payee|credit account|name.?enquiry|invalid account/i.test(text)
    ? 'beneficiary_rejected'
    : 'bank_rejected'
}

/**
 * Whether a refusal may hide a transfer that was made: the bank knows the reference already, or
 * says that it has not finished.
 */
export function mayBeMade(text: string): boolean {
  return /duplicat|already|must be unique|pending|progress|processing|time.?out|timed out/i.test(
    text,
  )
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
