import { errors } from 'undici'
import { CertificateError, RefusedError } from './connect.ts'

/** A request got no response. Its message is shown to users. */
export class NoResponseError extends Error {
  override readonly name = 'NoResponseError'
}

export const NOT_HTTP = 'the response is not HTTP'

const TEXTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed without a response',
  EPIPE: 'connection closed without a response',
  UND_ERR_SOCKET: 'connection closed without a response',
  UND_ERR_HEADERS_OVERFLOW: 'the response headers are too large',
  // Two headers contradict each other about the length of the response.
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: NOT_HTTP,
  // An unrequested 101 response.
  ERR_ASSERTION: NOT_HTTP,
  UND_ERR_CONNECT_TIMEOUT: 'could not connect within 5 s',
  ETIMEDOUT: 'could not connect within 5 s',
  EHOSTUNREACH: 'host cannot be reached',
  ENETUNREACH: 'host cannot be reached',
  EADDRNOTAVAIL: 'host cannot be reached',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name could not be resolved',
  CERT_HAS_EXPIRED: 'TLS certificate expired',
  CERT_NOT_YET_VALID: 'TLS certificate not valid yet',
  CERT_REVOKED: 'TLS certificate revoked',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'TLS certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'TLS certificate is from an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT: 'TLS certificate is from an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'TLS certificate is from an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'TLS certificate chain is incomplete',
  ERR_TLS_CERT_ALTNAME_INVALID: 'TLS certificate is for another host name',
  EPROTO: 'TLS handshake failed',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'the receiver requires a client certificate',
}

/** Describes for users why a request got no response. */
export function failureText(error: unknown): string {
  if (error instanceof NoResponseError || error instanceof RefusedError) return error.message
  if (error instanceof CertificateError) return error.message
  if (error instanceof errors.HTTPParserError) return NOT_HTTP
  const code = codeOf(error)
  const known = TEXTS[code]
  if (known) return known
  if (code.startsWith('ERR_SSL_')) return 'TLS handshake failed'
  return code === '' ? 'the request failed' : `the request failed (${code})`
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return codeOf(error.cause)
}
