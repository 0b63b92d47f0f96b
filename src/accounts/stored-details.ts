import { type BankCode, ID_KINDS, type IdKind } from '../banks/bank.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { type AccountDetails, detailsText, identityContext } from './account.ts'
import type { Split } from './splits/split.ts'
import type { AllowedPayer, AmountRule, Metadata } from './terms.ts'

/** The columns of an account that its details are stored in. */
interface StoredDetails {
  readonly id: string
  readonly bank: BankCode
  readonly firstName: string
  readonly lastName: string
  readonly email: string
  readonly phone: string
  readonly idType?: IdKind | null | undefined
  readonly idNumberEncrypted?: Uint8Array | null | undefined
  readonly oneTime: boolean
  readonly expectedAmountMinor?: bigint | null | undefined
  readonly amountRule: AmountRule
  readonly expiresAt?: Date | null | undefined
  readonly expiresInSeconds?: number | null | undefined
  readonly singleUse: boolean
  readonly allowedPayers?: readonly AllowedPayer[] | null | undefined
  readonly metadata?: Metadata | null | undefined
}

/**
 * The details of a stored account.
 *
 * @throws if no known key decrypts its identity number
 */
export function readDetails(encrypter: Encrypter, account: StoredDetails): AccountDetails {
  const { bank, firstName, lastName, email, phone, idNumberEncrypted } = account
  const idNumber = idNumberEncrypted
    ? encrypter.decrypt(idNumberEncrypted, identityContext(account.id))
    : undefined
  const terms = {
    expectedAmountMinor: account.expectedAmountMinor ?? undefined,
    amountRule: account.amountRule,
    expiresAtMs: account.expiresAt?.getTime(),
    expiresInSeconds: account.expiresInSeconds ?? undefined,
    singleUse: account.singleUse,
    allowedPayers: account.allowedPayers ?? [],
  }
  return {
    bank,
    firstName,
    lastName,
    email,
    phone,
    idNumber,
    idType: account.idType ?? undefined,
    terms: account.oneTime ? terms : undefined,
    metadata: account.metadata ?? undefined,
  }
}

/** The details without the identity: their hash is stored if the identity was attached to the open account later. */
export function withoutIdentity<Details extends AccountDetails>(details: Details): Details {
  return { ...details, idType: undefined, idNumber: undefined }
}

/** The details to store. A kind without a number is dropped, because the kind of a number that is attached later replaces it. */
export function withoutLoneKind<Details extends AccountDetails>(details: Details): Details {
  return details.idNumber ? details : withoutIdentity(details)
}

/**
 * Finds the details that a stored hash was computed from: those given, or those without the identity. Earlier versions
 * hashed a kind without a number, too.
 *
 * @returns undefined if the hash was computed from other details
 */
export function findHashed<Details extends AccountDetails>(
  encrypter: Encrypter,
  details: Details,
  detailsHash: Uint8Array,
): Details | undefined {
  const lone = ID_KINDS.map((idType) => ({ ...details, idType, idNumber: undefined }))
  return [details, withoutIdentity(details), ...lone].find((each) =>
    encrypter.matches(detailsText(each), detailsHash),
  )
}

/**
 * The details that the hash of a stored account was computed from.
 *
 * @returns undefined if the hash was computed from other details
 * @throws if no known key decrypts its identity number
 */
export function readHashedDetails(
  encrypter: Encrypter,
  account: StoredDetails & { readonly detailsHash: Uint8Array },
  split: Split | undefined,
): AccountDetails | undefined {
  const details = { ...readDetails(encrypter, account), split }
  return findHashed(encrypter, details, account.detailsHash)
}
