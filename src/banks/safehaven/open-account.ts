import { setTimeout as wait } from 'node:timers/promises'
import type { Clock } from '../../core/clock.ts'
import { toMajorNumber } from '../../core/money.ts'
import {
  type AccountOrder,
  type AccountResult,
  failure,
  manualReview,
  type OrderTerms,
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
import { isId, type SafeHavenCall, type SafeHavenResponse } from './call.ts'
import type { AccountSettings, SafeHavenSettings } from './settings.ts'

type VirtualSettings = Extract<AccountSettings, { kind: 'virtual' }>

type SubAccountSettings = Extract<AccountSettings, { kind: 'sub-account' }>

/**
 * Opens an account. Safe Haven cannot look up accounts by our reference, so an opening with an
 * unknown result is queued for manual review.
 */
export function createOpenAccount(settings: SafeHavenSettings, call: SafeHavenCall, clock: Clock) {
  const { account, virtualAccountsPath, subAccountsPath } = settings
  return async (order: AccountOrder, signal: AbortSignal): Promise<AccountResult> => {
    if (account.kind === 'sub-account' && identityOf(order, account) === undefined) {
      return rejected('identityId', "is required: the customer's verification at the bank")
    }
    const path = account.kind === 'virtual' ? virtualAccountsPath : subAccountsPath
    const fields = fieldsOfOrder(order, settings, clock.now())
    const response = await call('POST', path, fields, signal)
    if (response.kind === 'unreached' || response.kind === 'denied') {
      return failure('unavailable', response)
    }
    if (response.kind === 'unclear') return manualReview(response.cause)
    if (response.kind === 'refused') return toRejection(order, response)
    const opened = fieldsOf(response.body['data']) ?? {}
    if (account.kind !== 'virtual' || textOf(opened, 'accountNumber') !== '') {
      return readAccount(order, opened)
    }
    return readAccount(order, await pollForNumber(settings, account, call, opened, signal))
  }
}

function fieldsOfOrder(order: AccountOrder, settings: SafeHavenSettings, nowMs: number) {
  const { account, callbackUrl, callbackSecret, createFields } = settings
  const common = {
    callbackUrl: `${callbackUrl}/${callbackSecret}`,
    externalReference: order.reference,
  }
  if (account.kind === 'virtual') {
    const defaults = {
      ...common,
      validFor: account.validForSeconds,
      settlementAccount: {
        bankCode: account.settlementBankCode,
        accountNumber: account.settlementAccount,
      },
      amountControl: account.amountControl,
      amount: account.amountNaira,
    }
    return mergeFields(mergeFields(defaults, createFields), termsFields(order.terms, nowMs))
  }
  const fields = {
    ...common,
    phoneNumber: withCountryCode(order.phone),
    emailAddress: order.email,
    ...identityOf(order, account),
    autoSweep: false,
  }
  return mergeFields(fields, createFields)
}

/**
 * The identity that a sub-account needs: an identity number with its begun verification and the one-time code, or
 * a completed verification (`vID`). Without an identity of the customer, that of the operator is used.
 */
function identityOf(
  { idType, idNumber, verification }: AccountOrder,
  { operatorIdentityId }: SubAccountSettings,
) {
  if (verification !== undefined && verification.otp !== '') {
    const identityType = idType?.toUpperCase()
    return { identityType, identityNumber: idNumber, ...verification }
  }
  const identityId = verification?.identityId ?? operatorIdentityId
  return identityId === undefined ? undefined : { identityType: 'vID', identityId }
}

/** Nigerian numbers in the format of the bank: 08012345678 → +2348012345678. */
function withCountryCode(phone: string): string {
  if (phone.startsWith('+')) return phone
  return phone.startsWith('0') ? `+234${phone.slice(1)}` : `+${phone}`
}

/** Polls for the account number, which is available seconds later. Returns the last response if it never arrives. */
async function pollForNumber(
  { virtualAccountsPath }: SafeHavenSettings,
  { polls, pollMs }: VirtualSettings,
  call: SafeHavenCall,
  opened: BankFields,
  signal: AbortSignal,
): Promise<BankFields> {
  const id = textOf(opened, '_id')
  if (!isId(id)) return opened
  let latest = opened
  for (let poll = 0; poll < polls && textOf(latest, 'accountNumber') === ''; poll++) {
    await wait(pollMs, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) break
    const response = await call('GET', `${virtualAccountsPath}/${id}`, undefined, signal)
    const found = response.kind === 'success' ? fieldsOf(response.body['data']) : undefined
    if (found && textOf(found, '_id') === id) latest = found
  }
  return latest
}

function toRejection(
  order: AccountOrder,
  { code, cause }: Extract<SafeHavenResponse, { kind: 'refused' }>,
): AccountResult {
  // The bank knows our reference: an earlier attempt with an unknown result had succeeded.
  if (order.repeated && (code === 409 || /exist|duplicate|already/i.test(cause))) {
    return manualReview(cause)
  }
  const field = code !== 400 && code !== 422 ? undefined : fieldNamedIn(cause, order)
  if (field === undefined) {
    return { kind: 'unavailable', cause, ...(code !== 429 && { refusal: 'request' }) }
  }
  return rejected(field, 'was not accepted by the bank')
}

function rejected(field: string, message: string): AccountResult {
  return { kind: 'rejected', fields: [{ field, message }] }
}

/** The customer's detail that the message rejects; undefined: the settings are wrong. */
function fieldNamedIn(message: string, { verification }: AccountOrder): string | undefined {
  if (/phone/i.test(message)) return 'phone'
  if (/e-?mail/i.test(message)) return 'email'
  if (verification === undefined) return undefined
  if (/\botp\b|one.time/i.test(message)) return 'otp'
  return /identity|bvn|nin\b/i.test(message) ? 'identityId' : undefined
}

/** Rejects an account if the bank returns another reference with it. */
function readAccount(order: AccountOrder, opened: BankFields): AccountResult {
  const accountNumber = textOf(opened, 'accountNumber')
  const bankAccountId = textOf(opened, '_id')
  const reference = textOf(opened, 'externalReference') || order.reference
  if (reference !== order.reference)
    return manualReview(`the account has another reference: ${plainText(reference, 80)}`)
  if (!isAccountNumber(accountNumber) || !isId(bankAccountId)) {
    const [id, number] = [plainText(bankAccountId, 80), plainText(accountNumber, 80)]
    return manualReview(`the account has id "${id}" and number "${number}"`)
  }
  const accountName = plainText(getPath(opened, 'accountName'), 200) || order.accountName
  return { kind: 'opened', accountNumber, accountName, bankAccountId }
}

/** The bank's names for the amount rules. */
const AMOUNT_CONTROLS = {
  EXACT: 'Fixed',
  AT_LEAST: 'OverPayment',
  AT_MOST: 'UnderPayment',
} as const

/** The shortest validity, which is also the minimum of the setting. */
const VALID_SECONDS_MIN = 60

/**
 * The terms of an expiring account that the bank enforces: the amount and the expiry. Without a term, the setting applies.
 * The expiry is rounded up, so that the bank never expires an account before we do.
 */
export function termsFields(terms: OrderTerms | undefined, nowMs: number): BankFields {
  if (terms === undefined) return {}
  const { expectedAmountMinor, amountRule, expiresAtMs } = terms
  return {
    ...(expectedAmountMinor !== undefined &&
      amountRule !== 'ANY' && {
        amountControl: AMOUNT_CONTROLS[amountRule],
        amount: toMajorNumber(expectedAmountMinor),
      }),
    ...(expiresAtMs !== undefined && {
      validFor: Math.max(VALID_SECONDS_MIN, Math.ceil((expiresAtMs - nowMs) / 1_000)),
    }),
  }
}
