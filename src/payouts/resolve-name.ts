import { areNamesAlike } from '../accounts/terms.ts'
import type { Owner } from '../auth/method-policy.ts'
import { BANK_CODES, BANK_FACTS, type BankCode, type BankOf } from '../banks/bank.ts'
import type { Institution, Institutions } from '../banks/institutions.ts'
import { isNubanFault } from '../banks/institutions.ts'
import type { TransferAccount, TransferConnector } from '../banks/transfer.ts'
import type { Clock } from '../core/clock.ts'
import { MINUTE_MS } from '../core/durations.ts'
import { Fault, type FieldFault, invalidFields } from '../core/errors.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Destination } from './payout.ts'

/** How long a resolution is valid. */
export const RESOLUTION_MS = 15 * MINUTE_MS

export interface NameContext {
  readonly bankOf: BankOf
  readonly institutions: Institutions
  readonly encrypter: Encrypter
}

/** An account with the name that a bank stated. */
export interface ResolvedAccount {
  readonly destination: Destination
  /** The bank that stated the name; undefined: no bank was asked. */
  readonly bank: BankCode | undefined
  /** The reference of the enquiry that the transfers of that bank require; may be empty. */
  readonly enquiryReference: string
}

/** The account that a request names. */
export interface RequestedAccount {
  /** Three or six digits. */
  readonly bankCode: string
  readonly accountNumber: string
  /** The expected name; empty: a resolution is given. */
  readonly accountName: string
  /** The request field that holds these three fields, for faults; empty: they are fields of the request itself. */
  readonly field: string
}

/** The banks that can pay in a mode, with their transfer connectors. */
export function transferBanks(bankOf: BankOf, live: boolean): Map<BankCode, TransferBank> {
  const banks = BANK_CODES.flatMap((bank) => {
    const served = bankOf({ bank, live })
    const transfers = served?.connector.transfers
    if (served === undefined || transfers === undefined) return []
    return [[bank, { transfers, callTimeoutMs: served.callTimeoutMs }] as const]
  })
  return new Map(banks)
}

export interface TransferBank {
  readonly transfers: TransferConnector
  /** How long one call may take, including all of its HTTP requests. */
  readonly callTimeoutMs: number
}

/** @throws Fault validation_failed (there is no such institution) */
function institutionOf(
  institutions: Institutions,
  { bankCode, field }: RequestedAccount,
): Institution {
  const found = institutions.find(bankCode)
  if (found === undefined) {
    throw invalidFields([
      {
        field: field === '' ? 'bankCode' : `${field}.bankCode`,
        message: 'is no institution: see ListBanks',
      },
    ])
  }
  return found
}

/**
 * Asks a bank for the name of an account. It asks the institution of the account first if that is one of our banks, then
 * the others until one answers.
 *
 * @throws Fault validation_failed (no such institution or account), bank_unavailable
 */
export async function enquireName(
  { bankOf, institutions }: Pick<NameContext, 'bankOf' | 'institutions'>,
  request: RequestedAccount,
  live: boolean,
): Promise<ResolvedAccount> {
  const institution = institutionOf(institutions, request)
  const account: TransferAccount = {
    bankCode: institution.code,
    accountNumber: request.accountNumber,
  }
  const isOwn = (bank: BankCode) => BANK_FACTS[bank].interbankCode === institution.code
  const banks = [...transferBanks(bankOf, live)].sort(
    ([a], [b]) => Number(isOwn(b)) - Number(isOwn(a)),
  )
  const causes: string[] = []
  for (const [bank, { transfers, callTimeoutMs }] of banks) {
    const result = await transfers.enquireName(account, AbortSignal.timeout(callTimeoutMs))
    if (result.kind === 'found') {
      const { accountName, enquiryReference } = result
      const destination = { ...account, bankName: institution.name, accountName }
      return { destination, bank, enquiryReference }
    }
    if (result.kind === 'not found') throw invalidFields([unknownAccount(request, institution)])
    causes.push(`${bank}: ${result.cause}`)
  }
  const text =
    banks.length === 0
      ? 'No bank that can pay is connected; its operator has to set one up'
      : 'No bank could state the name of the account; repeat the request later'
  throw new Fault('bank_unavailable', text, { retryAfterSeconds: 30, cause: causes.join('; ') })
}

/** Only the bank decides whether an account exists: some valid account numbers have a wrong check digit. */
function unknownAccount(
  { accountNumber, field }: RequestedAccount,
  institution: Institution,
): FieldFault {
  const isMistyped = isNubanFault(institution, accountNumber)
  const hint = isMistyped ? ': its check digit is wrong for this institution' : ''
  const prefix = field === '' ? '' : `${field}.`
  const message = `is no account of ${institution.name}${hint}`
  return { field: `${prefix}accountNumber`, message }
}

