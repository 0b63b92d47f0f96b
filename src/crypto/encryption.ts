import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { assert } from '../core/errors.ts'

/** The master keys that are known, 32 bytes each. */
export interface KeyRing {
  /** The one that encrypts. */
  readonly current: Buffer
  /** Those that open beside it: earlier ones, and at the beginning of a rotation the next one. */
  readonly others: readonly Buffer[]
}

/** Encrypts what must not be readable in the database, and hashes what must only be compared. */
export interface Encrypter {
  /** Names the current key, and tells nothing of it: 8 hexadecimal digits. */
  readonly keyId: string
  /** Of the current key and the others. */
  readonly knownKeyIds: readonly string[]
  /**
   * AES-256-GCM under a key derived from the current master key.
   *
   * @param context what the text belongs to; it opens only with the same
   * @returns version, key id, nonce, tag and ciphertext
   */
  seal(text: string, context: string): Buffer
  /** @throws when the key is not known, the context differs or the bytes were changed */
  open(sealed: Uint8Array, context: string): string
  /** Keyed hash: equal for equal texts, and of no use without the key. Version, key id, 32 bytes. */
  fingerprint(text: string): Buffer
  /** The hashes of a text under each known key, for a search while a rotation is under way. */
  fingerprints(text: string): readonly Buffer[]
  /**
   * Whether a fingerprint is of the text, whichever known key it was made with.
   *
   * @throws when its key is not known
   */
  matches(text: string, fingerprint: Uint8Array): boolean
  /** Begins everything that is made with the current key: version and key id. */
  readonly head: Buffer
  /** From now on, uses these keys. */
  use(keys: KeyRing): void
}

/** The length of fingerprints. The first release made them without version and key id. */
export const FINGERPRINT_BYTES = 37

const VERSION = 1
const KEY_ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HASH_BYTES = 32
const HEAD_BYTES = 1 + KEY_ID_BYTES

/** What is derived from one master key. */
interface Keys {
  readonly id: string
  readonly head: Buffer
  readonly sealing: Buffer
  readonly hashing: Buffer
}

/** @param current 32 bytes, as are the others */
export function createEncrypter(current: Buffer, others: readonly Buffer[] = []): Encrypter {
  let ring = deriveRing({ current, others })
  const keysOf = (bytes: Buffer): Keys => {
    assert(bytes[0] === VERSION, 'the sealed text has a known version')
    const found = ring.find((keys) => bytes.subarray(0, HEAD_BYTES).equals(keys.head))
    assert(found, 'the master key that sealed it is known')
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
    seal(text, context) {
      const { head, sealing } = ring[0]
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', sealing, nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([head, nonce, cipher.getAuthTag(), body])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      const { sealing } = keysOf(bytes)
      const nonce = bytes.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES)
      const tag = bytes.subarray(HEAD_BYTES + NONCE_BYTES, HEAD_BYTES + NONCE_BYTES + TAG_BYTES)
      const decipher = createDecipheriv('aes-256-gcm', sealing, nonce)
        .setAAD(Buffer.from(context))
        .setAuthTag(tag)
      const body = bytes.subarray(HEAD_BYTES + NONCE_BYTES + TAG_BYTES)
      return Buffer.concat([decipher.update(body), decipher.final()]).toString('utf8')
    },
    fingerprint: (text) => fingerprintWith(ring[0], text),
    fingerprints: (text) => ring.map((keys) => fingerprintWith(keys, text)),
    matches(text, fingerprint) {
      const bytes = Buffer.from(fingerprint)
      if (bytes.length === HASH_BYTES) {
        return ring.some((keys) => timingSafeEqual(hashWith(keys, text), bytes))
      }
      const made = fingerprintWith(keysOf(bytes), text)
      return made.length === bytes.length && timingSafeEqual(made, bytes)
    },
    use(keys) {
      ring = deriveRing(keys)
    },
  }
}

/** A key that is named twice counts once. The current one comes first. */
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
    sealing: derive('sealing'),
    hashing: derive('fingerprint'),
  }
}

function hashWith({ hashing }: Keys, text: string): Buffer {
  return createHmac('sha256', hashing).update(text).digest()
}

function fingerprintWith(keys: Keys, text: string): Buffer {
  return Buffer.concat([keys.head, hashWith(keys, text)])
}
