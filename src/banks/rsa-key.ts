import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'

type Encoding = 'pkcs8' | 'pkcs1' | 'spki'

/**
 * Parses a private RSA key as banks' portals show it: PEM (line ends may be written as `\n`), or
 * the bare base64 of its DER.
 *
 * @returns undefined unless the text is a private RSA key
 */
export function parsePrivateKey(text: string): KeyObject | undefined {
  if (isPem(text)) return attempt(() => createPrivateKey(withLineEnds(text)))
  return (
    attempt(() => createPrivateKey(derOf(text, 'pkcs8'))) ??
    attempt(() => createPrivateKey(derOf(text, 'pkcs1')))
  )
}

/** Parses a public RSA key in the same formats. */
export function parsePublicKey(text: string): KeyObject | undefined {
  // Node would accept a private key, which contains the public one: the operator mixed them up.
  if (parsePrivateKey(text)) return undefined
  if (isPem(text)) return attempt(() => createPublicKey(withLineEnds(text)))
  return (
    attempt(() => createPublicKey(derOf(text, 'spki'))) ??
    attempt(() => createPublicKey(derOf(text, 'pkcs1')))
  )
}

function isPem(text: string): boolean {
  return text.includes('-----BEGIN')
}

function withLineEnds(text: string): string {
  return text.replaceAll('\\n', '\n')
}

function derOf<E extends Encoding>(text: string, type: E) {
  return { key: Buffer.from(text.replace(/\s/g, ''), 'base64'), format: 'der' as const, type }
}

function attempt(read: () => KeyObject): KeyObject | undefined {
  try {
    const key = read()
    return key.asymmetricKeyType === 'rsa' ? key : undefined
  } catch {
    return undefined
  }
}
