import { MINUTE_MS } from '../../core/durations.ts'
import { formatAmount } from '../../core/money.ts'
import { BANK_FACTS, failure } from '../bank.ts'
import {
  type BankFields,
  isPaymentKey,
  parseBalance,
  parseNaira,
  plainText,
  textOf,
} from '../bank-fields.ts'
import { type BankApi, BankUnreachableError, parseBankJson } from '../http/bank-http.ts'
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
import type { ProvidusTransferSettings } from './settings.ts'

/**
 * Transfers out of the operator's account at Providus Bank.
 *
 * Source: the bank's developer pages "Third party generic API" and "Transfer services" (GetNIPAccount,
 * NIPFundTransfer, GetNIPTransactionStatus, and the same for accounts at Providus itself). They name
 * three response codes of transfers: 00, 03 and 7709. Other codes are read as NIP response codes, and
 * texts as public integrations read them.
 */
export function createProvidusTransfers(
  settings: ProvidusTransferSettings,
  api: BankApi,
): TransferConnector {
  const call = createCall(settings, api)
  return {
    async enquireName({ bankCode, accountNumber }, signal) {
      if (bankCode === OWN_CODE) {
        const fields = { accountNumber }
        return toName(accountNumber, await call(settings.transferOwnEnquiryPath, fields, signal))
      }
      const fields = { accountNumber, beneficiaryBank: bankCode }
      return toName(accountNumber, await call(settings.transferEnquiryPath, fields, signal))
    },
    async send(order, signal) {
      const [path, fields] = isOwn(order)
        ? [settings.transferOwnPath, ownTransfer(order, settings)]
        : [settings.transferPath, interbankTransfer(order, settings)]
      return toSent(order, await call(path, fields, signal))
    },
    async find(order, signal) {
      const path = isOwn(order) ? settings.transferOwnStatusPath : settings.transferStatusPath
      const reply = await call(path, { transactionReference: order.reference }, signal)
      return toFound(order, reply)
    },
    async readFloat(signal) {
      const fields = { accountNumber: settings.transferAccount }
      return toFloat(
        settings.transferAccount,
        await call(settings.transferOwnEnquiryPath, fields, signal),
      )
    },
    consistencyMs: CONSISTENCY_MS,
  }
}

/** The interbank calls do not work for accounts at Providus itself, as public integrations show. */
const OWN_CODE = BANK_FACTS.PROVIDUS.interbankCode

/**
 * A guess, to be confirmed with the bank: public integrations wait five minutes for its response, so
 * a request that timed out here may be executed later than that.
 */
const CONSISTENCY_MS = 15 * MINUTE_MS

const NARRATION_MAX = 100

function isOwn({ beneficiary }: TransferOrder): boolean {
  return beneficiary.bankCode === OWN_CODE
}

function interbankTransfer(order: TransferOrder, settings: ProvidusTransferSettings): BankFields {
  const { bankCode, accountNumber, accountName } = order.beneficiary
  return {
    ...commonFields(order),
    sourceAccountName: settings.transferSender,
    beneficiaryAccountName: accountName,
    beneficiaryAccountNumber: accountNumber,
    beneficiaryBank: bankCode,
  }
}

function ownTransfer(order: TransferOrder, settings: ProvidusTransferSettings): BankFields {
  return {
    ...commonFields(order),
    debitAccount: settings.transferAccount,
    creditAccount: order.beneficiary.accountNumber,
  }
}

function commonFields({ amountMinor, narration, reference }: TransferOrder): BankFields {
  return {
    transactionAmount: formatAmount(amountMinor),
    currencyCode: 'NGN',
    narration: plainText(narration, NARRATION_MAX),
    transactionReference: reference,
  }
}

function toName(accountNumber: string, reply: Reply): NameEnquiry {
  if (reply.kind !== 'responded') return failure('unavailable', reply)
  const { body, code, cause } = reply
  const isMissing = /account.*(does not exist|not found)|invalid account/i.test(reply.message)
  if (code === NIP_INVALID_ACCOUNT || (code !== APPROVED && isMissing)) {
    return { kind: 'not found', cause }
  }
  const accountName = plainText(textOf(body, 'accountName'), 200)
  if (code !== APPROVED || accountName === '') return { kind: 'unavailable', cause }
  if (textOf(body, 'accountNumber') !== accountNumber) {
    return { kind: 'unavailable', cause: `${cause}; for another account` }
  }
  return { kind: 'found', accountName, enquiryReference: '' }
}

/** Only a response about this transfer counts. A refusal may lack the reference. */
function toSent(order: TransferOrder, reply: Reply): SendResult {
  if (reply.kind === 'not sent') return reply
  if (reply.kind !== 'responded') return failure('unknown', reply)
  const { body, code, message, cause } = reply
  const { reference, sessionId } = referencesOf(body)
  if (code === APPROVED) {
    const fault = differenceOf(order, body)
    return fault === undefined
      ? { kind: 'paid', sessionId: textOf(body, 'sessionId') || sessionId }
      : { kind: 'unknown', cause: `${cause}; ${fault}` }
  }
  if (reference !== '' && reference !== order.reference) {
    return { kind: 'unknown', cause: `${cause}; for another reference` }
  }
  // An earlier attempt may have been executed.
  if (code === REFERENCE_EXISTS || /reference exists/i.test(message)) {
    return { kind: 'unknown', cause }
  }
  return toState(order, reply)
}

