import { MINUTE_MS } from '../../core/durations.ts'
import { formatAmount } from '../../core/money.ts'
import { DENIED, failure } from '../bank.ts'
import {
  type BankFields,
  isPaymentKey,
  mergeFields,
  parseBalance,
  parseNaira,
  plainText,
  textOf,
} from '../bank-fields.ts'
import type { IssuedToken } from '../http/access-token.ts'
import {
  AccessDeniedError,
  type BankHttp,
  type BankResponse,
  BankUnreachableError,
  parseBankJson,
} from '../http/bank-http.ts'
import type {
  FloatReading,
  FoundTransfer,
  NameEnquiry,
  SendResult,
  TransferConnector,
  TransferOrder,
  TransferState,
} from '../transfer.ts'
import {
  isOpenCode,
  NIP_INVALID_ACCOUNT,
  readNipCode,
  saysReturned,
  statesItself,
} from '../transfer-response.ts'
import {
  type CallsOptions,
  createCall,
  JSON_HEADERS,
  lifetimeSeconds,
  type NinePsbResponse,
} from './call.ts'
import type { NinePsbTransferSettings } from './settings.ts'

/**
 * Transfers out of the operator's wallet at 9PSB, by its "Wallet as a Service".
 *
 * Source: the Postman collection and the acceptance test form of the bank, as public integrations
 * show them. They describe the calls and their fields, but few responses, and public integrations
 * disagree about the others. So a response is final only if status, code and reference agree.
 */
export function createNinePsbTransfers(
  settings: NinePsbTransferSettings,
  options: Omit<CallsOptions, 'authenticate' | 'classify'>,
): TransferConnector {
  const authenticate = (signal: AbortSignal) => authenticateAt(settings, options.http, signal)
  const call = createCall({ ...options, authenticate, classify })
  return {
    async enquireName({ bankCode, accountNumber }, signal) {
      const fields = { customer: { account: { bank: bankCode, number: accountNumber } } }
      return toName(accountNumber, await call(settings.transferEnquiryPath, fields, signal))
    },
    async send(order, signal) {
      const fields = transferFields(order, settings)
      return toSent(order, await call(settings.transferPath, fields, signal))
    },
    async find(order, signal) {
      const fields = { transactionId: order.reference }
      return toFound(order, await call(settings.transferStatusPath, fields, signal))
    },
    async readFloat(signal) {
      const { transferAccount, transferWalletPath } = settings
      const response = await call(transferWalletPath, { accountNo: transferAccount }, signal)
      return toFloat(transferAccount, response)
    },
    consistencyMs: CONSISTENCY_MS,
  }
}

/** A guess, to be confirmed with the bank: a request that timed out here may be executed later. */
const CONSISTENCY_MS = 15 * MINUTE_MS

const NARRATION_MAX = 100

function transferFields(order: TransferOrder, settings: NinePsbTransferSettings): BankFields {
  const { bankCode, accountNumber, accountName } = order.beneficiary
  const description = plainText(order.narration, NARRATION_MAX)
  const defaults = {
    order: { currency: 'NGN', country: 'NGA' },
    merchant: { isFee: false, merchantFeeAccount: '', merchantFeeAmount: '' },
  }
  return mergeFields(mergeFields(defaults, settings.transferFields), {
    transaction: { reference: order.reference },
    order: { amount: formatAmount(order.amountMinor), description },
    customer: {
      account: {
        bank: bankCode,
        number: accountNumber,
        name: accountName,
        senderaccountnumber: settings.transferAccount,
        sendername: settings.transferSender,
      },
    },
    narration: description,
  })
}

