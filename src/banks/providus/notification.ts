import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import { parseNaira } from '../amount.ts'
import type { BankNotification, BankPayment, Reading } from '../bank.ts'
import { isAccountNumber, isPaymentKey } from '../bank-fields.ts'
import { equalSecrets } from '../equal-secrets.ts'
import { getPath } from '../get-path.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { parseLagosTime } from '../lagos-time.ts'
import { plainText } from '../plain-text.ts'
import type { ProvidusSettings } from './settings.ts'
import { isAuthSignature } from './signature.ts'

type AmountField = ProvidusSettings['amountField']

interface NotificationRules {
  readonly clientId: string
  /** What `authSignature` gives. */
  readonly signature: string
  readonly amountField: AmountField
}

/** Reads a notification. Its signature is a constant: whoever saw it once can make any other. */
export function readNotification(
  notification: BankNotification,
  rules: NotificationRules,
): Reading {
  const { headers, rawBody } = notification
  if (!isAuthSignature(headers['x-auth-signature'], rules.signature)) {
    return { kind: 'forged', cause: 'X-Auth-Signature is not the bank’s' }
  }
  const clientId = headers['client-id']
  if (clientId !== undefined && !equalSecrets(clientId.trim(), rules.clientId)) {
    return { kind: 'forged', cause: 'Client-Id is another' }
  }
  const read = readTransaction(parseBankJson(rawBody.toString('utf8')), rules.amountField)
  if (typeof read === 'string') return { kind: 'unreadable', cause: read }
  return { kind: 'payment', payment: read, bound: false }
}

/**
 * Reads a payment as notifications show it, with amounts in strings, and as requeries do, with
 * numbers.
 *
 * @returns what is wrong with it, when it is no payment that could be credited
 */
export function readTransaction(body: unknown, amountField: AmountField): BankPayment | string {
  if (typeof body !== 'object' || body === null) return 'it is no JSON object'
  const currency = said(body, 'currency')
  if (currency !== 'NGN')
    return `its currency is ${JSON.stringify(plainText(currency, 20))}, not NGN`
  const amountMinor = parseNaira(said(body, amountField))
  if (amountMinor === undefined || amountMinor === 0n || amountMinor > AMOUNT_MINOR_MAX) {
    return `${amountField} is no amount that can be credited`
  }
  const accountNumber = said(body, 'accountNumber')
  if (!isAccountNumber(accountNumber)) return 'accountNumber is not ten digits'
  const bankKey = said(body, 'settlementId')
  if (!isPaymentKey(bankKey)) return 'settlementId is no identifier'
  const sessionId = said(body, 'sessionId') || bankKey
  if (!isPaymentKey(sessionId)) return 'sessionId is no session id'
  return {
    bankKey,
    sessionId,
    accountNumber,
    amountMinor,
    paidAtMs: parseLagosTime(said(body, 'tranDateTime')),
    payer: {
      name: plainText(said(body, 'sourceAccountName'), 200),
      accountNumber: plainText(said(body, 'sourceAccountNumber'), 40),
      bankCode: plainText(said(body, 'sourceBankCode'), 20),
      bankName: plainText(said(body, 'sourceBankName'), 200),
    },
    narration: plainText(said(body, 'tranRemarks'), 500),
  }
}

/** What a field says; this bank writes `"null"` and `" "` for nothing. */
export function said(body: unknown, field: string): string {
  const text = getPath(body, field).trim()
  return /^null$/i.test(text) ? '' : text
}
