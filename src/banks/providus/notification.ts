import { createHash } from 'node:crypto'
import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import type { BankNotification, BankPayment, Reading } from '../bank.ts'
import { getPath, isAccountNumber, isPaymentKey, parseNaira } from '../bank-fields.ts'
import { equalSecrets } from '../equal-secrets.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { parseLagosTime } from '../lagos-time.ts'
import { plainText } from '../plain-text.ts'
import type { ProvidusSettings } from './settings.ts'

type AmountField = ProvidusSettings['amountField']

interface NotificationRules {
  readonly clientId: string
  /** The result of `authSignature`. */
  readonly signature: string
  readonly amountField: AmountField
}

/** Parses a notification. Its signature is constant: anyone who has seen it can forge others. */
export function readNotification(
  notification: BankNotification,
  rules: NotificationRules,
): Reading {
  const { headers, rawBody } = notification
  if (!isAuthSignature(headers['x-auth-signature'], rules.signature)) {
    return { kind: 'unauthenticated', cause: 'wrong X-Auth-Signature' }
  }
  const clientId = headers['client-id']
  if (clientId !== undefined && !equalSecrets(clientId.trim(), rules.clientId)) {
    return { kind: 'unauthenticated', cause: 'wrong Client-Id' }
  }
  const read = readTransaction(parseBankJson(rawBody.toString('utf8')), rules.amountField)
  if (typeof read === 'string') return { kind: 'malformed', cause: read }
  return { kind: 'payment', payment: read, bound: false }
}

/**
 * Parses a payment from a notification, which has amounts as strings, or from a requery, which has
 * numbers.
 *
 * @returns an error text if it is not a payment that can be credited
 */
export function readTransaction(body: unknown, amountField: AmountField): BankPayment | string {
  if (typeof body !== 'object' || body === null) return 'not a JSON object'
  const currency = fieldText(body, 'currency')
  if (currency !== 'NGN')
    return `the currency is ${JSON.stringify(plainText(currency, 20))}, not NGN`
  const amountMinor = parseNaira(fieldText(body, amountField))
  if (amountMinor === undefined || amountMinor === 0n || amountMinor > AMOUNT_MINOR_MAX) {
    return `${amountField} cannot be credited`
  }
  const accountNumber = fieldText(body, 'accountNumber')
  if (!isAccountNumber(accountNumber)) return 'accountNumber is not ten digits'
  const bankKey = fieldText(body, 'settlementId')
  if (!isPaymentKey(bankKey)) return 'settlementId is not an identifier'
  const sessionId = fieldText(body, 'sessionId') || bankKey
  if (!isPaymentKey(sessionId)) return 'sessionId is not a session id'
  return {
    bankKey,
    sessionId,
    accountNumber,
    amountMinor,
    paidAtMs: parseLagosTime(fieldText(body, 'tranDateTime')),
    payer: {
      name: plainText(fieldText(body, 'sourceAccountName'), 200),
      accountNumber: plainText(fieldText(body, 'sourceAccountNumber'), 40),
      bankCode: plainText(fieldText(body, 'sourceBankCode'), 20),
      bankName: plainText(fieldText(body, 'sourceBankName'), 200),
    },
    narration: plainText(fieldText(body, 'tranRemarks'), 500),
  }
}

/** @returns the text of a field; empty for `"null"` and `" "`, which this bank sends for none */
export function fieldText(body: unknown, field: string): string {
  const text = getPath(body, field).trim()
  return /^null$/i.test(text) ? '' : text
}

/**
 * Returns the signature of every call in either direction: SHA-512 of `clientId:clientSecret` in
 * upper-case hexadecimal. It is constant: it authenticates the caller but not the content.
 */
export function authSignature(clientId: string, clientSecret: string): string {
  return createHash('sha512').update(`${clientId}:${clientSecret}`).digest('hex').toUpperCase()
}

/** Compares a signature with the expected one, ignoring case. */
function isAuthSignature(header: string | undefined, expected: string): boolean {
  return equalSecrets((header ?? '').trim().toUpperCase(), expected)
}
