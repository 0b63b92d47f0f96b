import { HOUR_MS } from '../../core/durations.ts'
import { assert } from '../../core/errors.ts'
import { toMajorNumber } from '../../core/money.ts'
import {
  type AccountOrder,
  type AccountResult,
  type Acknowledgement,
  type BankPayment,
  DENIED,
  failure,
  type LiveConnector,
  type NotificationOutcome,
  type OrderTerms,
  type PaymentPage,
  type Requery,
} from '../bank.ts'
import { type BankFields, getPath, mergeFields, plainText } from '../bank-fields.ts'
import type { IssuedToken } from '../http/access-token.ts'
import {
  AccessDeniedError,
  type BankHttp,
  type BankResponse,
  BankUnreachableError,
  type ConnectorOptions,
  NotListedError,
  parseBankJson,
} from '../http/bank-http.ts'
import { createCall, JSON_HEADERS, lifetimeSeconds, type NinePsbResponse } from './call.ts'
import { readNotification, readTransaction } from './notification.ts'
import type { NinePsbSettings } from './settings.ts'
import { createNinePsbTransfers } from './transfer.ts'

/** The most payments of an account that the bank lists. */
const LISTED_MAX = 10

/**
 * 9 Payment Service Bank: static virtual accounts that accept any amount, or only amounts that the account's terms allow.
 *
 * Source: the bank's document "Virtual Account Service". The bank cannot look up an account by our
 * reference, and rejects a reference that was used before. An opening with an unknown result is
 * therefore retried with the same reference; if the bank then rejects it, an operator has to ask
 * the bank for the account number.
 */
export function createNinePsb(options: ConnectorOptions<NinePsbSettings>): LiveConnector {
  const { settings, http, clock, onAccess, apiAt } = options
  const call = createCall({
    http,
    clock,
    onAccess,
    timeoutMs: settings.timeoutMs,
    authenticate: (signal) => authenticate(settings, http, signal),
    classify,
  })
  /** Needs the account and either reference or session id; returns at most ten payments. */
  const confirm = (fields: BankFields, signal: AbortSignal) =>
    call(settings.confirmPath, fields, signal)
  return {
    // The bank recognises our reference.
    afterCrash: 'retry',
    async openAccount(order, signal) {
      const body = orderBody(order, settings, clock.now())
      const response = await call(settings.createPath, body, signal)
      return toAccountResult(order, response)
    },
    fixesExpiry: true,
    async closeAccount({ reference, accountNumber }, signal) {
      const customer = { account: { number: accountNumber } }
      const response = await call(
        settings.deactivatePath,
        { transaction: { reference }, customer },
        signal,
      )
      if (response.kind === 'responded' && response.code === '00') return { kind: 'closed' }
      return failure('unavailable', response)
    },
    read: (notification) => readNotification(notification, settings),
    acknowledge,
    async requery(payment, signal) {
      const { sessionId, accountNumber } = payment
      const response = await confirm({ sessionid: sessionId, accountnumber: accountNumber }, signal)
      return toRequery(payment, response)
    },
    // Returns the latest payments of an account, found by our reference of the account.
    listing: 'by account',
    async listPayments({ fromMs, toMs, account }, signal) {
      assert(account, 'payments of 9PSB are listed by account')
      const { reference, accountNumber } = account
      const response = await confirm({ reference, accountnumber: accountNumber }, signal)
      const listed = toListed(response, accountNumber)
      const inPeriod = ({ paidAtMs }: BankPayment) =>
        paidAtMs === undefined || (paidAtMs >= fromMs && paidAtMs < toMs)
      const isCut =
        (transactionsOf(response)?.length ?? 0) >= LISTED_MAX &&
        listed.every(({ paidAtMs }) => paidAtMs === undefined || paidAtMs >= fromMs)
      return { payments: listed.filter(inPeriod), next: undefined, isCut }
    },
    ...(settings.transfers && {
      transfers: createNinePsbTransfers(settings.transfers, {
        ...apiAt(settings.transfers.transferBaseUrl),
        clock,
        timeoutMs: settings.timeoutMs,
      }),
    }),
  }
}

