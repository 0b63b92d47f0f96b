import type { AccountOrder, AccountResult } from '../bank.ts'
import { type JsonFields, mergeFields } from '../create-fields.ts'
import type { BankResponse } from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import { fieldText } from './notification.ts'

/** The bank accepts no reference of ours, so a retry looks like a new request. */
export function orderBody(order: AccountOrder, createFields: JsonFields): JsonFields {
  return mergeFields(mergeFields({ bvn: '' }, createFields), { account_name: order.accountName })
}

/**
 * Maps a response to the result of an order. Only an explicit rejection proves that no account was
 * opened.
 */
export function toAccountResult(
  order: AccountOrder,
  { status, text }: BankResponse,
): AccountResult {
  const body = parseBankJson(text)
  const code = fieldText(body, 'responseCode')
  const cause = causeOf(status, code, body)
  const accountNumber = fieldText(body, 'account_number')
  const successful = flag(body, 'requestSuccessful')
  if (successful === true && code === '00' && /^\d{10}$/.test(accountNumber)) {
    const accountName = fieldText(body, 'account_name') || order.accountName
    return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
  }
  const isRejected = successful === false && code !== '' && code !== '00' && accountNumber === ''
  // 03 is an error of the bank, which may pass.
  if (isRejected && status < 500) return refused(cause, code !== '03')
  if (REJECTED_STATUSES.has(status) && accountNumber === '') {
    return refused(cause, status !== TOO_MANY_REQUESTS)
  }
  return { kind: 'unknown', cause, next: 'manual review' }
}

const TOO_MANY_REQUESTS = 429

/** Statuses of requests that were not executed, whatever the body. */
const REJECTED_STATUSES: ReadonlySet<number> = new Set([404, 405, TOO_MANY_REQUESTS])

function refused(cause: string, isLasting: boolean): AccountResult {
  return { kind: 'unavailable', cause, ...(isLasting && { refusal: 'request' }) }
}

const AUTHENTICATION_FAILED = '05'

/** Why the bank denies us access; undefined if it does not. */
export function denialOf({ status, text }: BankResponse): string | undefined {
  const body = parseBankJson(text)
  const code = fieldText(body, 'responseCode')
  const isDenied =
    code === AUTHENTICATION_FAILED
      ? status < 500 && flag(body, 'requestSuccessful') !== true
      : status === 401 || status === 403
  return isDenied ? causeOf(status, code, body) : undefined
}

function causeOf(status: number, code: string, body: unknown): string {
  const message = plainText(fieldText(body, 'responseMessage'), 200)
  return `HTTP ${status}, responseCode ${JSON.stringify(plainText(code, 20))}: ${message}`
}

function flag(body: unknown, field: string): unknown {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, field)) return undefined
  return (body as Readonly<Record<string, unknown>>)[field]
}
