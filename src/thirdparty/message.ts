import { create } from '@bufbuild/protobuf'
import type { GenerateVirtualAccountRequest } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import {
  type Balance as BalanceMessage,
  BalanceSchema,
  type BankAccount,
  type Transaction as TransactionMessage,
  type VirtualAccount,
  VirtualAccountSchema,
} from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import type { AccountDetails, StoredAccount } from '../accounts/account.ts'
import type { Split } from '../accounts/splits/split.ts'
import { metadataOf } from '../accounts/terms/read-terms.ts'
import { BANK_FACTS, type BankCode, type IdKind } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { CURRENCY, toMajorNumber } from '../core/money.ts'
import type { Balance } from '../settlement/settlement.ts'
import { PAYMENT_METHOD, type ShownTransaction } from '../transactions/transaction.ts'
import { toSplit } from './splits/message.ts'
import { readTerms, toTerms } from './terms/message.ts'

/** The account fields that external businesses see. */
type VisibleAccount = Pick<
  StoredAccount,
  'reference' | 'bank' | 'accountNumber' | 'accountName' | 'createdAtMs'
> &
  Pick<StoredAccount, 'firstName' | 'lastName' | 'email' | 'status' | 'terms' | 'metadata'>

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

/** @param split the one that it has now; undefined: its owner keeps everything */
export function toVirtualAccount(
  account: VisibleAccount,
  split: Split | undefined,
  timeText: TimeText,
): VirtualAccount {
  const bankAccount: Omit<BankAccount, '$typeName'> = {
    accountNumber: account.accountNumber ?? '',
    accountName: account.accountName ?? '',
    bankName: BANK_FACTS[account.bank].name,
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
    ...(account.terms?.expectedAmountMinor !== undefined && {
      expectedAmount: toMajorNumber(account.terms.expectedAmountMinor),
    }),
    ...(variance && { variance: variance.variance }),
    ...(variance?.hold && { holdState: variance.hold }),
    ...(account.metadata && { metadata: account.metadata }),
  }
}

export function toBalance(balance: Balance): BalanceMessage {
  return create(BalanceSchema, {
    pending: toMajorNumber(balance.pendingMinor),
    available: toMajorNumber(balance.availableMinor),
    fees: toMajorNumber(balance.feesMinor),
    currency: CURRENCY,
  })
}
