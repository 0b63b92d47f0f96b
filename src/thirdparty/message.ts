import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { GenerateVirtualAccountRequest } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import {
  type Balance as BalanceMessage,
  BalanceSchema,
  type BankAccount,
  type CustomerAccount,
  CustomerAccountSchema,
  MetaSchema,
  PayerAccountSchema,
  type Split as SplitMessage,
  type SplitSchema,
  type TermsSchema,
  type Transaction as TransactionMessage,
  type VirtualAccount,
  VirtualAccountSchema,
} from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import type {
  AccountDetails,
  AccountStatus,
  OpenAccount,
  StoredAccount,
} from '../accounts/account.ts'
import { toPayerMessage } from '../accounts/message.ts'
import { NEEDS_APPROVAL, type RequestedSplit } from '../accounts/splits/approvals.ts'
import type { FeeBearer, ShareNames, Split } from '../accounts/splits/split.ts'
import {
  type AccountTerms,
  type AmountRule,
  metadataOf,
  type RequestedTerms,
  toRequestedTerms,
} from '../accounts/terms.ts'
import type { BankCode, BankNames, IdKind } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { assert, type FieldFault, invalidFields } from '../core/errors.ts'
import { CURRENCY, formatAmount, parseAmount, toMajorNumber } from '../core/money.ts'
import type { Balance } from '../settlement/settlement.ts'
import type { Settled } from '../transactions/read-history.ts'
import {
  PAYMENT_METHOD,
  type ShownTransaction,
  type StoredTransaction,
} from '../transactions/transaction.ts'

type Account = OpenAccount | StoredAccount

/**
 * @param request a validated request
 * @throws Fault validation_failed (an expiry or a payer's name)
 */
export function toAccountDetails(
  request: GenerateVirtualAccountRequest,
  timeText: TimeText,
): AccountDetails {
  return {
    bank: request.bank as BankCode,
    firstName: request.firstName,
    lastName: request.lastName,
    email: request.email,
    phone: request.phone,
    idType: (request.idType || undefined) as IdKind | undefined,
    idNumber: request.idNumber || undefined,
    terms: readTerms(request, timeText),
    metadata: metadataOf(request.metadata),
  }
}

/** @param split the current split; undefined: the owner keeps everything */
export function toVirtualAccount(
  account: Account,
  split: Split | undefined,
  timeText: TimeText,
  bankNames: BankNames,
): VirtualAccount {
  const bankAccount: Omit<BankAccount, '$typeName'> = {
    accountNumber: account.accountNumber ?? '',
    accountName: account.accountName ?? '',
    bankName: bankNames[account.bank],
    bankId: account.bank,
    createdAt: timeText.format(account.createdAtMs),
  }
  return create(VirtualAccountSchema, {
    reference: account.reference,
    // A PENDING account has no number yet, so a customer cannot pay into it.
    account: account.accountNumber === undefined ? [] : [bankAccount],
    meta: { firstName: account.firstName, lastName: account.lastName, email: account.email },
    ...(account.terms && { terms: toTerms(account.terms, account.status, timeText) }),
    ...(account.metadata && { metadata: account.metadata }),
    ...(split && { split: toSplit(split) }),
  })
}

/** As `toVirtualAccount`, with the additional fields of look-ups. */
export function toFoundAccount(
  account: Account,
  split: Split | undefined,
  timeText: TimeText,
  bankNames: BankNames,
): VirtualAccount {
  const { merchantReference, status, firstName, lastName } = account
  const shown = toVirtualAccount(account, split, timeText, bankNames)
  return Object.assign(shown, { merchantReference, status, customer: `${firstName} ${lastName}` })
}

/** Converts a found account to an account of a customer's list. */
export function toCustomerAccount({ $typeName: _, ...found }: VirtualAccount): CustomerAccount {
  const { merchantReference = '', status = '', customer = '' } = found
  return create(CustomerAccountSchema, { ...found, merchantReference, status, customer })
}

