import { getPath } from './get-path.ts'

/** A JSON object from a bank, as `parseBankJson` returns it. */
export type BankFields = Readonly<Record<string, unknown>>

/** @returns undefined unless the value is an object */
export function fieldsOf(value: unknown): BankFields | undefined {
  const isFields = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isFields ? (value as BankFields) : undefined
}

/** @returns the text at `path`, without the spaces that banks pad it with */
export function textOf(fields: unknown, path: string): string {
  return getPath(fields, path).trim()
}

/** Whether the text is valid as a session id or as a bank's key of a payment. */
export function isPaymentKey(text: string): boolean {
  return /^[A-Za-z0-9_./-]{1,64}$/.test(text)
}

export function isAccountNumber(text: string): boolean {
  return /^\d{10}$/.test(text)
}
