import { getPath } from './get-path.ts'

/** An object of a bank's JSON, as `parseBankJson` reads it. */
export type BankFields = Readonly<Record<string, unknown>>

/** @returns undefined when it is no object */
export function fieldsOf(value: unknown): BankFields | undefined {
  const isFields = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isFields ? (value as BankFields) : undefined
}

/** The text at a place, without the blanks that banks pad it with. */
export function textOf(fields: unknown, path: string): string {
  return getPath(fields, path).trim()
}

/** What payments are named with, here as at the banks. */
export function isPaymentKey(text: string): boolean {
  return /^[A-Za-z0-9_./-]{1,64}$/.test(text)
}

export function isAccountNumber(text: string): boolean {
  return /^\d{10}$/.test(text)
}
