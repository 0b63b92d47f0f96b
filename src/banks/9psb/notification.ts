import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import { parseNaira } from '../amount.ts'
import type { BankNotification, BankPayment, Reading } from '../bank.ts'
import { equalSecrets } from '../equal-secrets.ts'
import { getPath } from '../get-path.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { parseLagosTime } from '../lagos-time.ts'
import { plainText } from '../plain-text.ts'
import { isBasic, notificationHash } from './signature.ts'

interface NotificationCredentials {
  readonly notificationUser: string
  readonly notificationPassword: string
}

/**
 * Reads a notification: Basic authentication first, then the hash. Both can be right and the payment
 * still be made up, by whoever once saw a genuine one: it is never `bound`.
 */
export function readNotification(
  notification: BankNotification,
  { notificationUser, notificationPassword }: NotificationCredentials,
): Reading {
  const { authorization } = notification.headers
  if (!isBasic(authorization, notificationUser, notificationPassword)) {
    return { kind: 'forged', cause: 'the Basic authentication is not the bank’s' }
  }
  const body = parseBankJson(notification.rawBody.toString('utf8'))
  if (typeof body !== 'object' || body === null) {
    return { kind: 'unreadable', cause: 'the body is no JSON object' }
  }
  const amountMinor = parseNaira(getPath(body, 'order.amount'))
  if (amountMinor === undefined) {
    return { kind: 'unreadable', cause: 'order.amount is no amount of naira' }
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
    return { kind: 'forged', cause: 'the hash is not the one of these fields' }
  }
  const read = readTransaction(body)
  if (typeof read === 'string') return { kind: 'unreadable', cause: read }
  return { kind: 'payment', payment: read, bound: false }
}

/**
 * Reads a payment as notifications and `confirmpayment` show it.
 *
 * @returns what is wrong with it, when it is no payment that could be credited
 */
export function readTransaction(body: unknown): BankPayment | string {
  const code = getPath(body, 'code')
  if (code !== '00') return `its code is ${JSON.stringify(plainText(code, 20))}, not "00"`
  const currency = getPath(body, 'order.currency').trim()
  if (currency !== 'NGN')
    return `its currency is ${JSON.stringify(plainText(currency, 20))}, not NGN`
  const amountMinor = parseNaira(getPath(body, 'order.amount'))
  if (amountMinor === undefined || amountMinor === 0n || amountMinor > AMOUNT_MINOR_MAX) {
    return 'order.amount is no amount that can be credited'
  }
  const accountNumber = getPath(body, 'customer.account.number').trim()
  if (!/^\d{10}$/.test(accountNumber)) return 'customer.account.number is not ten digits'
  const sessionId = getPath(body, 'transaction.sessionid').trim()
  if (!/^[A-Za-z0-9_./-]{1,64}$/.test(sessionId)) return 'transaction.sessionid is no session id'
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