/** As `toVirtualAccount`, with the fields that only lists and responses to changes have. */
export function toFullAccount(
  account: Account,
  split: Split | undefined,
  timeText: TimeText,
  bankNames: BankNames,
): VirtualAccount {
  const { merchantReference, status, firstName, lastName, email, phone } = account
  const shown = toVirtualAccount(account, split, timeText, bankNames)
  const meta = create(MetaSchema, { firstName, lastName, email, phone })
  return Object.assign(shown, { merchantReference, status, meta })
}

/** Returns a literal with `$typeName`, because `create()` uses reflection, which was the most expensive part of a look-up. */
export function toTransaction(
  transaction: ShownTransaction,
  timeText: TimeText,
): TransactionMessage {
  const { account, variance } = transaction
  return {
    $typeName: 'inflow.thirdparty.v2.Transaction',
    reference: account.reference,
    sessionId: transaction.sessionId,
    transactionRef: transaction.sessionId,
    amount: toMajorNumber(transaction.amountMinor),
    status: transaction.status,
    isSettled: transaction.settled,
    method: PAYMENT_METHOD,
    bank: transaction.bank,
    nuban: account.accountNumber,
    accountName: account.accountName,
    customer: `${account.firstName} ${account.lastName}`,
    email: account.email,
    createdAt: timeText.format(transaction.paidAtMs),
    ...(transaction.recordedAtMs !== undefined && {
      recordedAt: timeText.format(transaction.recordedAtMs),
    }),
    ...(transaction.alsoAtBank !== undefined && { alsoAtBank: transaction.alsoAtBank }),
    ...(account.terms?.expectedAmountMinor !== undefined && {
      expectedAmount: toMajorNumber(account.terms.expectedAmountMinor),
    }),
    ...(variance && { variance: variance.variance }),
    ...(variance?.hold && { holdState: variance.hold }),
    ...(account.metadata && { metadata: account.metadata }),
  }
}

/** @param settled undefined before settlement */
export function toListedTransaction(
  transaction: StoredTransaction,
  settled: Settled | undefined,
  timeText: TimeText,
): TransactionMessage {
  const { payer, amountMinor, status } = transaction
  return {
    ...toTransaction(transaction, timeText),
    payer: create(PayerAccountSchema, {
      accountNumber: payer.accountNumber,
      accountName: payer.name,
      bankCode: payer.bankCode,
      bankName: payer.bankName,
    }),
    currency: CURRENCY,
    narration: transaction.narration,
    ...(settled && toSettled(status === 'REVERSED' ? 0n : amountMinor, settled, timeText)),
  }
}

/** @param keptMinor the amount; 0 for a reversed payment, whose fee and splits are 0 too */
function toSettled(keptMinor: bigint, settled: Settled, timeText: TimeText) {
  const { feeMinor, splitsMinor, settledAtMs } = settled
  return {
    fee: toMajorNumber(feeMinor),
    splits: toMajorNumber(splitsMinor),
    net: toMajorNumber(keptMinor - feeMinor - splitsMinor),
    settledAt: timeText.format(settledAtMs),
  }
}

/** A successful response. */
export const succeed = <Data>(message: string, data: Data) => ({ status: true, message, data })

/** The token of the next page; absent on the last page. */
export function toPageToken(nextPageToken: string): { readonly nextPageToken?: string } {
  return nextPageToken === '' ? {} : { nextPageToken }
}

/** @param reservedMinor the amount reserved for payouts; undefined in a statement, which does not show it */
export function toBalance(balance: Balance, reservedMinor?: bigint): BalanceMessage {
  return create(BalanceSchema, {
    pending: toMajorNumber(balance.pendingMinor),
    available: toMajorNumber(balance.availableMinor),
    fees: toMajorNumber(balance.feesMinor),
    currency: CURRENCY,
    ...(reservedMinor !== undefined && { reserved: toMajorNumber(reservedMinor) }),
  })
}

