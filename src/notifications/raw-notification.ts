import type { BankNotification } from '../banks/bank.ts'
import type { Encrypter } from '../crypto/encryption.ts'

/** Of no use to a connector, and not the bank's. */
const LEFT_OUT = new Set(['cookie', 'host', 'connection', 'accept', 'accept-encoding'])

const contextOf = (id: string): string => `bank_notification ${id}`

/** A notification as it came, encrypted: it has names, account numbers and the bank's credentials. */
export function encryptNotification(
  encrypter: Encrypter,
  id: string,
  { headers, rawBody, pathSecret }: BankNotification,
): Buffer {
  const kept = Object.entries(headers).filter(([name]) => !LEFT_OUT.has(name))
  const raw = { headers: Object.fromEntries(kept), body: rawBody.toString('base64'), pathSecret }
  return encrypter.encrypt(JSON.stringify(raw), contextOf(id))
}

/** @throws when it was sealed under another key */
export function decryptNotification(
  encrypter: Encrypter,
  id: string,
  sealed: Buffer,
): BankNotification {
  const { headers, body, pathSecret } = JSON.parse(encrypter.decrypt(sealed, contextOf(id))) as {
    readonly headers: Record<string, string>
    readonly body: string
    readonly pathSecret: string
  }
  return { headers, rawBody: Buffer.from(body, 'base64'), pathSecret }
}

/** The same under the current key; undefined when no known key opens it. */
export function reEncryptNotification(
  encrypter: Encrypter,
  id: string,
  sealed: Uint8Array,
): Buffer | undefined {
  try {
    return encrypter.encrypt(encrypter.decrypt(sealed, contextOf(id)), contextOf(id))
  } catch {
    return undefined
  }
}
