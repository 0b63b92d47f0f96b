import { createHash } from 'node:crypto'
import { formatAmount } from '../../core/money.ts'
import { equalSecrets } from '../equal-secrets.ts'

/** What the hash of a notification covers; texts as they came. */
export interface HashedFields {
  readonly senderAccountNumber: string
  readonly senderBankCode: string
  readonly accountNumber: string
  readonly amountMinor: bigint
}

/**
 * The hash of a notification: SHA-512, hexadecimal in upper case.
 *
 * It leaves out the session id, and has nothing between the fields, so that digits can be moved from
 * one to the next: it proves that the password is known, and binds no payment.
 *
 * @param password of the Basic authentication of notifications
 */
export function notificationHash(fields: HashedFields, password: string): string {
  const { senderAccountNumber, senderBankCode, accountNumber, amountMinor } = fields
  return createHash('sha512')
    .update(
      password + senderAccountNumber + senderBankCode + accountNumber + formatAmount(amountMinor),
    )
    .digest('hex')
    .toUpperCase()
}

/** Whether an `Authorization` header is Basic authentication of that user. */
export function isBasic(header: string | undefined, user: string, password: string): boolean {
  const [, encoded] = /^Basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? '') ?? []
  const given = Buffer.from(encoded ?? '', 'base64').toString('utf8')
  return equalSecrets(given, `${user}:${password}`)
}