function orderBody(order: AccountOrder, settings: NinePsbSettings, nowMs: number): BankFields {
  const defaults = {
    order: {
      amount: 0,
      currency: 'NGN',
      description: settings.description,
      country: 'NGA',
      amounttype: 'ANY',
    },
    customer: { account: { type: 'STATIC' } },
  }
  const { amount, account } = termsFields(order.terms, nowMs)
  return mergeFields(mergeFields(defaults, settings.createFields), {
    transaction: { reference: order.reference },
    ...(amount && { order: amount }),
    customer: { account: { ...account, name: order.accountName } },
  })
}

function toAccountResult(order: AccountOrder, response: NinePsbResponse): AccountResult {
  const { cause } = response
  if (response.kind === 'refused' || response.kind === 'denied') return notOpened(order, response)
  if (response.kind === 'unclear') return { kind: 'unknown', cause, next: 'retry' }
  if (response.code === '00') return toOpened(order, response.body, cause)
  if (response.code === '47') {
    // The code of any invalid request, including a reference that was used before: that attempt may
    // have opened an account, and the bank does not return its number again.
    const used = /reference|unique|duplicate|exist/i.test(getPath(response.body, 'message'))
    if (used || order.repeated) return { kind: 'unknown', cause, next: 'manual review' }
    return { kind: 'unavailable', cause, refusal: 'request' }
  }
  return { kind: 'unknown', cause, next: 'retry' }
}

/** The result if this attempt opened nothing. The result of an earlier attempt may still be unknown. */
function notOpened({ repeated }: AccountOrder, { kind, cause }: NinePsbResponse): AccountResult {
  const why = { cause, ...(kind === 'denied' && DENIED) }
  return repeated ? { kind: 'unknown', next: 'retry', ...why } : { kind: 'unavailable', ...why }
}

function toOpened(order: AccountOrder, body: unknown, cause: string): AccountResult {
  const accountNumber = getPath(body, 'customer.account.number').trim()
  const reference = getPath(body, 'transaction.reference').trim()
  if (reference !== '' && reference !== order.reference) {
    return { kind: 'unknown', cause: `${cause}, for another reference`, next: 'manual review' }
  }
  if (!/^\d{10}$/.test(accountNumber)) {
    return { kind: 'unknown', cause: `${cause}, without an account number`, next: 'manual review' }
  }
  const accountName = getPath(body, 'customer.account.name').trim() || order.accountName
  return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
}

function toRequery({ sessionId, accountNumber }: BankPayment, response: NinePsbResponse): Requery {
  const { cause } = response
  if (response.kind !== 'responded') return failure('unknown', response)
  if (response.code === '47' && /not found|no (record|transaction)/i.test(cause)) {
    return { kind: 'denied', cause }
  }
  const transactions = transactionsOf(response)
  if (!transactions) return { kind: 'unknown', cause }
  const matching = transactions.filter(
    (transaction) => getPath(transaction, 'transaction.sessionid').trim() === sessionId,
  )
  if (matching.length === 0) return { kind: 'denied', cause: `${cause}; the session is not listed` }
  const payments = matching.map(readTransaction)
  const fault = payments.find((payment) => typeof payment === 'string')
  if (fault !== undefined) return { kind: 'unknown', cause: `the listed payment: ${fault}` }
  const payment = payments.find(
    (read): read is BankPayment => typeof read !== 'string' && read.accountNumber === accountNumber,
  )
  return payment && payments.length === 1
    ? { kind: 'confirmed', payment }
    : {
        kind: 'denied',
        cause: `${cause}; the session is listed for another account, or more than once`,
      }
}

/** @throws BankUnreachableError; NotListedError if there is no list, or a malformed payment */
function toListed(response: NinePsbResponse, accountNumber: string): PaymentPage['payments'] {
  const transactions = transactionsOf(response)
  if (!transactions) {
    // Without a code, the response is not from the bank's application.
    if (response.kind === 'responded' && response.code !== '')
      throw new NotListedError(response.cause)
    if (response.kind === 'denied') throw new AccessDeniedError(response.cause)
    throw new BankUnreachableError(response.cause, response.kind !== 'refused')
  }
  return transactions
    .filter((transaction) => getPath(transaction, 'code') === '00')
    .filter(
      (transaction) => getPath(transaction, 'customer.account.number').trim() === accountNumber,
    )
    .map((transaction) => {
      const read = readTransaction(transaction)
      // Fail instead of skipping the payment, which would lose it unnoticed.
      if (typeof read === 'string') throw new NotListedError(`a listed payment: ${read}`)
      return read
    })
}

