import type { EncryptedColumn } from '../../crypto/encrypted-rows.ts'
import type { Encrypter } from '../../crypto/encryption.ts'

/** The headers, authentication and certificate of requests to an endpoint. Stored encrypted as a whole. */
export interface Connection {
  /** The origin of the URL for which it was stated. It is sent to no other origin. */
  readonly origin: string
  readonly headers: readonly Header[]
  readonly authentication: Authentication | undefined
  readonly certificate: ClientCertificate | undefined
}

/** A certificate with its chain, and its key, in PEM. */
export interface ClientCertificate {
  readonly cert: string
  readonly key: string
}

export interface Header {
  readonly name: string
  readonly value: string
}

export type Authentication = BasicAuthentication | OAuth2Client

export interface BasicAuthentication {
  readonly method: 'basic'
  readonly username: string
  readonly password: string
}

/** OAuth 2.0 client credentials (RFC 6749, 4.4). Empty texts are left out of requests. */
export interface OAuth2Client {
  readonly method: 'oauth2'
  readonly tokenUrl: string
  readonly clientId: string
  readonly clientSecret: string
  readonly scope: string
  readonly audience: string
  /** Whether the credentials are in the body or, if false, in the authorization header. */
  readonly credentialsInBody: boolean
}

/** The changes of a connection; undefined keeps a part, and null removes it. */
export interface ConnectionChange {
  readonly headers?: readonly Header[] | undefined
  readonly authentication?: Authentication | null | undefined
  readonly certificate?: ClientCertificate | null | undefined
}

/** Applies a change. @returns undefined if nothing is left */
export function changedConnection(
  current: Connection | undefined,
  change: ConnectionChange,
  origin: string,
): Connection | undefined {
  const { headers = current?.headers ?? [], authentication = current?.authentication } = change
  const { certificate = current?.certificate } = change
  if (headers.length === 0 && !authentication && !certificate) return undefined
  return {
    origin,
    headers,
    authentication: authentication ?? undefined,
    certificate: certificate ?? undefined,
  }
}

/** Encrypts a connection; it can be decrypted for the same endpoint only. */
export function encryptConnection(
  encrypter: Encrypter,
  endpointId: string,
  connection: Connection,
): Buffer {
  return encrypter.encrypt(JSON.stringify(connection), contextOf(endpointId))
}

/** @throws if no known key encrypted it for this endpoint */
export function decryptConnection(
  encrypter: Encrypter,
  endpointId: string,
  encrypted: Uint8Array,
): Connection {
  return JSON.parse(encrypter.decrypt(encrypted, contextOf(endpointId))) as Connection
}

function contextOf(endpointId: string): string {
  return `webhook endpoint ${endpointId} connection`
}

/** Where connections are stored. */
export const CONNECTION_COLUMN: EncryptedColumn = {
  name: 'webhook connections',
  table: 'webhook_endpoint',
  column: 'connection_encrypted',
  key: { id: 'text' },
  contextOf,
}