/** One version of the API returns the name in `data`, another version in `customer.account`. */
function toName(accountNumber: string, response: NinePsbResponse): NameEnquiry {
  const { cause } = response
  if (response.kind !== 'responded') return failure('unavailable', response)
  const { body, code } = response
  if (code === NIP_INVALID_ACCOUNT || (code !== APPROVED && /invalid account/i.test(cause))) {
    return { kind: 'not found', cause }
  }
  const of = (...paths: string[]) => paths.map((path) => textOf(body, path)).find(Boolean) ?? ''
  const name = of('data.name', 'data.accountName', 'customer.account.name')
  const number = of('data.number', 'data.accountNumber', 'customer.account.number')
  if (code !== APPROVED || name === '') return { kind: 'unavailable', cause }
  return number === '' || number === accountNumber
    ? { kind: 'found', accountName: plainText(name, 200), enquiryReference: '' }
    : { kind: 'unavailable', cause: `${cause}; for another account` }
}

function toSent(order: TransferOrder, response: NinePsbResponse): SendResult {
  const { cause } = response
  if (response.kind === 'refused') return { kind: 'not sent', cause }
  if (response.kind === 'denied' && !response.sent) return { kind: 'not sent', cause, ...DENIED }
  if (response.kind !== 'responded') return failure('unknown', response)
  const { body, code } = response
  const reference = textOf(body, 'data.reference') || textOf(body, 'transaction.reference')
  if (reference !== '' && reference !== order.reference) {
    return { kind: 'unknown', cause: `${cause}; for another reference` }
  }
  // An earlier attempt may have been executed.
  if (/duplicate|must be unique|already/i.test(cause)) return { kind: 'unknown', cause }
  const status = textOf(body, 'status').toUpperCase()
  const message = plainText(textOf(body, 'message'), 200)
  if (code !== APPROVED || status !== 'SUCCESS')
    return toState(order, { status, code, message, cause })
  if (reference === '') return { kind: 'unknown', cause: `${cause}; without a reference` }
  return paidUnlessDifferent(order, body, cause)
}

/** The outer status is that of the query; the status of the transfer is in `data`. */
function toFound(order: TransferOrder, response: NinePsbResponse): FoundTransfer {
  const { cause } = response
  if (response.kind !== 'responded') return failure('unknown', response)
  const { body } = response
  const reference = textOf(body, 'data.reference')
  const status = textOf(body, 'data.status').toUpperCase()
  const code = textOf(body, 'data.responseCode')
  if (reference !== '' && reference !== order.reference) {
    return { kind: 'unknown', cause: `${cause}; for another reference` }
  }
  const query = textOf(body, 'status').toUpperCase()
  const isMissing = statesItself(cause, order, (text) => /transaction not found/i.test(text))
  if (query === 'FAILED' && isMissing) return { kind: 'not found', cause }
  if (query !== 'SUCCESS' || reference === '') return { kind: 'unknown', cause }
  const message = plainText(textOf(body, 'data.responseMessage'), 200)
  const ofTransfer = `status ${JSON.stringify(plainText(status, 20))}, responseCode ${JSON.stringify(plainText(code, 20))}: ${message}`
  return code === APPROVED && status === 'SUCCESS'
    ? paidUnlessDifferent(order, body, ofTransfer)
    : toState(order, { status, code, message, cause: ofTransfer })
}

const PENDING: ReadonlySet<string> = new Set(['PENDING', 'PROCESSING', 'IN_PROGRESS'])

interface Stated {
  readonly status: string
  readonly code: string
  readonly message: string
  /** All fields as one text, for the log. */
  readonly cause: string
}

/** The state of a transfer that is not approved. */
function toState(order: TransferOrder, { status, code, message, cause }: Stated): TransferState {
  if (PENDING.has(status)) return { kind: 'pending', cause }
  if (isOpenCode(code) || status === 'SUCCESS') return { kind: 'unknown', cause }
  if (statesItself(`${status} ${message}`, order, saysReturned)) return { kind: 'returned', cause }
  if (status !== 'FAILED') return { kind: 'unknown', cause }
  if (statesItself(cause, order, (text) => /insufficient/i.test(text)))
    return { kind: 'failed', reason: 'insufficient_float', cause }
  if (code === '') return toRefusal(order, cause)
  const state = readNipCode(code, cause)
  return state.kind === 'failed' ? state : { kind: 'unknown', cause }
}

