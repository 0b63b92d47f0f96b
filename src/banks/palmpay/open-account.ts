import {
  type AccountOrder,
  type AccountResult,
  type BankConnector,
  failure,
  manualReview,
} from '../bank.ts'
import {
  type BankFields,
  fieldsOf,
  getPath,
  isAccountNumber,
  mergeFields,
  plainText,
  textOf,
} from '../bank-fields.ts'
import {
  type BankResponse,
  BankUnreachableError,
  type ConnectorOptions,
  parseBankJson,
} from '../http/bank-http.ts'
import { NUMBER_FIELD, type PalmPaySettings } from './settings.ts'
import { signedTexts, signFields } from './signature.ts'

/** "The account does not exist", according to public integrations; this does not prove that none was opened. */
export const NOT_FOUND = 'AC100001'
const IDENTITY_NOT_VERIFIED = 'AC100007'
const IDENTITY_USED = 'AC100009'

/** The code for a request that was rejected before execution. */
export const INVALID_PARAMETER = 'OPEN_GW_000020'

/** Opens accounts, and finds the result of an earlier opening if PalmPay can be asked for it. */
type Opening = Pick<BankConnector, 'openAccount' | 'afterCrash' | 'findOpened' | 'findNumber'>

export function createOpening(settings: PalmPaySettings, call: PalmPayCall): Opening {
  const { findBy, findPath, notOpenedCode } = settings
  const findsReference = findBy !== '' && findBy !== NUMBER_FIELD
  const next = findsReference ? 'requery' : 'manual review'
  const ambiguous = (cause: string): AccountResult => ({ kind: 'unknown', cause, next })
  /** The result of a query without a usable response. */
  const unanswered = (response: PalmPayResponse): AccountResult => ({
    ...failure('unknown', response),
    next,
  })
  const findOpened = async (order: AccountOrder, signal: AbortSignal): Promise<AccountResult> => {
    if (!findsReference) return ambiguous('PalmPay cannot look up accounts by reference')
    const response = await call(findPath, { [findBy]: order.reference }, signal)
    if (response.kind !== 'responded') return unanswered(response)
    if (response.code === SUCCESS) return readAccount(order, response)
    if (response.code === notOpenedCode) {
      return { kind: 'unavailable', cause: 'PalmPay opened no account' }
    }
    return response.code === NOT_FOUND ? manualReview(response.cause) : ambiguous(response.cause)
  }
  const findNumber = async (
    order: AccountOrder,
    accountNumber: string,
    signal: AbortSignal,
  ): Promise<AccountResult> => {
    const response = await call(findPath, { [NUMBER_FIELD]: accountNumber }, signal)
    if (response.kind !== 'responded') return unanswered(response)
    if (response.code === SUCCESS) return readAccount(order, response)
    if (response.code !== NOT_FOUND) return ambiguous(response.cause)
    return { kind: 'unavailable', cause: 'PalmPay has no account with this number' }
  }
  /** An earlier attempt with an unknown result may have used the identity. */
  const resolveUsedIdentity = async (
    order: AccountOrder,
    signal: AbortSignal,
  ): Promise<AccountResult> => {
    if (!order.repeated) return rejected('is already used for an account at the bank')
    const found = await findOpened(order, signal)
    return found.kind === 'unavailable'
      ? rejected('is already used for an account at the bank')
      : found
  }
  return {
    afterCrash: findsReference ? 'requery' : 'manual review',
    ...(findsReference && { findOpened }),
    ...(findBy === NUMBER_FIELD && { findNumber }),
    async openAccount(order, signal) {
      const response = await call(settings.createPath, fieldsOfOrder(order, settings), signal)
      const { cause } = response
      if (response.kind === 'denied' || response.kind === 'refused') {
        return failure('unavailable', response)
      }
      if (response.kind === 'unclear') return ambiguous(cause)
      if (response.code === IDENTITY_NOT_VERIFIED) return rejected('was not verified by the bank')
      if (response.code === IDENTITY_USED) return resolveUsedIdentity(order, signal)
      if (response.code === INVALID_PARAMETER)
        return { kind: 'unavailable', cause, refusal: 'request' }
      if (response.code !== SUCCESS) return ambiguous(cause)
      return textOf(response.fields, 'virtualAccountNo') === ''
        ? ambiguous('the account has no number')
        : readAccount(order, response)
    },
  }
}

