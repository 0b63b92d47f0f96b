import { createHash, createHmac, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { EncryptedColumn } from '../../crypto/encrypted-rows.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { RequestFormat } from '../endpoints/endpoint.ts'

/** The input of a request's headers. */
interface Signing {
  /** "evt_…": the same on every attempt, so that a receiver can detect duplicates. */
  readonly eventId: string
  /** Seconds since the Unix epoch, of this attempt. */
  readonly timestampSeconds: number
  /** The body, exactly as it is sent. */
  readonly body: string | Buffer
  /** The active secrets, newest first; at least one. In the WIAXY profile only the first signs. */
  readonly secrets: readonly [string, ...string[]]
}

/** The headers of a request in the format of its endpoint. */
export function signedHeaders(
  signing: Signing,
  { profile, legacySignature }: Pick<RequestFormat, 'profile' | 'legacySignature'>,
): Record<string, string> {
  const common = { 'content-type': 'application/json', 'user-agent': 'Inflow-Webhooks/1' }
  const [newest] = signing.secrets
  if (profile === 'STANDARD') return { ...common, ...standardHeaders(signing) }
  if (profile === null) {
    return { ...common, ...standardHeaders(signing), ...wiaxyHeaders(signing, secretBytes(newest)) }
  }
  return {
    ...common,
    ...wiaxyHeaders(signing, newest),
    ...(legacySignature === 'MD5' && { 'x-wiaxy-signature': md5(newest) }),
    ...(legacySignature === 'HMAC_BODY' && { 'x-wiaxy-signature': hmac(newest, signing.body) }),
  }
}

/** Standard Webhooks 1.0: one signature for each secret. */
function standardHeaders({ eventId, timestampSeconds, body, secrets }: Signing) {
  const signatures = secrets.map((secret) => {
    const signed = createHmac('sha256', secretBytes(secret))
    return `v1,${signed.update(`${eventId}.${timestampSeconds}.`).update(body).digest('base64')}`
  })
  return {
    'webhook-id': eventId,
    'webhook-timestamp': `${timestampSeconds}`,
    'webhook-signature': signatures.join(' '),
  }
}

function wiaxyHeaders({ timestampSeconds, body }: Signing, key: string | Buffer) {
  return {
    'x-wiaxy-timestamp': `${timestampSeconds}`,
    'x-wiaxy-signature-256': hmac(key, `${timestampSeconds}.`, body),
  }
}

function hmac(key: string | Buffer, ...parts: readonly (string | Buffer)[]): string {
  const signed = createHmac('sha256', key)
  for (const part of parts) signed.update(part)
  return signed.digest('hex')
}

/** Existing receivers expect this signature; it proves nothing about the request. */
function md5(text: string): string {
  return createHash('md5').update(text).digest('hex')
}

const PREFIX = 'whsec_'
const SECRET_BYTES = 32
const DECRYPTED_MAX = 1_000

/** Creates a signing secret in the format of Standard Webhooks: `whsec_<base64>`. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

/** Creates a text secret, for the WIAXY profile: 48 hexadecimal digits. */
export function newTextSecret(): string {
  return randomBytes(24).toString('hex')
}

/** A secret of an endpoint. Numbers count 1, 2, 3 …; a rotation adds the next number. */
interface SecretKey {
  readonly endpointId: string
  readonly number: number
}

/** Encrypts a secret; it can be decrypted for the same endpoint and number only. */
export function encryptSecret(encrypter: Encrypter, key: SecretKey, secret: string): Buffer {
  return encrypter.encrypt(secret, contextOf(key))
}

/** @returns `whsec_<base64>`, or a text secret; throws if no known key encrypted it as this secret */
export function decryptSecret(encrypter: Encrypter, key: SecretKey, encrypted: Buffer): string {
  return encrypter.decrypt(encrypted, contextOf(key))
}

/** Decrypts secrets, and caches them. */
export function createSecretDecrypter(
  encrypter: Encrypter,
): (key: SecretKey, encrypted: Buffer) => string {
  const decrypted = new LRUCache<string, string>({ max: DECRYPTED_MAX })
  return (key, encrypted) => {
    const cached = `${contextOf(key)} ${encrypted.toString('latin1')}`
    const known = decrypted.get(cached)
    if (known !== undefined) return known
    const secret = decryptSecret(encrypter, key, encrypted)
    decrypted.set(cached, secret)
    return secret
  }
}

/** @param secret `whsec_<base64>` */
export function secretBytes(secret: string): Buffer {
  return Buffer.from(secret.slice(PREFIX.length), 'base64')
}

function contextOf({ endpointId, number }: SecretKey): string {
  return `webhook endpoint ${endpointId} secret ${number}`
}

/** Where secrets are stored. */
export const SECRET_COLUMN: EncryptedColumn = {
  name: 'webhook secrets',
  table: 'webhook_secret',
  column: 'secret_encrypted',
  key: { endpoint_id: 'text', number: 'int' },
  contextOf: (endpointId = '', number) => contextOf({ endpointId, number: Number(number) }),
}
