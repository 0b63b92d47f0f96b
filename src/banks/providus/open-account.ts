import type { AccountOrder, AccountResult } from '../bank.ts'
import { type JsonFields, mergeFields } from '../create-fields.ts'
import type { BankAnswer } from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import { said } from './notification.ts'

/** The bank takes no reference of ours: nothing in this tells one request from its repetition. */
export function orderBody(order: AccountOrder, createFields: JsonFields): JsonFields {
  return mergeFields(mergeFields({ bvn: '' }, createFields), { account_name: order.accountName })
}

/**
 * What an answer says became of an order. Only a plain refusal is one: whatever else may hide an
 * account that exists.
 */
export function toAccountResult(order: AccountOrder, { status, text }: BankAnswer): AccountResult {
  const body = parseBankJson(text)
  const code = said(body, 'responseCode')
  const message = plainText(said(body, 'responseMessage'), 200)
  const cause = `HTTP ${status}, responseCode ${JSON.stringify(plainText(code, 20))}: ${message}`
  const accountNumber = said(body, 'account_number')
  const successful = flag(body, 'requestSuccessful')
  if (successful === true && code === '00' && /^\d{10}$/.test(accountNumber)) {
    const accountName = said(body, 'account_name') || order.accountName
    return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
  }
  const refused = successful === false && code !== '' && code !== '00' && accountNumber === ''
  if (refused && status < 500) return { kind: 'unavailable', cause }
  if (SHUT.has(status) && accountNumber === '') return { kind: 'unavailable', cause }
  return { kind: 'unknown', cause, next: 'person' }
}

/** Statuses of requests that were not let in, whatever the body is. */
const SHUT: ReadonlySet<number> = new Set([401, 403, 404, 405, 429])

function flag(body: unknown, field: string): unknown {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, field)) return undefined
  return (body as Readonly<Record<string, unknown>>)[field]
}
