import { createHash } from 'node:crypto'
import { AMOUNT_MINOR_MAX, formatAmount } from '../../core/money.ts'
import type { BankNotification, BankPayment, Reading } from '../bank.ts'
import { equalSecrets, getPath, parseNaira, plainText } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-http.ts'
import { parseLagosTime } from '../lagos-time.ts'
import type { NinePsbSettings } from './settings.ts'

type NotificationCredentials = Pick<NinePsbSettings, 'notificationUser' | 'notificationPassword'>

/**
 * Parses a notification: checks Basic authentication, then the hash. Anyone who has seen a genuine
 * notification can still forge one that passes both, so it is never `bound`.
 */
export function readNotification(
  notification: BankNotification,
  { notificationUser, notificationPassword }: NotificationCredentials,
): Reading {
  const { authorization } = notification.headers
  if (!isBasic(authorization, notificationUser, notificationPassword)) {
    return { kind: 'unauthenticated', cause: 'wrong Basic credentials' }
  }
  const body = parseBankJson(notification.rawBody.toString('utf8'))
  if (typeof body !== 'object' || body === null) {
    return { kind: 'malformed', cause: 'the body is not a JSON object' }
  }
  const amountMinor = parseNaira(getPath(body, 'order.amount'))
  if (amountMinor === undefined) {
    return { kind: 'malformed', cause: 'order.amount is not a naira amount' }
  }
  const hash = notificationHash(
    {
      senderAccountNumber: getPath(body, 'customer.account.senderaccountnumber'),
      senderBankCode: getPath(body, 'customer.account.senderbankcode'),
      accountNumber: getPath(body, 'customer.account.number'),
      amountMinor,
    },
    notificationPassword,
  )
  if (!equalSecrets(getPath(body, 'hash').trim().toUpperCase(), hash)) {
    return { kind: 'unauthenticated', cause: 'the hash does not match the fields' }
  }
  const read = readTransaction(body)
  if (typeof read === 'string') return { kind: 'malformed', cause: read }
  return { kind: 'payment', payment: read, bound: false }
}

/**
 * Parses a payment from a notification or from `confirmpayment`.
 *
 * @returns an error text if it is not a payment that can be credited
 */
export function readTransaction(body: unknown): BankPayment | string {
  const code = getPath(body, 'code')
  if (code !== '00') return `the code is ${JSON.stringify(plainText(code, 20))}, not "00"`
  const currency = getPath(body, 'order.currency').trim()
  if (currency !== 'NGN')
    return `the currency is ${JSON.stringify(plainText(currency, 20))}, not NGN`
  const amountMinor = parseNaira(getPath(body, 'order.amount'))
  if (amountMinor === undefined || amountMinor === 0n || amountMinor > AMOUNT_MINOR_MAX) {
    return 'order.amount cannot be credited'
  }
  const accountNumber = getPath(body, 'customer.account.number').trim()
  if (!/^\d{10}$/.test(accountNumber)) return 'customer.account.number is not ten digits'
  const sessionId = getPath(body, 'transaction.sessionid').trim()
  if (!/^[A-Za-z0-9_./-]{1,64}$/.test(sessionId)) return 'transaction.sessionid is not a session id'
  return {
    bankKey: sessionId,
    sessionId,
    accountNumber,
    amountMinor,
    paidAtMs: parseLagosTime(getPath(body, 'transaction.date').trim()),
    payer: {
      name: plainText(getPath(body, 'customer.account.sendername'), 200),
      accountNumber: plainText(getPath(body, 'customer.account.senderaccountnumber'), 40),
      bankCode: plainText(getPath(body, 'customer.account.senderbankcode'), 20),
      bankName: plainText(getPath(body, 'customer.account.senderbankname'), 200),
    },
    narration: plainText(getPath(body, 'order.description'), 500),
  }
}

/** The fields that the hash of a notification covers; texts are unchanged. */
interface HashedFields {
  readonly senderAccountNumber: string
  readonly senderBankCode: string
  readonly accountNumber: string
  readonly amountMinor: bigint
}

/**
 * Returns the hash of a notification: SHA-512 in upper-case hexadecimal.
 *
 * It omits the session id and has no separator between the fields, so digits can move from one
 * field to the next: the hash proves knowledge of the password but does not identify a payment.
 *
 * @param password the password of the Basic authentication of notifications
 */
export function notificationHash(fields: HashedFields, password: string): string {
  const { senderAccountNumber, senderBankCode, accountNumber, amountMinor } = fields
  return createHash('sha512')
    .update(
      password + senderAccountNumber + senderBankCode + accountNumber + formatAmount(amountMinor),
    )
    .digest('hex')
    .toUpperCase()
}

/** Whether an `Authorization` header is Basic authentication with these credentials. */
function isBasic(header: string | undefined, user: string, password: string): boolean {
  const [, encoded] = /^Basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? '') ?? []
  const given = Buffer.from(encoded ?? '', 'base64').toString('utf8')
  return equalSecrets(given, `${user}:${password}`)
}
