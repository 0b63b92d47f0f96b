import { createHash, createSign, createVerify, type KeyObject } from 'node:crypto'

type Fields = Readonly<Record<string, unknown>>

/** Whether the merchant signed this request. Implemented independently of the connector. */
export function isRequestSigned(body: Fields, signature: string, key: KeyObject): boolean {
  const verifier = createVerify('RSA-SHA1')
  verifier.update(digestOf(body, (value) => value.trim()))
  return verifier.verify(key, signature, 'base64')
}

/** Signs as PalmPay does: with the values unchanged. */
export function signFake(fields: Fields, key: KeyObject): string {
  const signer = createSign('RSA-SHA1')
  signer.update(digestOf(fields, (value) => value))
  return signer.sign(key, 'base64')
}

function digestOf(fields: Fields, prepare: (value: string) => string): string {
  const pairs: string[] = []
  for (const name of Object.keys(fields).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))) {
    const value = fields[name]
    if (value === null || value === undefined) continue
    const text = prepare(typeof value === 'object' ? JSON.stringify(value) : String(value))
    if (text.length > 0) pairs.push(name.concat('=', text))
  }
  return createHash('md5').update(pairs.join('&')).digest('hex').toUpperCase()
}
