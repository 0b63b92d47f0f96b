import { generateKeyPairSync, type KeyObject } from 'node:crypto'

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

/** The settings of a service that uses the fake at `url`, except those of its callback. */
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
  }
}
