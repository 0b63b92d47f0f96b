import { MINUTE_MS } from '../../core/durations.ts'
import { BANK_FACTS, DENIED } from '../bank.ts'
import { type BankFields, plainText, textOf } from '../bank-fields.ts'
import type {
  FloatReading,
  FoundTransfer,
  NameEnquiry,
  SendResult,
  TransferAccount,
  TransferConnector,
  TransferOrder,
  TransferState,
} from '../transfer.ts'
import { differenceFrom, leavesOpen, reasonOfText } from '../transfer-response.ts'
import {
  INVALID_PARAMETER,
  NOT_FOUND,
  type PalmPayCall,
  type PalmPayResponse,
  SUCCESS,
} from './open-account.ts'
import type { PalmPayTransferSettings } from './settings.ts'

/** A guess: PalmPay documents no time after which its status is complete. */
const CONSISTENCY_MS = 15 * MINUTE_MS

/**
 * Payouts out of the operator's balance at PalmPay. PalmPay cannot list them.
 *
 * Source: public integrations; PalmPay's own documents are not public.
 */
export function createPalmPayTransfers(
  settings: PalmPayTransferSettings,
  call: PalmPayCall,
): TransferConnector {
  return {
    enquireName: (account, signal) =>
      account.bankCode === BANK_FACTS.PALMPAY.interbankCode
        ? enquireOwnName(settings, call, account, signal)
        : enquireName(settings, call, account, signal),
    send: (order, signal) => send(settings, call, order, signal),
    find: (order, signal) => find(settings, call, order, signal),
    readFloat: (signal) => readFloat(settings, call, signal),
    consistencyMs: CONSISTENCY_MS,
  }
}

const NO_ACCOUNT_TEXT = /not (found|exist)|does not exist|invalid|incorrect|no such/i

async function enquireName(
  { transferEnquiryPath }: PalmPayTransferSettings,
  call: PalmPayCall,
  { bankCode, accountNumber }: TransferAccount,
  signal: AbortSignal,
): Promise<NameEnquiry> {
  const asked = { bankCode, bankAccNo: accountNumber }
  const response = await call(transferEnquiryPath, asked, signal)
  if (response.kind !== 'responded' || response.code !== SUCCESS) return unavailable(response)
  const { fields } = response
  // Integrations have seen both spellings.
  const status = textOf(fields, 'Status') || textOf(fields, 'status')
  const accountName = plainText(textOf(fields, 'accountName'), 200)
  if (status.toLowerCase() === 'success' && accountName !== '') return named(accountName)
  const cause = `status "${status}": ${plainText(textOf(fields, 'errorMessage'), 200)}`
  return { kind: NO_ACCOUNT_TEXT.test(cause) ? 'not found' : 'unavailable', cause }
}

/** PalmPay has another call for its own accounts. */
async function enquireOwnName(
  { transferOwnEnquiryPath }: PalmPayTransferSettings,
  call: PalmPayCall,
  { accountNumber }: TransferAccount,
  signal: AbortSignal,
): Promise<NameEnquiry> {
  const response = await call(transferOwnEnquiryPath, { palmpayAccNo: accountNumber }, signal)
  if (response.kind !== 'responded' || response.code !== SUCCESS) return unavailable(response)
  const accountName = plainText(textOf(response.fields, 'accountName'), 200)
  const status = plainText(textOf(response.fields, 'accountStatus'), 10)
  if (accountName === '') return { kind: 'not found', cause: 'PalmPay returned no name' }
  // "0 = available"
  return ['0', ''].includes(status)
    ? named(accountName)
    : { kind: 'not found', cause: `accountStatus ${status}` }
}

/** PalmPay needs nothing of the enquiry for the payout. */
function named(accountName: string): NameEnquiry {
  return { kind: 'found', accountName, enquiryReference: '' }
}

function unavailable(response: PalmPayResponse): NameEnquiry {
  const { kind, cause } = response
  if (kind === 'responded' && response.code === NOT_FOUND) return { kind: 'not found', cause }
  return { kind: 'unavailable', cause, ...(kind === 'denied' && DENIED) }
}

