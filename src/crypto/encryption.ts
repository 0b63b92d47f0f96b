import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { assert, Fault } from '../core/errors.ts'

/** The known master keys, 32 bytes each. */
export interface KeyRing {
  /** The key that encrypts. */
  readonly current: Buffer
  /** Keys that only decrypt: earlier keys, and at the start of a rotation the next key. */
  readonly others: readonly Buffer[]
}

/** Encrypts values that the database must not show, and hashes values that are only compared. */
export interface Encrypter {
  /** The id of the current key, 8 hexadecimal digits. It reveals nothing about the key. */
  readonly keyId: string
  /** The ids of the current key and the others. */
  readonly knownKeyIds: readonly string[]
  /**
   * AES-256-GCM under a key derived from the current master key.
   *
   * @param context identifies the owner of the text; decryption needs the same context
   * @returns version, key id, nonce, tag and ciphertext
   */
  encrypt(text: string, context: string): Buffer
  /** @throws Error if the key is unknown, the context differs or the bytes were changed */
  decrypt(ciphertext: Uint8Array, context: string): string
  /** A keyed hash, equal for equal texts, and useless without the key. @returns version, key id and 32 bytes */
  fingerprint(text: string): Buffer
  /** The hashes of a text under each known key, to search by while a rotation is in progress. */
  fingerprints(text: string): readonly Buffer[]
  /**
   * Whether a fingerprint matches the text under any known key.
   *
   * @throws Error if the key of the fingerprint is unknown
   */
  matches(text: string, fingerprint: Uint8Array): boolean
  /** HMAC-SHA256 under a key only for MACs, derived from the current master key, in the format of a fingerprint. */
  mac(text: string): Buffer
  /** Whether a MAC matches the text under any known key. */
  isMacOf(text: string, mac: Uint8Array): boolean
  /** Whether the key of a MAC is known; a MAC begins with the id of its key. */
  knowsKeyOf(mac: Uint8Array): boolean
  /** The first bytes of every ciphertext and hash under the current key: version and key id. */
  readonly head: Buffer
  /**
   * Replaces the known keys.
   *
   * @param mayEncrypt whether the current key still encrypts; otherwise encrypting, hashing and MACs fail with Fault
   *   unavailable. Absent: it always does
   */
  use(keys: KeyRing, mayEncrypt?: () => boolean): void
}

/** The length of a fingerprint or a MAC. The first release made fingerprints without version and key id. */
export const FINGERPRINT_BYTES = 37

const CIPHER = 'aes-256-gcm'

const VERSION = 1
const KEY_ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HASH_BYTES = 32
const HEAD_BYTES = 1 + KEY_ID_BYTES

/** The tag length of decryption: shorter tags, which would be easier to guess, are refused. */
const TAG = { authTagLength: TAG_BYTES }

/** The keys derived from one master key. */
interface Keys {
  readonly id: string
  readonly head: Buffer
  readonly encryption: Buffer
  readonly hashing: Buffer
  readonly authentication: Buffer
}

/** @param current the current key; all keys have 32 bytes */
export function createEncrypter(current: Buffer, others: readonly Buffer[] = []): Encrypter {
  let ring = deriveRing({ current, others })
  let mayEncrypt = (): boolean => true
  const currentKeys = (): Keys => {
    if (mayEncrypt()) return ring[0]
    const cause = 'the master keys were not confirmed in time'
    throw new Fault('unavailable', 'Repeat the request', { retryAfterSeconds: 1, cause })
  }
  const findKeys = (bytes: Buffer): Keys | undefined =>
    ring.find(({ head }) => bytes.subarray(0, HEAD_BYTES).equals(head))
  const keysOf = (bytes: Buffer): Keys => {
    assert(bytes[0] === VERSION, 'the ciphertext has a known version')
    const found = findKeys(bytes)
    assert(found, 'the master key of the ciphertext is known')
    return found
  }
  return {
    get keyId() {
      return ring[0].id
    },
    get knownKeyIds() {
      return ring.map((keys) => keys.id)
    },
    get head() {
      return ring[0].head
    },
    encrypt(text, context) {
      const { head, encryption } = currentKeys()
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, encryption, nonce, TAG).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([head, nonce, cipher.getAuthTag(), body])
    },
    decrypt(ciphertext, context) {
      const bytes = Buffer.from(ciphertext)
      const { encryption } = keysOf(bytes)
      const nonce = bytes.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES)
      const tag = bytes.subarray(HEAD_BYTES + NONCE_BYTES, HEAD_BYTES + NONCE_BYTES + TAG_BYTES)
      const decipher = createDecipheriv(CIPHER, encryption, nonce, TAG)
        .setAAD(Buffer.from(context))
        .setAuthTag(tag)
      const body = bytes.subarray(HEAD_BYTES + NONCE_BYTES + TAG_BYTES)
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
    },
    fingerprint: (text) => fingerprintWith(currentKeys(), text),
    fingerprints: (text) => ring.map((keys) => fingerprintWith(keys, text)),
    matches(text, fingerprint) {
      const bytes = Buffer.from(fingerprint)
      if (bytes.length === HASH_BYTES) {
        return ring.some((keys) => timingSafeEqual(hashWith(keys, text), bytes))
      }
      const expected = fingerprintWith(keysOf(bytes), text)
      return expected.length === bytes.length && timingSafeEqual(expected, bytes)
    },
    mac: (text) => macWith(currentKeys(), text),
    knowsKeyOf: (mac) => findKeys(Buffer.from(mac)) !== undefined,
    isMacOf(text, mac) {
      const bytes = Buffer.from(mac)
      const keys = findKeys(bytes)
      if (keys === undefined || bytes.length !== FINGERPRINT_BYTES) return false
      return timingSafeEqual(macWith(keys, text), bytes)
    },
    use(keys, mayEncryptNow = () => true) {
      ring = deriveRing(keys)
      mayEncrypt = mayEncryptNow
    },
  }
}

/** Removes duplicate keys. The current key comes first. */
function deriveRing({ current, others }: KeyRing): readonly [Keys, ...Keys[]] {
  const first = deriveKeys(current)
  const ring: [Keys, ...Keys[]] = [first]
  for (const keys of others.map(deriveKeys)) {
    if (ring.every((known) => known.id !== keys.id)) ring.push(keys)
  }
  return ring
}

function deriveKeys(masterKey: Buffer): Keys {
  const derive = (purpose: string) =>
    Buffer.from(hkdfSync('sha256', masterKey, '', `inflow ${purpose}`, 32))
  const id = createHash('sha256').update(derive('key id')).digest().subarray(0, KEY_ID_BYTES)
  return {
    id: id.toString('hex'),
    head: Buffer.concat([Buffer.of(VERSION), id]),
    encryption: derive('encryption'),
    hashing: derive('fingerprint'),
    authentication: derive('mac'),
  }
}

function hashWith({ hashing }: Keys, text: string): Buffer {
  return createHmac('sha256', hashing).update(text).digest()
}

function macWith({ head, authentication }: Keys, text: string): Buffer {
  return Buffer.concat([head, createHmac('sha256', authentication).update(text).digest()])
}

function fingerprintWith(keys: Keys, text: string): Buffer {
  return Buffer.concat([keys.head, hashWith(keys, text)])
}
