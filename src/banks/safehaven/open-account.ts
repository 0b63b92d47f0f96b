import { setTimeout as wait } from 'node:timers/promises'
import type { AccountOrder, AccountResult } from '../bank.ts'
import { type BankFields, fieldsOf, isAccountNumber, textOf } from '../bank-fields.ts'
import { mergeFields } from '../create-fields.ts'
import { getPath } from '../get-path.ts'
import { plainText } from '../plain-text.ts'
import type { SafeHavenAnswer, SafeHavenCall } from './call.ts'
import type { AccountSettings, SafeHavenSettings } from './settings.ts'

type VirtualSettings = Extract<AccountSettings, { kind: 'virtual' }>

/**
 * Opens an account. Safe Haven has no call that finds one by our reference, so that a person has to
 * look after an opening without a clear end.
 */
export function createOpenAccount(settings: SafeHavenSettings, call: SafeHavenCall) {
  const { account, virtualAccountsPath, subAccountsPath } = settings
  return async (order: AccountOrder, signal: AbortSignal): Promise<AccountResult> => {
    const path = account.kind === 'virtual' ? virtualAccountsPath : subAccountsPath
    const answer = await call('POST', path, fieldsOfOrder(order, settings), signal)
    if (answer.kind === 'unreached') return { kind: 'unavailable', cause: answer.cause }
    if (answer.kind === 'unclear') return person(answer.cause)
    if (answer.kind === 'refused') return refusal(order, answer)
    const opened = fieldsOf(answer.body['data']) ?? {}
    if (account.kind !== 'virtual' || textOf(opened, 'accountNumber') !== '') {
      return readAccount(order, opened)
    }
    return readAccount(order, await pollForNumber(settings, account, call, opened, signal))
  }
}

function fieldsOfOrder(order: AccountOrder, settings: SafeHavenSettings) {
  const { account, callbackUrl, callbackSecret, createFields } = settings
  const common = {
    callbackUrl: `${callbackUrl}/${callbackSecret}`,
    externalReference: order.reference,
  }
  if (account.kind === 'virtual') {
    const fields = {
      ...common,
      validFor: account.validForSeconds,
      settlementAccount: {
        bankCode: account.settlementBankCode,
        accountNumber: account.settlementAccount,
      },
      amountControl: account.amountControl,
      amount: account.amountNaira,
    }
    return mergeFields(fields, createFields)
  }
  const { identityType, identityNumber, identityId, identityOtp: otp } = account
  const fields = {
    ...common,
    phoneNumber: withCountryCode(order.phone),
    emailAddress: order.email,
    identityType,
    ...(identityNumber && { identityNumber }),
    ...(identityId && { identityId }),
    ...(otp && { otp }),
    autoSweep: false,
  }
  return mergeFields(fields, createFields)
}

/** Nigerian numbers as the bank wants them: 08012345678 → +2348012345678. */
function withCountryCode(phone: string): string {
  if (phone.startsWith('+')) return phone
  return phone.startsWith('0') ? `+234${phone.slice(1)}` : `+${phone}`
}

/** A number comes seconds after the account. When it does not come, the last answer is returned. */
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
    const answer = await call('GET', `${virtualAccountsPath}/${id}`, undefined, signal)
    const found = answer.kind === 'done' ? fieldsOf(answer.body['data']) : undefined
    if (found && textOf(found, '_id') === id) latest = found
  }
  return latest
}

function refusal(
  order: AccountOrder,
  { code, cause }: Extract<SafeHavenAnswer, { kind: 'refused' }>,
): AccountResult {
  // Our reference is known there: an earlier attempt without a clear end was carried out.
  if (order.repeated && (code === 409 || /exist|duplicate|already/i.test(cause))) {
    return person(cause)
  }
  const field = code !== 400 && code !== 422 ? undefined : fieldNamedIn(cause)
  if (field === undefined) return { kind: 'unavailable', cause }
  return { kind: 'rejected', fields: [{ field, message: 'was not accepted by the bank' }] }
}

/** The customer's details that we send; anything else is a fault of settings. */
function fieldNamedIn(message: string): 'phone' | 'email' | undefined {
  if (/phone/i.test(message)) return 'phone'
  return /e-?mail/i.test(message) ? 'email' : undefined
}

/** Takes an account for this order's only when the bank does not say another reference. */
function readAccount(order: AccountOrder, opened: BankFields): AccountResult {
  const accountNumber = textOf(opened, 'accountNumber')
  const bankAccountId = textOf(opened, '_id')
  const reference = textOf(opened, 'externalReference') || order.reference
  if (reference !== order.reference)
    return person(`opened for another reference: ${plainText(reference, 80)}`)
  if (!isAccountNumber(accountNumber) || !isId(bankAccountId)) {
    const [id, number] = [plainText(bankAccountId, 80), plainText(accountNumber, 80)]
    return person(`opened as "${id}" with the number "${number}"`)
  }
  const accountName = plainText(getPath(opened, 'accountName'), 200) || order.accountName
  return { kind: 'opened', accountNumber, accountName, bankAccountId }
}

/** Whether it may stand in a path. */
function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text)
}

function person(cause: string): AccountResult {
  return { kind: 'unknown', cause, next: 'person' }
}
