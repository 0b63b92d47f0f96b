import { MINUTE_MS } from '../../core/durations.ts'
import { BANK_FACTS, failure } from '../bank.ts'
import { type BankFields, plainText, textOf } from '../bank-fields.ts'
import type {
  FloatReading,
  FoundTransfer,
  NameEnquiry,
  SendResult,
  TransferConnector,
  TransferOrder,
  TransferState,
} from '../transfer.ts'
import { differenceFrom, leavesOpen, reasonOfText, statesItself } from '../transfer-response.ts'
import {
  INVALID_PARAMETER,
  NOT_FOUND,
  type PalmPayCall,
  type PalmPayResponse,
  SUCCESS,
} from './open-account.ts'
import type { PalmPayTransferSettings } from './settings.ts'

/** A guess: PalmPay does not document after what time its status query is complete. */
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
    async enquireName({ bankCode, accountNumber }, signal) {
      // Accounts at PalmPay itself have a call of their own.
      if (bankCode === BANK_FACTS.PALMPAY.interbankCode) {
        const asked = { palmpayAccNo: accountNumber }
        return toOwnName(await call(settings.transferOwnEnquiryPath, asked, signal))
      }
      const asked = { bankCode, bankAccNo: accountNumber }
      return toName(await call(settings.transferEnquiryPath, asked, signal))
    },
    async send(order, signal) {
      const fields = transferFields(order, settings)
      return toSent(order, await call(settings.transferPath, fields, signal))
    },
    async find(order, signal) {
      const asked = { orderId: order.reference }
      return toFound(order, await call(settings.transferStatusPath, asked, signal))
    },
    async readFloat(signal) {
      const asked = { merchantId: settings.transferMerchantId }
      return toFloat(await call(settings.transferBalancePath, asked, signal))
    },
    consistencyMs: CONSISTENCY_MS,
  }
}

const NO_ACCOUNT_TEXT = /not (found|exist)|does not exist|invalid|incorrect|no such/i

function toName(response: PalmPayResponse): NameEnquiry {
  if (response.kind !== 'responded' || response.code !== SUCCESS) return unavailable(response)
  const { fields } = response
  // Integrations have seen both spellings.
  const status = textOf(fields, 'Status') || textOf(fields, 'status')
  const accountName = plainText(textOf(fields, 'accountName'), 200)
  if (status.toLowerCase() === 'success' && accountName !== '') return named(accountName)
  const cause = `status "${status}": ${plainText(textOf(fields, 'errorMessage'), 200)}`
  return { kind: NO_ACCOUNT_TEXT.test(cause) ? 'not found' : 'unavailable', cause }
}

function toOwnName(response: PalmPayResponse): NameEnquiry {
  if (response.kind !== 'responded' || response.code !== SUCCESS) return unavailable(response)
  const accountName = plainText(textOf(response.fields, 'accountName'), 200)
  const status = plainText(textOf(response.fields, 'accountStatus'), 10)
  if (accountName === '') return { kind: 'not found', cause: 'PalmPay returned no name' }
  // "0 = available"
  return ['0', ''].includes(status)
    ? named(accountName)
    : { kind: 'not found', cause: `accountStatus ${status}` }
}

/** A payout at PalmPay needs no reference of the enquiry. */
function named(accountName: string): NameEnquiry {
  return { kind: 'found', accountName, enquiryReference: '' }
}

function unavailable(response: PalmPayResponse): NameEnquiry {
  const { kind, cause } = response
  if (kind === 'responded' && response.code === NOT_FOUND) return { kind: 'not found', cause }
  return failure('unavailable', response)
}

function transferFields(order: TransferOrder, settings: PalmPayTransferSettings): BankFields {
  const { reference, beneficiary } = order
  return {
    orderId: reference,
    payeeName: beneficiary.accountName,
    payeeBankCode: beneficiary.bankCode,
    payeeBankAccNo: beneficiary.accountNumber,
    currency: 'NGN',
    amount: Number(order.amountMinor),
    notifyUrl: settings.transferNotifyUrl,
    remark: order.narration || reference,
  }
}

function toSent(order: TransferOrder, response: PalmPayResponse): SendResult {
  const { cause } = response
  if (response.kind === 'responded') {
    return response.code === SUCCESS
      ? stateOf(order, response.fields)
      : toRefusal(order, response.code, cause)
  }
  if (response.kind === 'refused' && !response.sent) return { kind: 'not sent', cause }
  return failure('unknown', response)
}

/** Texts for a reference that PalmPay has seen before. An earlier attempt may have been executed. */
const USED_TEXT = /duplicat|already|exists/i

/**
 * Only two kinds of refusal are final: the gateway rejects the request, or the text is about the float or the payee. PalmPay
 * publishes no list of the other codes.
 */
function toRefusal(order: TransferOrder, code: string, cause: string): TransferState {
  const reason = reasonOfText(cause, order)
  if (code === INVALID_PARAMETER && !USED_TEXT.test(cause)) return { kind: 'failed', cause, reason }
  return reason === 'bank_rejected' || leavesOpen(cause)
    ? { kind: 'unknown', cause }
    : { kind: 'failed', cause, reason }
}

const STATUSES = { unpaid: '0', paying: '1', paid: '2', failed: '3', closed: '4' } as const

/** Reads a payout. The amount is in kobo; PalmPay may omit it until the payout is paid. */
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
      return statesItself(message, order, (text) => /revers|return|refund/i.test(text))
        ? { kind: 'returned', cause }
        : { kind: 'failed', cause, reason: reasonOfText(message, order) }
    default:
      return { kind: 'unknown', cause }
  }
}

/** For an unknown order, PalmPay returns a success without data, as public integrations show. */
function toFound(order: TransferOrder, response: PalmPayResponse): FoundTransfer {
  if (response.kind !== 'responded') return failure('unknown', response)
  const { cause } = response
  if (response.code === NOT_FOUND) return { kind: 'not found', cause }
  if (response.code !== SUCCESS) return { kind: 'unknown', cause }
  return response.data === null || response.data === undefined
    ? { kind: 'not found', cause: 'PalmPay returned no payout' }
    : stateOf(order, response.fields)
}

function toFloat(response: PalmPayResponse): FloatReading {
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