function fieldsOfOrder(
  order: AccountOrder,
  { createFields }: PalmPaySettings,
): Record<string, unknown> {
  const fields = {
    virtualAccountName: order.accountName,
    identityType: order.idType === 'nin' ? 'personal_nin' : 'personal',
    licenseNumber: order.idNumber,
    customerName: `${order.firstName} ${order.lastName}`,
    email: order.email,
    accountReference: order.reference,
  }
  return mergeFields(fields, createFields)
}

/** Accepts an account only if PalmPay returns our reference with it. */
function readAccount(
  order: AccountOrder,
  { fields }: Extract<PalmPayResponse, { kind: 'responded' }>,
): AccountResult {
  const accountNumber = textOf(fields, 'virtualAccountNo')
  const reference = textOf(fields, 'accountReference')
  const status = textOf(fields, 'status') || 'Enabled'
  if (reference !== order.reference)
    return manualReview(`the account has another reference: "${plainText(reference, 80)}"`)
  if (!isAccountNumber(accountNumber))
    return manualReview(`the account number is "${plainText(accountNumber, 80)}"`)
  if (status !== 'Enabled')
    return manualReview(`account ${accountNumber} is ${plainText(status, 40)}`)
  const accountName = plainText(getPath(fields, 'virtualAccountName'), 200) || order.accountName
  return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
}

function rejected(message: string): AccountResult {
  return { kind: 'rejected', fields: [{ field: 'idNumber', message }] }
}

/** The result of a call. */
export type PalmPayResponse =
  /** PalmPay responded; `code` is its `respCode`. */
  | {
      readonly kind: 'responded'
      readonly code: string
      /** Code and message, for the log. */
      readonly cause: string
      /** Empty unless the data is an object. */
      readonly fields: BankFields
      readonly data: unknown
    }
  /** The call did not reach PalmPay and was not executed. */
  | {
      readonly kind: 'refused'
      readonly cause: string
      /** Whether the call reached a gateway, which did not forward it. */
      readonly sent: boolean
    }
  /** Not executed: PalmPay does not accept our signature, or does not list our address. */
  | { readonly kind: 'denied'; readonly cause: string }
  /** PalmPay may have executed the call. */
  | { readonly kind: 'unclear'; readonly cause: string }

export const SUCCESS = '00000000'

export type PalmPayCall = (
  path: string,
  fields: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
) => Promise<PalmPayResponse>

/** The codes for an unknown app or a wrong signature, and for an address that is not listed. */
const DENIED_CODES = ['OPEN_GW_000008', 'OPEN_GW_000012']

/** Statuses of a gateway that did not forward the call. */
const REJECTED_STATUSES = [404, 429]
const DENIED_STATUSES = [401, 403]

/** Signs and sends a call. Throws only for our own defects. */
export function createPalmPayCall(options: ConnectorOptions<PalmPaySettings>): PalmPayCall {
  const { settings, http, clock, random, onAccess } = options
  return async (path, fields, signal) => {
    const body = {
      ...fields,
      requestTime: clock.now(),
      nonceStr: random(16).toString('hex'),
      version: settings.version,
    }
    const headers = {
      Accept: 'application/json',
      Authorization: `Bearer ${settings.appId}`,
      'Content-Type': 'application/json;charset=UTF-8',
      CountryCode: settings.countryCode,
      Signature: signFields(signedTexts(body), settings.privateKey),
    }
    try {
      const request = { method: 'POST' as const, path, headers, body: JSON.stringify(body), signal }
      const response = parseResponse(await http.send(request))
      if (response.kind === 'denied') onAccess(response.cause)
      if (response.kind === 'responded') onAccess(undefined)
      return response
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      const cause = error.message
      return error.sent ? { kind: 'unclear', cause } : { kind: 'refused', cause, sent: false }
    }
  }
}

function parseResponse({ status, text }: BankResponse): PalmPayResponse {
  const body = fieldsOf(parseBankJson(text))
  const code = body ? plainText(getPath(body, 'respCode'), 40) : ''
  if (body && code !== '') {
    const cause = `${code} ${plainText(getPath(body, 'respMsg'), 200)}`.trim()
    if (DENIED_CODES.includes(code)) return { kind: 'denied', cause }
    const { data } = body
    return { kind: 'responded', code, cause, fields: fieldsOf(data) ?? {}, data }
  }
  const cause = `HTTP ${status} without a respCode`
  if (DENIED_STATUSES.includes(status)) return { kind: 'denied', cause }
  return REJECTED_STATUSES.includes(status)
    ? { kind: 'refused', cause, sent: true }
    : { kind: 'unclear', cause }
}
