import type { TransferState } from './transfer.ts'

type Failure = Extract<TransferState, { kind: 'failed' }>['reason']

/**
 * Codes by which the bank or the beneficiary's bank refused a transfer.
 *
 * Source: the response codes in the specification of the interbank switch (NIBSS Instant Payment).
 * Only those are here that ISO 8583 and public integrations read as a refusal too: a mistake in this
 * table would repay money that was paid.
 */
const REFUSALS: ReadonlyMap<string, Failure> = new Map([
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

/** In progress, and "status unknown, wait for the settlement report". */
const PENDING: ReadonlySet<string> = new Set(['09', '01'])

const OPEN: ReadonlySet<string> = new Set([
  '00',
  '01',
  '09',
  '26',
  '68',
  '91',
  '92',
  '94',
  '96',
  '97',
])

/**
 * Whether a code leaves open that the transfer was or will be made: approved, in progress, status unknown, duplicates,
 * timeouts and faults on the way. No text beside it counts then: banks put what the sender wrote into it.
 */
export function isOpenCode(code: string): boolean {
  return OPEN.has(code)
}

/**
 * Reads a transfer's response code other than 00 (approved), as banks pass it on from the interbank
 * switch. All other codes prove nothing: among them are timeouts (68, 97), faults on the way
 * (91, 92, 96), duplicates (26, 94) and codes that banks use differently (03, 06, 25).
 */
export function readNipCode(code: string, cause: string): TransferState {
  const reason = REFUSALS.get(code)
  if (reason !== undefined) return { kind: 'failed', reason, cause }
  return { kind: PENDING.has(code) ? 'pending' : 'unknown', cause }
}

/** The code with which the interbank switch says that the beneficiary's bank has no such account. */
export const NIP_INVALID_ACCOUNT = '07'

/** Without words of a denial, and of a response that was returned in place of the money. */
const RETURNED =
  /^(?!.*\b(no|not|never|pending|progress|awaiting|unable|cannot|could|failed to|to be|error|response|code|exception|null|nothing)\b).*\b(reversed|returned)\b/i

/**
 * Whether the text of a transfer's state says that the money came back. A guess: no document of a bank here says how
 * its status query shows that.
 */
export function saysReturned(text: string): boolean {
  return RETURNED.test(text)
}
