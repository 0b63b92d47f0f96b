import { generateKeyPairSync, type KeyObject } from 'node:crypto'

/** The credentials of both sides: the fake verifies what the service signs. */
export interface PalmPayCredentials {
  readonly appId: string
  readonly merchantPrivateKey: KeyObject
  readonly merchantPublicKey: KeyObject
  readonly bankPrivateKey: KeyObject
  readonly bankPublicKey: KeyObject
}

export function generatePalmPayCredentials(): PalmPayCredentials {
  const merchant = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const bank = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  return {
    appId: 'L240000000000000000001',
    merchantPrivateKey: merchant.privateKey,
    merchantPublicKey: merchant.publicKey,
    bankPrivateKey: bank.privateKey,
    bankPublicKey: bank.publicKey,
  }
}

/** The settings of a service that uses the fake at `url`, with keys in the format of the portal. */
export function palmPayEnvironment(
  url: string,
  { appId, merchantPrivateKey, bankPublicKey }: PalmPayCredentials,
): Record<string, string> {
  const der = { format: 'der' } as const
  return {
    BANK_PALMPAY_BASE_URL: url,
    BANK_PALMPAY_APP_ID: appId,
    BANK_PALMPAY_PRIVATE_KEY: merchantPrivateKey
      .export({ ...der, type: 'pkcs8' })
      .toString('base64'),
    BANK_PALMPAY_PUBLIC_KEY: bankPublicKey.export({ ...der, type: 'spki' }).toString('base64'),
  }
}
