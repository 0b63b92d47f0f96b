import { createHash } from 'node:crypto'
import { AMOUNT_MINOR_MAX } from '../../core/money.ts'
import {
  type AccountOrder,
  type AccountResult,
  type Acknowledgement,
  type BankNotification,
  type BankPayment,
  DENIED,
  type LiveConnector,
  type NotificationOutcome,
  type Reading,
  type Requery,
} from '../bank.ts'
import {
  type BankFields,
  equalSecrets,
  fieldsOf,
  getPath,
  isAccountNumber,
  isPaymentKey,
  mergeFields,
  parseNaira,
  plainText,
} from '../bank-fields.ts'
import {
  AccessDeniedError,
  type BankRequest,
  type BankResponse,
  BankUnreachableError,
  type ConnectorOptions,
  parseBankJson,
} from '../http/bank-http.ts'
import { parseLagosTime } from '../lagos-time.ts'
import type { ProvidusSettings } from './settings.ts'
import { createProvidusTransfers } from './transfer.ts'

/**
 * Providus Bank: reserved accounts of its digital collection service.
 *
 * It has no `closeAccount`: an account on the bank's blacklist still receives money, but the bank
 * no longer notifies us. Accounts are blocked on our side instead, and their payments are recorded as unmatched.
 */
export function createProvidus(options: ConnectorOptions<ProvidusSettings>): LiveConnector {
  const { settings, http, onAccess, apiAt } = options
  const { clientId, clientSecret, amountField, createPath } = settings
  const signature = authSignature(clientId, clientSecret)
  const headers = {
    'client-id': clientId,
    'x-auth-signature': signature,
    'content-type': 'application/json',
    accept: 'application/json',
  }
  const send: ProvidusSend = async (request) => {
    const response = await http.send({ ...request, headers })
    const denial = denialOf(response)
    if (denial !== undefined) {
      onAccess(denial)
      throw new AccessDeniedError(denial)
    }
    // A response that is not JSON does not come from the bank's application.
    if (response.status === 200 && parseBankJson(response.text) !== undefined) onAccess(undefined)
    return response
  }
  return {
    // The bank accepts no reference of ours, so a retry could open a second account.
    afterCrash: 'manual review',
    async openAccount(order, signal) {
      if (order.repeated) {
        const cause =
          'the result of an earlier attempt is unknown, and the bank cannot be requeried'
        return { kind: 'unknown', cause, next: 'manual review' }
      }
      const body = JSON.stringify(orderBody(order, settings.createFields))
      try {
        const request = { method: 'POST', path: createPath, body, signal } as const
        return toAccountResult(order, await send(request))
      } catch (error) {
        if (!(error instanceof BankUnreachableError)) throw error
        const cause = error.message
        if (error instanceof AccessDeniedError) return { kind: 'unavailable', cause, ...DENIED }
        if (!error.sent) return { kind: 'unavailable', cause }
        return { kind: 'unknown', cause, next: 'manual review' }
      }
    },
    read: (notification) => readNotification(notification, { clientId, signature, amountField }),
    acknowledge: (outcome, notification) => acknowledge(outcome, notification, settings.deniedCode),
    requery: (payment, signal) => requery(settings, send, payment, signal),
    ...(settings.transfers && {
      transfers: createProvidusTransfers(
        settings.transfers,
        apiAt(settings.transfers.transferBaseUrl),
      ),
    }),
  }
}

const MESSAGES = {
  '00': 'success',
  '01': 'duplicate transaction',
  '02': 'rejected transaction',
  '03': 'system failure, retry',
} as const

/** Code 02 is final at the bank, so it is never sent because of our own failures or a wrong secret. */
function acknowledge(
  outcome: NotificationOutcome,
  { rawBody }: BankNotification,
  deniedCode: '02' | '03',
): Acknowledgement {
  const code = codeOf(outcome, deniedCode)
  // Echo nothing to an unauthenticated caller.
  const isUnauthenticated = outcome === 'UNAUTHENTICATED'
  const sessionId = isUnauthenticated
    ? ''
    : fieldText(parseBankJson(rawBody.toString('utf8')), 'sessionId')
  return {
    status: isUnauthenticated ? 401 : 200,
    contentType: 'application/json',
    body: JSON.stringify({
      requestSuccessful: !isUnauthenticated,
      sessionId: sessionId.slice(0, 100),
      responseMessage: MESSAGES[code],
      responseCode: code,
    }),
  }
}

function codeOf(outcome: NotificationOutcome, deniedCode: '02' | '03'): keyof typeof MESSAGES {
  if (outcome === 'DUPLICATE') return '01'
  if (outcome === 'UNCONFIRMED') return deniedCode
  return outcome === 'RETRY' || outcome === 'UNAUTHENTICATED' ? '03' : '00'
}