/**
 * @param request a validated request
 * @returns undefined for a permanent account
 * @throws Fault validation_failed (an invalid expiry, or a payer's name)
 */
function readTerms(
  request: GenerateVirtualAccountRequest,
  timeText: TimeText,
): RequestedTerms | undefined {
  const { amount, amountRule, expiresAt, expiresIn, singleUse, allowedPayers } = request
  return toRequestedTerms({
    expectedAmountMinor: amount === '' ? undefined : parseAmount(amount),
    amountRule: (amountRule || undefined) as AmountRule | undefined,
    expiresAtMs: expiresAt === '' ? undefined : readExpiry(expiresAt, timeText),
    expiresInSeconds: expiresIn,
    singleUse,
    allowedPayers,
  })
}

/** @throws Fault validation_failed (the text is not a time) */
export function readExpiry(text: string, timeText: TimeText): number {
  const atMs = timeText.parse(text)
  if (atMs !== undefined) return atMs
  const message = 'must be RFC 3339 or YYYY-MM-DD HH:MM:SS'
  throw invalidFields([{ field: 'expiresAt', message }])
}

function toTerms(
  terms: AccountTerms,
  status: AccountStatus,
  timeText: TimeText,
): MessageInitShape<typeof TermsSchema> {
  const { expectedAmountMinor, expiresAtMs, amountRule, singleUse } = terms
  return {
    amountRule,
    singleUse,
    status,
    allowedPayers: terms.allowedPayers.map(toPayerMessage),
    ...(expectedAmountMinor !== undefined && { amount: toMajorNumber(expectedAmountMinor) }),
    ...(expiresAtMs !== undefined && { expiresAt: timeText.format(expiresAtMs) }),
  }
}

const NAMES: ShareNames = { points: 'percentage', amount: 'amount' }

/** @param message of a validated request */
export function readSplit(message: SplitMessage | undefined): RequestedSplit | undefined {
  if (message === undefined) return undefined
  const recipients = message.recipients.map(({ businessId, percentage, amount }) => ({
    businessId,
    // A percentage with two decimals parses to basis points, as an amount in naira parses to kobo.
    basisPoints: percentage === '' ? undefined : Number(parseAmount(percentage)),
    fixedMinor: amount === '' ? undefined : parseAmount(amount),
  }))
  const feeBearer = (message.feeBearer || 'OWNER') as FeeBearer
  return { split: { recipients, feeBearer }, names: NAMES, allowed: NEEDS_APPROVAL }
}

function toSplit({ recipients, feeBearer }: Split): MessageInitShape<typeof SplitSchema> {
  return {
    recipients: recipients.map(({ businessId, basisPoints, fixedMinor }) => ({
      businessId,
      percentage: basisPoints === undefined ? '' : formatAmount(BigInt(basisPoints)),
      amount: fixedMinor === undefined ? '' : formatAmount(fixedMinor),
    })),
    feeBearer,
  }
}

/**
 * Reads the times of a request, by the names of their fields.
 *
 * @returns epoch milliseconds; undefined for an empty text
 * @throws Fault validation_failed that names each field at fault
 */
export function readTimes<Field extends string>(
  timeText: TimeText,
  texts: Readonly<Record<Field, string>>,
): Readonly<Record<Field, number | undefined>> {
  const faults: FieldFault[] = []
  const times = Object.entries<string>(texts).map(([field, text]) => {
    const time = text === '' ? undefined : timeText.parse(text)
    if (time === undefined && text !== '') {
      faults.push({ field, message: 'must be YYYY-MM-DD HH:MM:SS or RFC 3339' })
    }
    return [field, time]
  })
  if (faults.length > 0) throw invalidFields(faults)
  return Object.fromEntries(times)
}

/** @param amount a validated amount */
export function toAmountMinor(amount: string): bigint {
  const amountMinor = parseAmount(amount)
  assert(amountMinor, 'validation requires an amount greater than 0')
  return amountMinor
}