/**
 * Asks a bank for the name of an account. Returns the encrypted answer as a resolution, which payouts of the business can
 * use for 15 minutes.
 *
 * @throws Fault validation_failed (no such institution or account), bank_unavailable
 */
export async function resolveName(
  context: NameContext & { readonly clock: Clock },
  owner: Owner,
  account: Pick<RequestedAccount, 'bankCode' | 'accountNumber'>,
) {
  const requested = { ...account, accountName: '', field: '' }
  const resolved = await enquireName(context, requested, owner.live)
  const expiresAtMs = context.clock.now() + RESOLUTION_MS
  const resolution = encryptResolution(context, owner, resolved, expiresAtMs)
  return { destination: resolved.destination, resolution, expiresAtMs }
}

function encryptResolution(
  { encrypter }: Pick<NameContext, 'encrypter'>,
  owner: Owner,
  { destination, bank, enquiryReference }: ResolvedAccount,
  expiresAtMs: number,
): string {
  const { bankCode, bankName, accountNumber, accountName } = destination
  const parts = [
    expiresAtMs,
    bankCode,
    bankName,
    accountNumber,
    accountName,
    bank,
    enquiryReference,
  ]
  return encrypter.encrypt(JSON.stringify(parts), contextOf(owner)).toString('base64url')
}

type Parts = [number, string, string, string, string, BankCode, string]

/** @throws Fault validation_failed (tampered, expired, or for another business, mode or account) */
function openResolution(
  { encrypter, institutions }: NameContext,
  owner: Owner,
  { resolution, account }: { readonly resolution: string; readonly account: RequestedAccount },
  nowMs: number,
): ResolvedAccount {
  const refuse = (message: string) => invalidFields([{ field: 'resolution', message }])
  const parts = decrypted(encrypter, resolution, contextOf(owner))
  if (parts === undefined) throw refuse('is no resolution for payouts of this business')
  const [expiresAtMs, bankCode, bankName, accountNumber, accountName, bank, enquiryReference] =
    parts
  if (nowMs >= expiresAtMs) throw refuse('has expired: resolve the name again')
  if (
    institutions.find(account.bankCode)?.code !== bankCode ||
    accountNumber !== account.accountNumber
  ) {
    throw refuse('is for another account than the one in the request')
  }
  const destination = { bankCode, bankName, accountNumber, accountName }
  return { destination, bank, enquiryReference }
}

function decrypted(encrypter: Encrypter, text: string, context: string): Parts | undefined {
  try {
    return JSON.parse(encrypter.decrypt(Buffer.from(text, 'base64url'), context)) as Parts
  } catch {
    return undefined
  }
}

function contextOf({ businessId, live }: Owner): string {
  return `name resolution of ${businessId} in ${live ? 'live' : 'test'} mode`
}

/**
 * Resolves the account of a payout request, by the given resolution or by a name enquiry. If the request has an expected
 * name, the name that the bank states must be like it.
 *
 * @throws Fault validation_failed, name_mismatch (with both names), bank_unavailable
 */
export async function resolveAccount(
  context: NameContext,
  owner: Owner,
  { resolution, account }: { readonly resolution: string; readonly account: RequestedAccount },
  nowMs: number,
): Promise<ResolvedAccount> {
  institutionOf(context.institutions, account)
  const resolved =
    resolution === ''
      ? await enquireName(context, account, owner.live)
      : openResolution(context, owner, { resolution, account }, nowMs)
  const expected = account.accountName
  if (expected !== '') requireName(expected, resolved.destination.accountName, account)
  return resolved
}

/** Whether an expected name matches the name that a bank states. */
export function isExpectedName(expected: string, stated: string): boolean {
  // Unicode writes an accented letter as one character or as two.
  const plain = (name: string) => name.normalize('NFC').trim().toLowerCase()
  return areNamesAlike(expected, stated) || plain(expected) === plain(stated)
}

/** @throws Fault name_mismatch */
function requireName(expected: string, stated: string, { field }: RequestedAccount): void {
  if (isExpectedName(expected, stated)) return
  const message = `"${expected}" is not like "${stated}", which the bank states`
  const name = field === '' ? 'accountName' : `${field}.accountName`
  throw new Fault('name_mismatch', `The name of the account ${message}`, {
    fields: [{ field: name, message }],
    facts: { expected_name: expected, bank_name: stated },
  })
}