function transactionsOf(response: NinePsbResponse): readonly unknown[] | undefined {
  if (response.kind !== 'responded' || response.code !== '00') return undefined
  const { transactions } = response.body as { readonly transactions?: unknown }
  if (Array.isArray(transactions)) return transactions
  return transactions === null ? [] : undefined
}

/** The bank retries five times after any code other than 00. */
function acknowledge(outcome: NotificationOutcome): Acknowledgement {
  const contentType = 'application/json'
  if (outcome === 'UNAUTHENTICATED') {
    const body = '{"code":"S1","message":"Invalid Credential"}'
    return { status: 401, contentType, body }
  }
  const isRetry = outcome === 'RETRY' || outcome === 'UNCONFIRMED'
  const body = isRetry
    ? '{"code":"99","message":"Not processed, send it again"}'
    : '{"code":"00","message":"Success"}'
  return { status: 200, contentType, body }
}

const AMOUNT_TYPES = {
  EXACT: 'EXACT',
  AT_LEAST: 'HIGHEROREXACT',
  AT_MOST: 'LOWEROREXACT',
} as const

/** The bank's own limit. */
const EXPIRY_HOURS_MAX = 24

/**
 * The terms that the bank enforces: the amount; and the expiry in whole hours, if it is within a day. Hours are rounded up,
 * so that the bank never expires an account before we do. Source: the bank's document "Virtual Account Service".
 */
export function termsFields(
  terms: OrderTerms | undefined,
  nowMs: number,
): { readonly amount?: BankFields; readonly account?: BankFields } {
  if (terms === undefined) return {}
  const { expectedAmountMinor, amountRule, expiresAtMs } = terms
  const hours =
    expiresAtMs === undefined ? Infinity : Math.max(1, Math.ceil((expiresAtMs - nowMs) / HOUR_MS))
  return {
    ...(expectedAmountMinor !== undefined &&
      amountRule !== 'ANY' && {
        amount: {
          amount: toMajorNumber(expectedAmountMinor),
          amounttype: AMOUNT_TYPES[amountRule],
        },
      }),
    ...(hours <= EXPIRY_HOURS_MAX && { account: { type: 'DYNAMIC', expiry: { hours } } }),
  }
}

/** The code for wrong credentials, an expired token, or an address that is not on the bank's allow list. */
const UNAUTHENTICATED = 'S1'
/** The code for an error of the bank itself, which may be temporary. */
const SYSTEM_ERROR = '99'

function classify(response: BankResponse): NinePsbResponse {
  const body = parseBankJson(response.text)
  const { code, cause } = readCode(response.status, body)
  return code === UNAUTHENTICATED
    ? { kind: 'denied', cause, sent: true }
    : { kind: 'responded', code, cause, body }
}

function readCode(
  status: number,
  body: unknown,
): { readonly code: string; readonly cause: string } {
  const code = getPath(body, 'code')
  const message = plainText(getPath(body, 'message'), 200)
  const cause = `HTTP ${status}, code ${JSON.stringify(plainText(code, 20))}: ${message}`
  // A gateway in front of the bank may reject the call without the bank's code.
  const isRejected = code === '' && (status === 401 || status === 403)
  return { code: isRejected ? UNAUTHENTICATED : code, cause }
}

async function authenticate(
  { publicKey, privateKey, authenticatePath: path }: NinePsbSettings,
  http: BankHttp,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const body = JSON.stringify({ publickey: publicKey, privatekey: privateKey })
  const response = await http.send({ method: 'POST', path, headers: JSON_HEADERS, body, signal })
  const issued = parseBankJson(response.text)
  const token = getPath(issued, 'access_token')
  const { code, cause } = readCode(response.status, issued)
  if (code !== '00' || !/^[\x21-\x7e]+$/.test(token)) {
    // The request contains only the operator's settings, so a refusal means that they are wrong.
    const isDenied = response.status < 500 && !['', '00', SYSTEM_ERROR].includes(code)
    throw isDenied ? new AccessDeniedError(cause) : new BankUnreachableError(cause, true)
  }
  return { token, expiresInSeconds: lifetimeSeconds(getPath(issued, 'expires_in')) }
}