async function send(
  { transferPath, transferNotifyUrl }: PalmPayTransferSettings,
  call: PalmPayCall,
  order: TransferOrder,
  signal: AbortSignal,
): Promise<SendResult> {
  const { reference, beneficiary } = order
  const fields = {
    orderId: reference,
    payeeName: beneficiary.accountName,
    payeeBankCode: beneficiary.bankCode,
    payeeBankAccNo: beneficiary.accountNumber,
    currency: 'NGN',
    amount: Number(order.amountMinor),
    notifyUrl: transferNotifyUrl,
    remark: order.narration || reference,
  }
  const response = await call(transferPath, fields, signal)
  const { cause } = response
  if (response.kind === 'responded') {
    return response.code === SUCCESS
      ? stateOf(order, response.fields)
      : toRefusal(response.code, cause)
  }
  if (response.kind === 'refused' && !response.sent) return { kind: 'not sent', cause }
  return { kind: 'unknown', cause, ...(response.kind === 'denied' && DENIED) }
}

/** Texts of a reference that PalmPay has seen before: an earlier attempt may have been executed. */
const USED_TEXT = /duplicat|already|exists/i

/** Clear are a request that the gateway rejects, and texts about the float or the payee: no list of other codes is public. */
function toRefusal(code: string, cause: string): TransferState {
  const reason = reasonOfText(cause)
  if (code === INVALID_PARAMETER && !USED_TEXT.test(cause)) return { kind: 'failed', cause, reason }
  return reason === 'bank_rejected' || leavesOpen(cause)
    ? { kind: 'unknown', cause }
    : { kind: 'failed', cause, reason }
}

const STATUSES = { unpaid: '0', paying: '1', paid: '2', failed: '3', closed: '4' } as const

/** Reads a payout. Its amount is in kobo, and PalmPay may state it only once it is paid. */
function stateOf(order: TransferOrder, fields: BankFields): TransferState {
  const amount = textOf(fields, 'amount')
  const difference = differenceFrom(order, {
    reference: textOf(fields, 'orderId'),
    amountMinor: amount === '' ? order.amountMinor : koboOf(amount),
    accountNumber: textOf(fields, 'payeeBankAccNo'),
  })
  if (difference !== undefined) return { kind: 'unknown', cause: difference }
  const status = plainText(textOf(fields, 'orderStatus'), 10)
  const message = plainText(textOf(fields, 'errorMsg') || textOf(fields, 'message'), 200)
  const cause = `orderStatus "${status}" ${message}`.trim()
  switch (status) {
    case STATUSES.unpaid:
    case STATUSES.paying:
      return { kind: 'pending', cause }
    case STATUSES.paid:
      return { kind: 'paid', sessionId: plainText(textOf(fields, 'sessionId'), 64) }
    case STATUSES.failed:
    case STATUSES.closed:
      return /revers|return|refund/i.test(message)
        ? { kind: 'returned', cause }
        : { kind: 'failed', cause, reason: reasonOfText(message) }
    default:
      return { kind: 'unknown', cause }
  }
}

/** An unknown order gets a success without data, as a public integration found out. */
async function find(
  { transferStatusPath }: PalmPayTransferSettings,
  call: PalmPayCall,
  order: TransferOrder,
  signal: AbortSignal,
): Promise<FoundTransfer> {
  const response = await call(transferStatusPath, { orderId: order.reference }, signal)
  const { cause } = response
  if (response.kind !== 'responded') {
    return { kind: 'unknown', cause, ...(response.kind === 'denied' && DENIED) }
  }
  if (response.code === NOT_FOUND) return { kind: 'not found', cause }
  if (response.code !== SUCCESS) return { kind: 'unknown', cause }
  return response.data === null || response.data === undefined
    ? { kind: 'not found', cause: 'PalmPay returned no payout' }
    : stateOf(order, response.fields)
}

async function readFloat(
  { transferBalancePath, transferMerchantId }: PalmPayTransferSettings,
  call: PalmPayCall,
  signal: AbortSignal,
): Promise<FloatReading> {
  const response = await call(transferBalancePath, { merchantId: transferMerchantId }, signal)
  if (response.kind !== 'responded' || response.code !== SUCCESS) {
    return { kind: 'unavailable', cause: response.cause }
  }
  const availableMinor = koboOf(textOf(response.fields, 'availableBalance'))
  return availableMinor === undefined
    ? { kind: 'unavailable', cause: 'no amount in availableBalance' }
    : { kind: 'read', availableMinor }
}

function koboOf(text: string): bigint | undefined {
  return /^-?\d{1,18}$/.test(text) ? BigInt(text) : undefined
}