/** The bank accepts no reference of ours, so a retry looks like a new request. */
function orderBody(order: AccountOrder, createFields: BankFields): BankFields {
  return mergeFields(mergeFields({ bvn: '' }, createFields), { account_name: order.accountName })
}

/**
 * Maps a response to the result of an order. Only an explicit rejection proves that no account was
 * opened.
 */
function toAccountResult(order: AccountOrder, { status, text }: BankResponse): AccountResult {
  const body = parseBankJson(text)
  const code = fieldText(body, 'responseCode')
  const cause = causeOf(status, code, body)
  const accountNumber = fieldText(body, 'account_number')
  const successful = fieldsOf(body)?.['requestSuccessful']
  if (successful === true && code === '00' && /^\d{10}$/.test(accountNumber)) {
    const accountName = fieldText(body, 'account_name') || order.accountName
    return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
  }
  const isRejected = successful === false && code !== '' && code !== '00' && accountNumber === ''
  // 03 is an error of the bank, which may be temporary.
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
function denialOf({ status, text }: BankResponse): string | undefined {
  const body = parseBankJson(text)
  const code = fieldText(body, 'responseCode')
  const isDenied =
    code === AUTHENTICATION_FAILED
      ? status < 500 && fieldsOf(body)?.['requestSuccessful'] !== true
      : status === 401 || status === 403
  return isDenied ? causeOf(status, code, body) : undefined
}

function causeOf(status: number, code: string, body: unknown): string {
  const message = plainText(fieldText(body, 'responseMessage'), 200)
  return `HTTP ${status}, responseCode ${JSON.stringify(plainText(code, 20))}: ${message}`
}

/** Sends a request with our credentials. @throws BankUnreachableError */
type ProvidusSend = (request: Omit<BankRequest, 'headers'>) => Promise<BankResponse>

/**
 * Requeries a payment by its settlement id and, if that finds nothing or the path is not served, by
 * its session id. The bank has to return both identifiers unchanged, because the signature of a
 * notification covers neither.
 */
async function requery(
  { verifySettlementPath, verifySessionPath, amountField }: ProvidusSettings,
  send: ProvidusSend,
  payment: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const ask = async (path: string): Promise<Requery> => {
    try {
      const response = await send({ method: 'GET', path, signal })
      return classify(response, payment, amountField)
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      const denied = error instanceof AccessDeniedError && DENIED
      return { kind: 'unknown', cause: error.message, ...denied }
    }
  }
  const settlementId = encodeURIComponent(payment.bankKey)
  const bySettlement = await ask(`${verifySettlementPath}?settlement_id=${settlementId}`)
  if (bySettlement.kind === 'confirmed' || payment.sessionId === payment.bankKey) {
    return bySettlement
  }
  const sessionId = encodeURIComponent(payment.sessionId)
  const bySession = await ask(`${verifySessionPath}?session_id=${sessionId}`)
  // The request that failed might have found it.
  const isUnclear = bySession.kind === 'denied' && bySettlement.kind === 'unknown'
  return isUnclear ? bySettlement : bySession
}

function classify(
  { status, text }: BankResponse,
  reported: BankPayment,
  amountField: ProvidusSettings['amountField'],
): Requery {
  const body = parseBankJson(text)
  // If nothing is found, the bank returns an empty payment with this remark.
  const isEmpty = fieldText(body, 'accountNumber') === '' && fieldText(body, 'settlementId') === ''
  if (isEmpty && status < 500 && /not found/i.test(fieldText(body, 'tranRemarks'))) {
    return {
      kind: 'denied',
      cause: `HTTP ${status}: ${fieldText(body, 'tranRemarks').slice(0, 100)}`,
    }
  }
  if (status !== 200) return { kind: 'unknown', cause: `HTTP ${status}` }
  const payment = readTransaction(body, amountField)
  if (typeof payment === 'string')
    return { kind: 'unknown', cause: `malformed payment in the requery: ${payment}` }
  if (payment.bankKey !== reported.bankKey) {
    return { kind: 'denied', cause: 'the bank has another settlement id for it' }
  }
  const sessionId = fieldText(body, 'sessionId')
  if (
    sessionId !== '' &&
    sessionId !== reported.sessionId &&
    reported.sessionId !== reported.bankKey
  ) {
    return { kind: 'denied', cause: 'the bank has another session id for it' }
  }
  return { kind: 'confirmed', payment }
}

type AmountField = ProvidusSettings['amountField']

type NotificationRules = Pick<ProvidusSettings, 'clientId' | 'amountField'> & {
  /** The result of `authSignature`. */
  readonly signature: string
}

/** Parses a notification. Its signature is constant: anyone who has seen one can forge notifications. */
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
function readTransaction(body: unknown, amountField: AmountField): BankPayment | string {
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
function fieldText(body: unknown, field: string): string {
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