/** Without a code, only the texts in the bank's acceptance test form count as refusals. */
function toRefusal(order: TransferOrder, cause: string): TransferState {
  const states = (refusal: RegExp) => statesItself(cause, order, (text) => refusal.test(text))
  if (states(/invalid account number/i)) {
    return { kind: 'failed', reason: 'beneficiary_rejected', cause }
  }
  return states(/not valid on the supplied wallet|amount supplied is invalid/i)
    ? { kind: 'failed', reason: 'bank_rejected', cause }
    : { kind: 'unknown', cause }
}

function paidUnlessDifferent(order: TransferOrder, body: unknown, cause: string): TransferState {
  const amount = textOf(body, 'data.amount') || textOf(body, 'order.amount')
  const account = textOf(body, 'customer.account.number')
  if (amount !== '' && parseNaira(amount) !== order.amountMinor) {
    return { kind: 'unknown', cause: `${cause}; for another amount` }
  }
  if (account !== '' && account !== order.beneficiary.accountNumber) {
    return { kind: 'unknown', cause: `${cause}; for another account` }
  }
  const sessionId = textOf(body, 'data.sessionId') || textOf(body, 'transaction.sessionid')
  return { kind: 'paid', sessionId: isPaymentKey(sessionId) ? sessionId : '' }
}

function toFloat(account: string, response: NinePsbResponse): FloatReading {
  const { cause } = response
  if (response.kind !== 'responded') return { kind: 'unavailable', cause }
  const { body } = response
  const isOurs = textOf(body, 'data.nuban') === account || textOf(body, 'data.number') === account
  const isDone = textOf(body, 'status').toUpperCase() === 'SUCCESS'
  const availableMinor = parseBalance(textOf(body, 'data.availableBalance'))
  return isOurs && isDone && availableMinor !== undefined
    ? { kind: 'read', availableMinor }
    : { kind: 'unavailable', cause }
}

const APPROVED = '00'

/** The code can be in three fields. If it is absent, the status `SUCCESS` counts as approved. */
function classify({ status, text }: BankResponse): NinePsbResponse {
  const body = parseBankJson(text)
  const given =
    textOf(body, 'data.responseCode') || textOf(body, 'responseCode') || textOf(body, 'code')
  const word = textOf(body, 'status').toUpperCase()
  const message = plainText(textOf(body, 'message'), 200)
  const code = given === '' && word === 'SUCCESS' ? APPROVED : given
  const cause = `HTTP ${status}, status ${JSON.stringify(plainText(word, 20))}, code ${JSON.stringify(plainText(given, 20))}: ${message}`
  if (status === 401 || status === 403) return { kind: 'denied', cause, sent: true }
  if (status >= 500 || (word === '' && given === '')) return { kind: 'unclear', cause }
  if (code === APPROVED && status >= 400) return { kind: 'unclear', cause }
  return { kind: 'responded', body, code, cause }
}

async function authenticateAt(
  settings: NinePsbTransferSettings,
  http: BankHttp,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const path = settings.transferAuthenticatePath
  const body = JSON.stringify({
    username: settings.transferUsername,
    password: settings.transferPassword,
    clientId: settings.transferClientId,
    clientSecret: settings.transferClientSecret,
  })
  const response = await http.send({ method: 'POST', path, headers: JSON_HEADERS, body, signal })
  const issued = parseBankJson(response.text)
  const token = textOf(issued, 'accessToken')
  if (response.status === 200 && /^[\x21-\x7e]+$/.test(token)) {
    return { token, expiresInSeconds: lifetimeSeconds(textOf(issued, 'expiresIn')) }
  }
  const message = plainText(textOf(issued, 'message'), 200)
  const cause = `HTTP ${response.status}: ${message}`
  // The request contains only the operator's settings, so a refusal means that they are wrong.
  const isDenied = response.status < 500 && message !== ''
  throw isDenied ? new AccessDeniedError(cause) : new BankUnreachableError(cause, true)
}
