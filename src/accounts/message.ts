import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type Account as AccountMessage,
  AccountSchema,
  AccountStatus as AccountStatusMessage,
  IdType,
  OpeningState as OpeningStateMessage,
} from '../../gen/inflow/account/v1/account_pb.ts'
import type {
  CreateAccountRequest,
  ImportedAccount as ImportedMessage,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import {
  ApprovedRecipientSchema,
  FeeBearer as FeeBearerMessage,
  type Split as SplitMessage,
  SplitSchema,
} from '../../gen/inflow/account/v1/split_pb.ts'
import {
  type AllowedPayerSchema,
  AmountRule as AmountRuleMessage,
  type PaymentTerms as PaymentTermsMessage,
  PaymentTermsSchema,
} from '../../gen/inflow/account/v1/terms_pb.ts'
import { ImportOutcome, type ImportResult } from '../../gen/inflow/type/v1/import_pb.ts'
import { BANK_FACTS, type IdKind } from '../banks/bank.ts'
import { fromBankCode, toBankCode } from '../banks/message.ts'
import { encodeEvent } from '../events/message.ts'
import { fromTimestamp, toOptionalTimestamp } from '../protobuf/values.ts'
import type { OpenAccount, StoredAccount } from './account.ts'
import type { ImportedAccount, RowResult } from './import-accounts.ts'
import type { RequestedSplit } from './splits/approvals.ts'
import type { Approval } from './splits/split.entity.ts'
import { FEE_BEARERS, type ShareNames, type Split } from './splits/split.ts'
import {
  type AccountTerms,
  type AllowedPayer,
  AMOUNT_RULES,
  type RequestedTerms,
  toRequestedTerms,
} from './terms.ts'

/** @param split the current split; undefined: the owner keeps everything, or the split is not shown */
export function toAccountMessage(
  account: OpenAccount | StoredAccount,
  split?: Split,
): AccountMessage {
  return create(AccountSchema, {
    id: account.id,
    businessId: account.businessId,
    reference: account.reference,
    merchantReference: account.merchantReference,
    bank: fromBankCode(account.bank),
    bankName: BANK_FACTS[account.bank].name,
    accountNumber: account.accountNumber ?? '',
    accountName: account.accountName ?? '',
    status: AccountStatusMessage[account.status],
    customer: {
      firstName: account.firstName,
      lastName: account.lastName,
      email: account.email,
      phone: account.phone,
    },
    createdAt: timestampFromMs(account.createdAtMs),
    live: account.live,
    simulated: account.connector === 'sandbox',
    metadata: { ...account.metadata },
    ...(account.terms && { terms: toTermsMessage(account.terms) }),
    ...(split && { split: toSplitMessage(split) }),
    ...('openingState' in account && account.status === 'PENDING' && { opening: opening(account) }),
  })
}

function opening({ openingState, lastCause, attempts, nextTryAtMs }: StoredAccount) {
  return {
    state: OpeningStateMessage[openingState],
    cause: lastCause,
    attempts,
    nextTryAt: toOptionalTimestamp(nextTryAtMs),
  }
}

/** Encodes an account's event, without its position in the log. */
export function encodeAccountEvent(
  kind: 'ACCOUNT_CREATED' | 'ACCOUNT_CLOSED' | 'ACCOUNT_EXPIRED',
  account: OpenAccount,
  eventId: string,
  occurredAtMs: number,
): Uint8Array {
  return encodeEvent({
    id: eventId,
    businessId: account.businessId,
    kind,
    occurredAt: timestampFromMs(occurredAtMs),
    live: account.live,
    payload: { case: 'account', value: toAccountMessage(account) },
  })
}

export function toIdKind(idType: IdType): IdKind | undefined {
  if (idType === IdType.NIN) return 'nin'
  return idType === IdType.BVN ? 'bvn' : undefined
}

/** @param row valid by the rules of its schema */
export function toImportedAccount(row: ImportedMessage): ImportedAccount {
  return {
    reference: row.reference,
    providerReference: row.providerReference,
    bank: toBankCode(row.bank),
    accountNumber: row.accountNumber,
    accountName: row.accountName,
    openedAtMs: row.openedAt && fromTimestamp(row.openedAt),
    firstName: row.firstName,
    lastName: row.lastName,
    email: row.email,
    phone: row.phone,
    idType: toIdKind(row.idType),
    idNumber: row.idNumber || undefined,
    bankAccountId: row.bankAccountId,
  }
}

/** Encodes the results of an import, of accounts or of payments. */
export function toImportResults(results: readonly RowResult[]): ImportResult[] {
  return results.map(({ outcome, faults }) => ({
    $typeName: 'inflow.type.v1.ImportResult',
    outcome: ImportOutcome[outcome],
    violations: faults.map((fault) => ({ $typeName: 'inflow.type.v1.ImportViolation', ...fault })),
  }))
}

function toTermsMessage(terms: AccountTerms): PaymentTermsMessage {
  const { expiresAtMs, usedAtMs, endedAtMs } = terms
  return create(PaymentTermsSchema, {
    amountMinor: terms.expectedAmountMinor ?? 0n,
    amountRule: AmountRuleMessage[terms.amountRule],
    singleUse: terms.singleUse,
    allowedPayers: terms.allowedPayers.map(toPayerMessage),
    expiresAt: toOptionalTimestamp(expiresAtMs),
    usedAt: toOptionalTimestamp(usedAtMs),
    endedAt: toOptionalTimestamp(endedAtMs),
  })
}

export function toPayerMessage(payer: AllowedPayer): MessageInitShape<typeof AllowedPayerSchema> {
  return 'name' in payer
    ? { name: payer.name }
    : { accountNumber: payer.accountNumber, bankCode: payer.bankCode }
}

/**
 * @param request a validated request
 * @throws Fault validation_failed
 */
export function readTerms(request: CreateAccountRequest): RequestedTerms | undefined {
  const { amountMinor, expiresAt, expiresInSeconds, singleUse, allowedPayers } = request
  return toRequestedTerms({
    expectedAmountMinor: amountMinor === 0n ? undefined : amountMinor,
    amountRule: AMOUNT_RULES.find((rule) => AmountRuleMessage[rule] === request.amountRule),
    expiresAtMs: expiresAt && fromTimestamp(expiresAt),
    expiresInSeconds,
    singleUse,
    allowedPayers,
  })
}

const NAMES: ShareNames = { points: 'basisPoints', amount: 'amountMinor' }

function toSplitMessage({ recipients, feeBearer }: Split): SplitMessage {
  return create(SplitSchema, {
    recipients: recipients.map(({ businessId, basisPoints = 0, fixedMinor = 0n }) => {
      return { businessId, basisPoints, amountMinor: fixedMinor }
    }),
    feeBearer: FeeBearerMessage[feeBearer],
  })
}

export function toRecipientMessage({ business, recipient, approvedAt }: Approval) {
  return create(ApprovedRecipientSchema, {
    businessId: business.id,
    recipientId: recipient.id,
    approvedAt: timestampFromDate(approvedAt),
  })
}

/** @param message of a validated request */
export function readSplit(
  message: SplitMessage | undefined,
  allowed: ReadonlySet<string> | undefined,
): RequestedSplit | undefined {
  if (message === undefined) return undefined
  const recipients = message.recipients.map(({ businessId, basisPoints, amountMinor }) => ({
    businessId,
    basisPoints: basisPoints === 0 ? undefined : basisPoints,
    fixedMinor: amountMinor === 0n ? undefined : amountMinor,
  }))
  const feeBearer =
    FEE_BEARERS.find((each) => FeeBearerMessage[each] === message.feeBearer) ?? 'OWNER'
  return { split: { recipients, feeBearer }, names: NAMES, allowed }
}
