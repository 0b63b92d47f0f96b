import { createHash } from 'node:crypto'
import { formatAmount } from '../../core/money.ts'
import { equalSecrets } from '../equal-secrets.ts'

/** The fields that the hash of a notification covers; texts are unchanged. */
export interface HashedFields {
  readonly senderAccountNumber: string
  readonly senderBankCode: string
  readonly accountNumber: string
  readonly amountMinor: bigint
}

/**
 * Returns the hash of a notification: SHA-512 in upper-case hexadecimal.
 *
 * It omits the session id and has no separator between the fields, so digits can move from one
 * field to the next: the hash proves knowledge of the password but does not identify a payment.
 *
 * @param password the password of the Basic authentication of notifications
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

/** Whether an `Authorization` header is Basic authentication with these credentials. */
export function isBasic(header: string | undefined, user: string, password: string): boolean {
  const [, encoded] = /^Basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? '') ?? []
  const given = Buffer.from(encoded ?? '', 'base64').toString('utf8')
  return equalSecrets(given, `${user}:${password}`)
}
