import type { AccountOrder, AccountResult } from '../bank.ts'
import { isAccountNumber, textOf } from '../bank-fields.ts'
import { mergeFields } from '../create-fields.ts'
import { getPath } from '../get-path.ts'
import { plainText } from '../plain-text.ts'
import { type PalmPayAnswer, type PalmPayCall, SUCCESS } from './call.ts'
import type { PalmPaySettings } from './settings.ts'

/** The account is not known. */
const NOT_FOUND = 'AC100001'
const IDENTITY_NOT_VERIFIED = 'AC100007'
const IDENTITY_USED = 'AC100009'

/** Turned away before anything was done: signature, our address, parameters. */
const TURNED_AWAY = ['OPEN_GW_000008', 'OPEN_GW_000012', 'OPEN_GW_000020']

/** The two questions about an account that is to be opened. */
export interface Opening {
  openAccount(order: AccountOrder, signal: AbortSignal): Promise<AccountResult>
  findOpened(order: AccountOrder, signal: AbortSignal): Promise<AccountResult>
}

export function createOpening(settings: PalmPaySettings, call: PalmPayCall): Opening {
  const ambiguous = (cause: string): AccountResult => ({
    kind: 'unknown',
    cause,
    next: settings.findBy === '' ? 'person' : 'query',
  })
  const findOpened = async (order: AccountOrder, signal: AbortSignal): Promise<AccountResult> => {
    if (settings.findBy === '') return ambiguous('PalmPay is not asked for accounts')
    const question = { [settings.findBy]: order.reference }
    const answer = await call(settings.findPath, question, signal)
    if (answer.kind !== 'answered') return ambiguous(answer.cause)
    if (answer.code === NOT_FOUND) return { kind: 'unavailable', cause: 'nothing was opened' }
    return answer.code === SUCCESS ? readAccount(order, answer) : ambiguous(answer.cause)
  }
  /** An earlier attempt without a clear end may have used the identity itself. */
  const settleIdentityUsed = async (
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
    findOpened,
    async openAccount(order, signal) {
      const answer = await call(settings.createPath, fieldsOfOrder(order, settings), signal)
      if (answer.kind === 'refused') return { kind: 'unavailable', cause: answer.cause }
      if (answer.kind === 'unclear') return ambiguous(answer.cause)
      if (answer.code === IDENTITY_NOT_VERIFIED) return rejected('was not verified by the bank')
      if (answer.code === IDENTITY_USED) return settleIdentityUsed(order, signal)
      if (TURNED_AWAY.includes(answer.code)) return { kind: 'unavailable', cause: answer.cause }
      if (answer.code !== SUCCESS) return ambiguous(answer.cause)
      return textOf(answer.fields, 'virtualAccountNo') === ''
        ? ambiguous('opened without a number')
        : readAccount(order, answer)
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

/** Takes an account for this order's only when PalmPay itself says our reference. */
function readAccount(
  order: AccountOrder,
  { fields }: Extract<PalmPayAnswer, { kind: 'answered' }>,
): AccountResult {
  const accountNumber = textOf(fields, 'virtualAccountNo')
  const reference = textOf(fields, 'accountReference')
  const status = textOf(fields, 'status') || 'Enabled'
  const person = (cause: string): AccountResult => ({ kind: 'unknown', cause, next: 'person' })
  if (reference !== order.reference)
    return person(`for another reference: "${plainText(reference, 80)}"`)
  if (!isAccountNumber(accountNumber))
    return person(`the number is "${plainText(accountNumber, 80)}"`)
  if (status !== 'Enabled') return person(`${accountNumber} is ${plainText(status, 40)}`)
  const accountName = plainText(getPath(fields, 'virtualAccountName'), 200) || order.accountName
  return { kind: 'opened', accountNumber, accountName, bankAccountId: '' }
}

function rejected(message: string): AccountResult {
  return { kind: 'rejected', fields: [{ field: 'idNumber', message }] }
}
