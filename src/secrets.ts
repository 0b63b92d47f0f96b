import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
} from 'node:crypto'
import { assert } from './errors.ts'

/** Encrypts what must not be readable in the database, and hashes what must only be compared. */
export interface Sealer {
  /**
   * AES-256-GCM under a key derived from the master key.
   *
   * @param context what the text belongs to; it opens only with the same
   * @returns version, key id, nonce, tag and ciphertext
   */
  seal(text: string, context: string): Buffer
  /** @throws when the key is another, the context differs or the bytes were changed */
  open(sealed: Uint8Array, context: string): string
  /** Keyed hash, 32 bytes: equal for equal texts, and of no use without the master key. */
  fingerprint(text: string): Buffer
}

const VERSION = 1
const KEY_ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 1 + KEY_ID_BYTES

/** @param masterKey 32 bytes */
export function createSealer(masterKey: Buffer): Sealer {
  const derive = (purpose: string) =>
    Buffer.from(hkdfSync('sha256', masterKey, '', `inflow ${purpose}`, 32))
  const sealingKey = derive('sealing')
  const hashingKey = derive('fingerprint')
  // Names the key without telling anything of it, so that a rotation finds what is left to do.
  const keyId = createHash('sha256').update(derive('key id')).digest().subarray(0, KEY_ID_BYTES)
  return {
    seal(text, context) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', sealingKey, nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.of(VERSION), keyId, nonce, cipher.getAuthTag(), body])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      assert(bytes[0] === VERSION, 'the sealed text has a known version')
      assert(bytes.subarray(1, HEAD_BYTES).equals(keyId), 'the master key is the one that sealed')
      const nonce = bytes.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES)
      const tag = bytes.subarray(HEAD_BYTES + NONCE_BYTES, HEAD_BYTES + NONCE_BYTES + TAG_BYTES)
      const decipher = createDecipheriv('aes-256-gcm', sealingKey, nonce)
        .setAAD(Buffer.from(context))
        .setAuthTag(tag)
      const body = bytes.subarray(HEAD_BYTES + NONCE_BYTES + TAG_BYTES)
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
    },
    fingerprint: (text) => createHmac('sha256', hashingKey).update(text).digest(),
  }
}
