import type { BankNotification, BankPayment } from '../banks/bank.ts'
import type { EncryptedColumn } from '../crypto/encrypted-rows.ts'
import type { Encrypter } from '../crypto/encryption.ts'

/** Connectors do not need these headers, and they do not come from the bank's application. */
const OMITTED_HEADERS = new Set(['cookie', 'host', 'connection', 'accept', 'accept-encoding'])

const contextOf = (id: string): string => `bank_notification ${id}`

/** Encrypts a notification as received: it has names, account numbers and the bank's credentials. */
export function encryptNotification(
  encrypter: Encrypter,
  id: string,
  { headers, rawBody, pathSecret }: BankNotification,
): Buffer {
  const stored = Object.entries(headers).filter(([name]) => !OMITTED_HEADERS.has(name))
  const raw = { headers: Object.fromEntries(stored), body: rawBody.toString('base64'), pathSecret }
  return encrypter.encrypt(JSON.stringify(raw), contextOf(id))
}

/** The body of a payment that the bank listed, in place of a notification. */
export function listedBody(payment: BankPayment): Buffer {
  return Buffer.from(JSON.stringify({ ...payment, amountMinor: `${payment.amountMinor}` }))
}

/** Reads what `listedBody` wrote. */
export function listedPayment({ rawBody }: BankNotification): BankPayment {
  const payment = JSON.parse(rawBody.toString('utf8'))
  return { ...payment, amountMinor: BigInt(payment.amountMinor) }
}

/** @throws if it was encrypted under an unknown key */
export function decryptNotification(
  encrypter: Encrypter,
  id: string,
  encrypted: Buffer,
): BankNotification {
  const { headers, body, pathSecret } = JSON.parse(encrypter.decrypt(encrypted, contextOf(id))) as {
    readonly headers: Record<string, string>
    readonly body: string
    readonly pathSecret: string
  }
  return { headers, rawBody: Buffer.from(body, 'base64'), pathSecret }
}

export const NOTIFICATION_COLUMN: EncryptedColumn = {
  name: 'bank notifications',
  table: 'bank_notification',
  column: 'raw_encrypted',
  key: { id: 'text' },
  contextOf,
}
