import { plainText } from './bank-fields.ts'
import type { TransferOrder, TransferState } from './transfer.ts'

/** Why a bank will not pay a transfer. */
type FailureReason = Extract<TransferState, { kind: 'failed' }>['reason']

/**
 * Codes by which the bank or the beneficiary's bank refused a transfer.
 *
 * Source: the response codes in the specification of NIBSS Instant Payment (NIP). The table has only the
 * codes that ISO 8583 and public integrations also read as a refusal: a mistake here would release money
 * that was paid.
 */
const REFUSALS: ReadonlyMap<string, FailureReason> = new Map([
  ['05', 'beneficiary_rejected'], // do not honour
  ['07', 'beneficiary_rejected'], // invalid account
  ['12', 'bank_rejected'], // invalid transaction
  ['13', 'bank_rejected'], // invalid amount
  ['30', 'bank_rejected'], // format error
  ['34', 'bank_rejected'], // suspected fraud
  ['51', 'insufficient_float'],
  ['57', 'bank_rejected'], // not permitted to the sender
  ['58', 'bank_rejected'], // not permitted on the channel
  ['61', 'bank_rejected'], // limit exceeded
  ['63', 'bank_rejected'], // security violation
  ['65', 'bank_rejected'], // too many withdrawals
])

/** 09: in progress. 01: "status unknown, wait for the settlement report". */
const PENDING: ReadonlySet<string> = new Set(['09', '01'])

const OPEN_CODES: ReadonlySet<string> = new Set('00 01 09 26 68 91 92 94 96 97'.split(' '))

/**
 * Whether, by its code, the transfer may have been made or may still be made: approved, in progress, status unknown,
 * duplicate, timeout, or a fault between the banks. With such a code the text does not count, because banks put the
 * sender's narration into it.
 */
export function isOpenCode(code: string): boolean {
  return OPEN_CODES.has(code)
}

/**
 * Reads a NIP response code other than 00 (approved). Codes outside the two tables prove nothing, for
 * example timeouts (68, 97), faults between the banks (91, 92, 96), duplicates (26, 94) and codes that
 * banks use differently (03, 06, 25).
 */
export function readNipCode(code: string, cause: string): TransferState {
  const reason = REFUSALS.get(code)
  if (reason !== undefined) return { kind: 'failed', reason, cause }
  return { kind: PENDING.has(code) ? 'pending' : 'unknown', cause }
}

/** The NIP response code for "the beneficiary's bank has no such account". */
export const NIP_INVALID_ACCOUNT = '07'

type Narrated = Pick<TransferOrder, 'narration'>

/**
 * Whether a text of the bank says something by which money comes back. Banks put the sender's narration into their texts: so
 * the text has to say it with the narration and without it.
 *
 * @param says ignores case
 */
export function statesItself(
  text: string,
  order: Narrated,
  says: (text: string) => boolean,
): boolean {
  return says(text) && says(withoutNarration(text, order))
}

/** In lower case. */
function withoutNarration(text: string, { narration }: Narrated): string {
  const narrated = plainText(narration, 1_000).toLowerCase()
  return narrated === '' ? text : text.toLowerCase().replaceAll(narrated, ' ')
}

/** Matches "reversed" or "returned" in a text that does not negate it and is not about a returned response. */
const RETURNED =
  /^(?!.*\b(no|not|never|pending|progress|awaiting|unable|cannot|could|failed to|to be|error|response|code|exception|null|nothing)\b).*\b(reversed|returned)\b/i

/**
 * Whether the text of a transfer's state says that the money came back. A guess: no bank documents how its status query
 * shows a return.
 */
export function saysReturned(text: string): boolean {
  return RETURNED.test(text)
}

/**
 * Reads the reason from the text of a refusal, for responses without a code. If the sender's narration decides it, the reason
 * is `bank_rejected`.
 */
export function reasonOfText(text: string, order: Narrated): FailureReason {
  const reason = reasonIn(text)
  return reasonIn(withoutNarration(text, order)) === reason ? reason : 'bank_rejected'
}

function reasonIn(text: string): FailureReason {
  if (/insufficient|not enough|low balance/i.test(text)) return 'insufficient_float'
  if (/\b(debit|source|sender)/i.test(text)) return 'bank_rejected'
  return /beneficiary|payee|credit account|invalid account/i.test(text)
    ? 'beneficiary_rejected'
    : 'bank_rejected'
}

/** Texts about a duplicate reference, an accepted or unfinished transfer, or a technical fault. */
const OPEN_TEXT =
  /duplicat|already|must be unique|(?<!\bnot )\bexists|in use|pending|progress|processing|submitted|received|queued|accepted|success|completed|\bpaid\b|credited|time.?out|timed out|malfunction|unavailable|not available|unable to (?!locate|find)|connection|try again|error|unknown/i

/** Whether, by the text of a refusal, the transfer may have been made or may still be made. */
export function leavesOpen(text: string): boolean {
  return OPEN_TEXT.test(text)
}

/** The facts of a response that are compared with the order. */
interface Stated {
  readonly reference: string
  /** Undefined if the amount cannot be read. */
  readonly amountMinor: bigint | undefined
  /** Empty if the response does not state the account. */
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
