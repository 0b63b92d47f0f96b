import { createVerify, generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { Clock } from '../../../core/clock.ts'
import type { FakeRequest, FakeResponse } from '../../fake/loopback-server.ts'
import { DEBIT_ACCOUNT } from './transfers.ts'

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Issues and checks the tokens of the fake Safe Haven. @param audience returns the required audience of assertions */
export function createSafeHavenTokens(
  credentials: SafeHavenCredentials,
  clock: Clock,
  tokenSeconds: number,
  audience: () => string,
) {
  const expiresAtMs = new Map<string, number>()
  let issued = 0
  return {
    issue({ headers, body }: FakeRequest): FakeResponse {
      const fields = fieldsOf(headers['content-type'] ?? '', body)
      const isKnown =
        fields['grant_type'] === 'client_credentials' &&
        fields['client_id'] === credentials.clientId &&
        fields['client_assertion_type'] === ASSERTION_TYPE &&
        isValidAssertion(fields['client_assertion'] ?? '', credentials, audience(), clock.now())
      if (!isKnown) return toResponse(401, { error: 'invalid_client', message: 'Invalid client.' })
      issued += 1
      const token = `fake.${issued}.${clock.now()}`
      expiresAtMs.set(token, clock.now() + tokenSeconds * 1_000)
      return toResponse(201, {
        access_token: token,
        client_id: credentials.clientId,
        token_type: 'Bearer',
        expires_in: tokenSeconds,
        refresh_token: `refresh.${issued}`,
        ibs_client_id: credentials.ibsClientId,
        ibs_user_id: '61e5a83ac6f0ec001ee90fad',
      })
    },
    /** @returns undefined if the request is authenticated */
    rejectionOf({ headers }: FakeRequest): FakeResponse | undefined {
      const token = headers['authorization']?.replace(/^Bearer /, '') ?? ''
      if ((expiresAtMs.get(token) ?? 0) <= clock.now()) {
        return toResponse(401, { statusCode: 401, message: 'Unauthorized' })
      }
      if (headers['clientid'] === credentials.ibsClientId) return undefined
      return toResponse(403, { statusCode: 403, message: 'Client mismatch' })
    },
    expire: () => expiresAtMs.clear(),
  }
}

function toResponse(status: number, body: object): FakeResponse {
  return { status, body: JSON.stringify(body) }
}

function fieldsOf(contentType: string, body: string): Readonly<Record<string, string | undefined>> {
  if (contentType.startsWith('application/x-www-form-urlencoded')) {
    return Object.fromEntries(new URLSearchParams(body))
  }
  return (parse(body) ?? {}) as Record<string, string>
}

/** Implemented independently of the connector. */
function isValidAssertion(
  jwt: string,
  { clientId, companyUrl, publicKey }: SafeHavenCredentials,
  audience: string,
  nowMs: number,
): boolean {
  const [head = '', claims = '', signature = '', rest] = jwt.split('.')
  const verifier = createVerify('RSA-SHA256').update(`${head}.${claims}`)
  if (rest !== undefined || !verifier.verify(publicKey, signature, 'base64url')) return false
  const { alg } = decode(head)
  const { iss, sub, aud, iat, exp } = decode(claims)
  const nowSeconds = nowMs / 1_000
  const isTimely = Number(iat) <= nowSeconds + 5 && Number(exp) > nowSeconds
  return alg === 'RS256' && iss === companyUrl && sub === clientId && aud === audience && isTimely
}

function decode(part: string): Readonly<Record<string, unknown>> {
  return (parse(Buffer.from(part, 'base64url').toString()) ?? {}) as Record<string, unknown>
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The credentials of both sides: the fake verifies what the service signs. */
export interface SafeHavenCredentials {
  /** The OAuth client id. */
  readonly clientId: string
  /** The client id that is returned with tokens and sent with calls. */
  readonly ibsClientId: string
  readonly companyUrl: string
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

export function generateSafeHavenCredentials(): SafeHavenCredentials {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  return {
    clientId: '0f1e2d3c4b5a69788796a5b4c3d2e1f0',
    ibsClientId: '61e5a83ac6f0ec001ee90fac',
    companyUrl: 'https://company.example',
    privateKey,
    publicKey,
  }
}

/** The settings of a service that uses the fake at `url`, except the callback. */
export function safeHavenEnvironment(
  url: string,
  { clientId, companyUrl, privateKey }: SafeHavenCredentials,
): Record<string, string> {
  return {
    BANK_SAFEHAVEN_BASE_URL: url,
    BANK_SAFEHAVEN_CLIENT_ID: clientId,
    BANK_SAFEHAVEN_COMPANY_URL: companyUrl,
    BANK_SAFEHAVEN_PRIVATE_KEY: privateKey
      .export({ format: 'der', type: 'pkcs8' })
      .toString('base64'),
    BANK_SAFEHAVEN_IDENTITY_ID: '64f0c0ffee64f0c0ffee0001',
    BANK_SAFEHAVEN_SETTLEMENT_ACCOUNT: '0119536306',
    BANK_SAFEHAVEN_TRANSFER_ACCOUNT: DEBIT_ACCOUNT.number,
    BANK_SAFEHAVEN_TRANSFER_ACCOUNT_ID: DEBIT_ACCOUNT.id,
  }
}