function toFound(order: TransferOrder, reply: Reply): FoundTransfer {
  if (reply.kind !== 'responded') return failure('unknown', reply)
  const { body, code, message, cause } = reply
  const { reference, sessionId } = referencesOf(body)
  if (reference !== '' && reference !== order.reference) {
    return { kind: 'unknown', cause: `${cause}; for another reference` }
  }
  const states = (missing: RegExp) => statesItself(message, order, (text) => missing.test(text))
  if (code === MISSING && states(/transaction does not exist/i)) {
    return { kind: 'not found', cause }
  }
  // Without our reference, the code is about the query, not about the transfer.
  if (reference === '') return { kind: 'unknown', cause }
  if (code !== APPROVED) return toState(order, reply)
  const fault = differenceOf(order, body)
  return fault === undefined
    ? { kind: 'paid', sessionId }
    : { kind: 'unknown', cause: `${cause}; ${fault}` }
}

/** The state of a transfer that is not approved. */
function toState(order: TransferOrder, { code, message, cause }: Responded): TransferState {
  const states = (refusal: RegExp) => statesItself(message, order, (text) => refusal.test(text))
  if (isOpenCode(code)) return readNipCode(code, cause)
  if (statesItself(message, order, saysReturned)) return { kind: 'returned', cause }
  if (states(/insufficient/i)) {
    return { kind: 'failed', reason: 'insufficient_float', cause }
  }
  if (states(/account.*does not exist/i)) {
    return { kind: 'failed', reason: 'beneficiary_rejected', cause }
  }
  return readNipCode(code, cause)
}

/** How an approval differs from the order. Fields that a call does not return are not compared. */
function differenceOf(order: TransferOrder, body: unknown): string | undefined {
  const { accountNumber, bankCode } = order.beneficiary
  const amount = textOf(body, 'amount')
  const account = textOf(body, 'recipientAccountNumber') || textOf(body, 'creditAccount')
  const bank = textOf(body, 'recipientBankCode')
  if (referencesOf(body).reference !== order.reference) return 'for another reference'
  if (amount !== '' && parseNaira(amount) !== order.amountMinor) return 'for another amount'
  if (account !== '' && account !== accountNumber) return 'for another account'
  // Some responses have a code of two or three digits.
  if (bank.length === bankCode.length && bank !== bankCode) return 'for another bank'
  return undefined
}

/** Status queries append the session id to our reference: `20191119143854|999037…`. */
function referencesOf(body: unknown): { readonly reference: string; readonly sessionId: string } {
  const [reference = '', sessionId = ''] = textOf(body, 'transactionReference')
    .split('|')
    .map((part) => part.trim())
  return { reference, sessionId: isPaymentKey(sessionId) ? sessionId : '' }
}

function toFloat(account: string, reply: Reply): FloatReading {
  if (reply.kind !== 'responded') return { kind: 'unavailable', cause: reply.cause }
  const { body, code, cause } = reply
  const availableMinor = parseBalance(textOf(body, 'availableBalance'))
  const isOurs = code === APPROVED && textOf(body, 'accountNumber') === account
  return isOurs && availableMinor !== undefined
    ? { kind: 'read', availableMinor }
    : { kind: 'unavailable', cause }
}

const APPROVED = '00'
const REFERENCE_EXISTS = '7709'
/** Means "not found" only together with its text: as a NIP response code, 01 means that the status is unknown. */
const MISSING = '01'

const DENIAL = /authenticat|unauthori[sz]ed|credential|password|user ?name|permission|ip address/i

/** The result of a call. */
type Reply =
  | {
      readonly kind: 'responded'
      readonly body: unknown
      readonly code: string
      readonly message: string
      readonly cause: string
    }
  /** The bank cannot have received the request. */
  | { readonly kind: 'not sent'; readonly cause: string }
  /** The bank does not accept our credentials or our address. */
  | { readonly kind: 'denied'; readonly cause: string }
  /** The bank may have executed the request. */
  | { readonly kind: 'unclear'; readonly cause: string }

type Responded = Extract<Reply, { kind: 'responded' }>

/** @returns a function that sends a request with our credentials, which the bank expects in the body */
function createCall(settings: ProvidusTransferSettings, { http, onAccess }: BankApi) {
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  const credentials = {
    userName: settings.transferUsername,
    password: settings.transferPassword,
  }
  return async (path: string, fields: BankFields, signal: AbortSignal): Promise<Reply> => {
    const body = JSON.stringify({ ...fields, ...credentials })
    try {
      const { status, text } = await http.send({ method: 'POST', path, headers, body, signal })
      const reply = toReply(status, parseBankJson(text))
      if (reply.kind === 'denied') onAccess(reply.cause)
      if (reply.kind === 'responded') onAccess(undefined)
      return reply
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      return { kind: error.sent ? 'unclear' : 'not sent', cause: error.message }
    }
  }
}

function toReply(status: number, body: unknown): Reply {
  const code = textOf(body, 'responseCode')
  const message = plainText(textOf(body, 'responseMessage'), 200)
  const cause = `HTTP ${status}, responseCode ${JSON.stringify(plainText(code, 20))}: ${message}`
  const isDenied = status === 401 || status === 403 || DENIAL.test(message)
  // The bank's pages also show "does not exist" with HTTP 401, which is not a denial.
  if (isDenied && code !== APPROVED && status < 500 && !/exist/i.test(message)) {
    return { kind: 'denied', cause }
  }
  if (status >= 500 || code === '' || (code === APPROVED && status !== 200)) {
    return { kind: 'unclear', cause }
  }
  return { kind: 'responded', body, code, message, cause }
}
