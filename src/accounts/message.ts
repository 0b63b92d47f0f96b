import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type Account as AccountMessage,
  AccountSchema,
  AccountStatus as AccountStatusMessage,
  IdType,
  OpeningState as OpeningStateMessage,
} from '../../gen/inflow/account/v1/account_pb.ts'
import type { ImportedAccount as ImportedMessage } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { ImportOutcome, type ImportResult } from '../../gen/inflow/type/v1/import_pb.ts'
import { BANK_FACTS, type IdKind } from '../banks/bank.ts'
import { fromBankCode, toBankCode } from '../banks/message.ts'
import { encodeEvent } from '../events/message.ts'
import { fromTimestamp } from '../protobuf/timestamp.ts'
import {
  ACCOUNT_STATUSES,
  type AccountStatus,
  type OpenAccount,
  type StoredAccount,
} from './account.ts'
import type { ImportedAccount, RowResult } from './import-accounts.ts'
import type { OpeningState } from './openings/opening.ts'
import { toSplitMessage } from './splits/message.ts'
import type { Split } from './splits/split.ts'
import { toTermsMessage } from './terms/message.ts'

const STATUSES: Readonly<Record<AccountStatus, AccountStatusMessage>> = {
  PENDING: AccountStatusMessage.PENDING,
  ACTIVE: AccountStatusMessage.ACTIVE,
  CLOSED: AccountStatusMessage.CLOSED,
  EXPIRED: AccountStatusMessage.EXPIRED,
}

const OPENING_STATES: Readonly<Record<OpeningState, OpeningStateMessage>> = {
  CREATING: OpeningStateMessage.CREATING,
  RETRYABLE: OpeningStateMessage.RETRYABLE,
  RETRYING: OpeningStateMessage.RETRYING,
  REQUERYING: OpeningStateMessage.REQUERYING,
  MANUAL_REVIEW: OpeningStateMessage.MANUAL_REVIEW,
}

/** @param split the one that it has now; undefined: its owner keeps everything, or it is not shown */
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
    status: STATUSES[account.status],
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
    state: OPENING_STATES[openingState],
    cause: lastCause,
    attempts,
    ...(nextTryAtMs !== undefined && { nextTryAt: timestampFromMs(nextTryAtMs) }),
  }
}

/** Encodes an account's event, without its position in the log. */
export function encodeAccountEvent(
  kind: 'ACCOUNT_CREATED' | 'ACCOUNT_CLOSED' | 'ACCOUNT_EXPIRED',
  account: OpenAccount,
  eventId: string,
  occurredAtMs: number,
): Uint8Array {
  const event = create(EventSchema, {
    id: eventId,
    businessId: account.businessId,
    kind,
    occurredAt: timestampFromMs(occurredAtMs),
    live: account.live,
    payload: { case: 'account', value: toAccountMessage(account) },
  })
  return encodeEvent(event)
}

export function toIdKind(idType: IdType): IdKind | undefined {
  if (idType === IdType.NIN) return 'nin'
  return idType === IdType.BVN ? 'bvn' : undefined
}

/** @returns undefined if the status is unspecified, which means any */
/** @returns undefined if there are none: any state */
export function toOpeningStates(
  states: readonly OpeningStateMessage[],
): readonly OpeningState[] | undefined {
  if (states.length === 0) return undefined
  const names = Object.keys(OPENING_STATES) as OpeningState[]
  return names.filter((name) => states.includes(OPENING_STATES[name]))
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

export function toAccountStatus(status: AccountStatusMessage): AccountStatus | undefined {
  return ACCOUNT_STATUSES.find((name) => STATUSES[name] === status)
}
