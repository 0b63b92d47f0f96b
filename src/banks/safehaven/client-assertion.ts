import { type KeyObject, sign } from 'node:crypto'

/** The claims and the key with which a client requests a token. */
export interface ClientAssertion {
  /** The company's URL. */
  readonly issuer: string
  /** The OAuth client id. */
  readonly clientId: string
  /** The API's URL. */
  readonly audience: string
  readonly lifetimeSeconds: number
  readonly privateKey: KeyObject
}

/** Returns the JWT (RS256) used in place of a client secret. Source: RFC 7523, section 3. */
export function signClientAssertion(assertion: ClientAssertion, nowMs: number): string {
  const iat = Math.floor(nowMs / 1_000)
  const claims = {
    iss: assertion.issuer,
    sub: assertion.clientId,
    aud: assertion.audience,
    iat,
    exp: iat + assertion.lifetimeSeconds,
  }
  const text = `${base64url({ alg: 'RS256', typ: 'JWT' })}.${base64url(claims)}`
  const signature = sign('RSA-SHA256', Buffer.from(text), assertion.privateKey)
  return `${text}.${signature.toString('base64url')}`
}

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
