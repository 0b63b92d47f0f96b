import { create, fromBinary, type MessageInitShape } from '@bufbuild/protobuf'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  type PaymentConflict as ConflictMessage,
  PaymentConflictSchema,
} from '../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import {
  Resolution as ResolutionMessage,
  type UnmatchedPayment as UnmatchedMessage,
  UnmatchedPaymentSchema,
} from '../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import {
  HoldState as HoldStateMessage,
  type Payer as PayerMessage,
  RecorderKind,
  type Recorder as RecorderMessage,
  TransactionStatus as StatusMessage,
  type Transaction as TransactionMessage,
  Variance as VarianceMessage,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import type {
  ImportedTransaction as ImportedMessage,
  ListTransactionsRequest,
  RecordPaymentRequest,
  SummarizeTransactionsRequest,
  SummarizeTransactionsResponseSchema,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { plainText } from '../banks/bank-fields.ts'
import { fromBankCode, toBankCode, toBankFilter } from '../banks/message.ts'
import { CURRENCY } from '../core/money.ts'
import type { PaymentTrace } from '../core/tracing.ts'
import { encodeEvent } from '../events/message.ts'
import {
  enumName,
  enumNames,
  fromTimestamp,
  toInt64,
  toOptionalTimestamp,
  toTimestamp,
} from '../protobuf/values.ts'
import type { ImportedTransaction } from './import-transactions.ts'
import type { TransactionFilter } from './list-transactions.ts'
import type {
  ListedConflict,
  Payer,
  RecordedBy,
  StoredConflict,
  StoredTransaction,
  StoredUnmatched,
  TokenPayment,
  Totals,
  UnmatchedPayment,
} from './transaction.ts'

/** The fields of a transaction that only some responses show, and no event. */
interface Shown {
  /** When the transaction is due for settlement. */
  readonly settlesAtMs?: number | undefined
  readonly recorder?: RecorderMessage
  readonly traceparent?: string | undefined
}

export function toTransactionMessage(
  transaction: StoredTransaction,
  { settlesAtMs, recorder, traceparent = '' }: Shown = {},
): TransactionMessage {
  const { account, payer, reversal, variance } = transaction
  return {
    $typeName: 'inflow.transaction.v1.Transaction',
    id: transaction.id,
    businessId: account.businessId,
    accountReference: account.reference,
    sessionId: transaction.sessionId,
    amountMinor: transaction.amountMinor,
    currency: CURRENCY,
    status: StatusMessage[transaction.status],
    settled: transaction.settled,
    imported: transaction.imported ?? false,
    bank: fromBankCode(transaction.bank),
    accountNumber: account.accountNumber,
    accountName: account.accountName,
    customerName: `${account.firstName} ${account.lastName}`,
    customerLastName: account.lastName,
    customerEmail: account.email,
    paidAt: toTimestamp(transaction.paidAtMs),
    payer: {
      $typeName: 'inflow.transaction.v1.Payer',
      name: payer.name,
      accountNumber: payer.accountNumber,
      bankCode: payer.bankCode,
      bankName: payer.bankName,
    },
    merchantReference: account.merchantReference,
    narration: transaction.narration,
    accountCreatedAt: toTimestamp(account.createdAtMs),
    live: account.live,
    settlesAt: toOptionalTimestamp(settlesAtMs),
    reversal: reversal && {
      $typeName: 'inflow.transaction.v1.Reversal',
      reason: reversal.reason,
      reversedAt: toTimestamp(reversal.reversedAtMs),
    },
    recorder,
    recordedAt: toOptionalTimestamp(transaction.recordedAtMs),
    expectedAmountMinor: account.terms?.expectedAmountMinor ?? 0n,
    variance: VarianceMessage[variance?.variance ?? 'UNSPECIFIED'],
    holdState: HoldStateMessage[variance?.hold ?? 'UNSPECIFIED'],
    returnReason: variance?.returnReason ?? '',
    metadata: account.metadata === undefined ? {} : { ...account.metadata },
    traceparent,
  }
}

/** @param withId whether the caller may see the id of the credential */
export function toRecorderMessage(recordedBy: RecordedBy, withId: boolean): RecorderMessage {
  // The id may contain colons: a client certificate has a URI as its id.
  const [, kind = '', id = ''] = /^([a-z]+):?(.*)$/.exec(recordedBy) ?? []
  return {
    $typeName: 'inflow.transaction.v1.Recorder',
    // The contract has the same names in upper case.
    kind: RecorderKind[kind.toUpperCase() as keyof typeof RecorderKind],
    id: withId ? id : '',
  }
}

type TransactionEventKind =
  | 'PAYMENT_NOTIFICATION'
  | 'PAYMENT_ON_HOLD'
  | 'PAYMENT_RETURN_REQUESTED'
  | 'PAYMENT_REVERSED'

/** Encodes the event of a payment that has arrived: it is credited, or held. */
export function encodeArrival(
  transaction: StoredTransaction,
  eventId: string,
  occurredAtMs: number,
): Uint8Array {
  const isHeld = transaction.variance?.hold === 'HELD'
  const kind = isHeld ? 'PAYMENT_ON_HOLD' : 'PAYMENT_NOTIFICATION'
  return encodeTransactionEvent(kind, transaction, eventId, occurredAtMs)
}

/** Encodes the event of a transaction, without its position in the log. */
export function encodeTransactionEvent(
  kind: TransactionEventKind,
  transaction: StoredTransaction,
  eventId: string,
  occurredAtMs: number,
): Uint8Array {
  const event: Event = {
    $typeName: 'inflow.event.v1.Event',
    id: eventId,
    cursor: '',
    position: 0n,
    businessId: transaction.account.businessId,
    businessSequence: 0n,
    epoch: 0,
    kind,
    occurredAt: toTimestamp(occurredAtMs),
    live: transaction.account.live,
    payload: { case: 'transaction', value: toTransactionMessage(transaction) },
    traceparent: transaction.traceparent ?? '',
  }
  return encodeEvent(event)
}

/** The facts of a transaction in its event; undefined if the payload belongs to another kind of event. */
export function decodeTransactionEvent(payload: Uint8Array) {
  try {
    const event = fromBinary(EventSchema, payload)
    if (event.payload.case !== 'transaction') return undefined
    const { value } = event.payload
    return {
      eventId: event.id,
      kind: event.kind,
      businessId: value.businessId,
      transactionId: value.id,
      sessionId: value.sessionId,
      amountMinor: value.amountMinor,
    }
  } catch {
    return undefined
  }
}

/** @param request a validated request */
export function toTokenPayment(
  request: RecordPaymentRequest,
  nowMs: number,
  recordedBy: RecordedBy,
  trace: PaymentTrace = {},
): TokenPayment {
  return {
    bank: toBankCode(request.bank),
    accountNumber: request.accountNumber,
    sessionId: request.sessionId,
    amountMinor: request.amountMinor,
    status: (enumName(StatusMessage, request.status) ?? 'SUCCESS') as TokenPayment['status'],
    paidAtMs: request.paidAt ? fromTimestamp(request.paidAt) : nowMs,
    payer: toPayer(request.payer),
    narration: plainText(request.narration, 500),
    live: undefined,
    recordedBy,
    bankKey: request.bankKey,
    ...trace,
  }
}

/** Decodes a payer, shortened and cleaned to texts that PostgreSQL can store. */
export function toPayer(payer: PayerMessage | undefined): Payer {
  return {
    name: plainText(payer?.name ?? '', 200),
    accountNumber: plainText(payer?.accountNumber ?? '', 40),
    bankCode: plainText(payer?.bankCode ?? '', 20),
    bankName: plainText(payer?.bankName ?? '', 200),
  }
}

/** @param row valid by the rules of its schema */
export function toImportedTransaction(row: ImportedMessage): ImportedTransaction {
  const status = (enumName(StatusMessage, row.status) ?? 'SUCCESS') as ImportedTransaction['status']
  return {
    sessionId: row.sessionId,
    bank: toBankCode(row.bank),
    accountNumber: row.accountNumber,
    amountMinor: row.amountMinor,
    status,
    settled: row.settled ?? status === 'SUCCESS',
    // The rules require it.
    paidAtMs: row.paidAt ? fromTimestamp(row.paidAt) : 0,
    payer: toPayer(row.payer),
    narration: plainText(row.narration, 500),
  }
}

export function toListFilter(
  request: ListTransactionsRequest | SummarizeTransactionsRequest,
): TransactionFilter {
  const { businessId, live, reference, sessionId, from, to, recordedFrom, recordedTo } = request
  const statuses = request.status === 0 ? request.statuses : [request.status]
  return {
    businessId,
    live,
    reference,
    sessionId,
    customerEmail: request.customerEmail || undefined,
    fromMs: from && fromTimestamp(from),
    toMs: to && fromTimestamp(to),
    recordedFromMs: recordedFrom && fromTimestamp(recordedFrom),
    recordedToMs: recordedTo && fromTimestamp(recordedTo),
    statuses: enumNames(StatusMessage, statuses),
    bank: toBankFilter(request.bank),
    amountFromMinor: request.amountFromMinor || undefined,
    amountToMinor: request.amountToMinor || undefined,
    variances: enumNames(VarianceMessage, request.variances),
    holds: enumNames(HoldStateMessage, request.holdStates),
  }
}

/** The totals of all statuses, and of each. */
export function toTotalsMessage({
  statuses,
  truncated,
}: Totals): MessageInitShape<typeof SummarizeTransactionsResponseSchema> {
  return {
    count: statuses.reduce((sum, { count }) => sum + count, 0),
    amountMinor: toInt64(statuses.reduce((sum, { amountMinor }) => sum + amountMinor, 0n)),
    statuses: statuses
      .map(({ status, count, amountMinor }) => ({
        status: StatusMessage[status],
        count,
        amountMinor: toInt64(amountMinor),
      }))
      .toSorted((a, b) => a.status - b.status),
    truncated,
  }
}

/** The hold state to list; undefined for UNSPECIFIED and for states that are not listed. */
export function toHeldState(state: HoldStateMessage): 'HELD' | 'RETURN_REQUESTED' | undefined {
  if (state === HoldStateMessage.HELD) return 'HELD'
  return state === HoldStateMessage.RETURN_REQUESTED ? 'RETURN_REQUESTED' : undefined
}

export function toConflictMessage(conflict: StoredConflict | ListedConflict): ConflictMessage {
  return create(PaymentConflictSchema, {
    ...conflict,
    bank: fromBankCode(conflict.bank),
    transactionId: conflict.transaction,
    status: StatusMessage[conflict.status],
    createdAt: toTimestamp(conflict.createdAt.getTime()),
    ...('recorded' in conflict && {
      resolvedAt: toOptionalTimestamp(conflict.resolvedAtMs),
      ...conflict.recorded,
    }),
  })
}

/** Encodes the event that a contradicting report waits for manual review. It belongs to no business. */
export function encodeConflictEvent(
  conflict: StoredConflict,
  eventId: string,
  nowMs: number,
): Uint8Array {
  return encodeEvent({
    id: eventId,
    kind: 'PAYMENT_HELD',
    occurredAt: toTimestamp(nowMs),
    payload: { case: 'paymentConflict', value: toConflictMessage(conflict) },
  })
}

export function toUnmatchedMessage(payment: UnmatchedPayment | StoredUnmatched): UnmatchedMessage {
  return create(UnmatchedPaymentSchema, {
    id: payment.id,
    bank: fromBankCode(payment.bank),
    accountNumber: payment.accountNumber,
    sessionId: payment.sessionId,
    amountMinor: payment.amountMinor,
    currency: CURRENCY,
    status: StatusMessage[payment.status],
    paidAt: toTimestamp(payment.paidAtMs),
    payer: payment.payer,
    narration: payment.narration,
    createdAt: toTimestamp(payment.createdAtMs),
    ...('note' in payment && resolutionOf(payment)),
  })
}

function resolutionOf(payment: StoredUnmatched) {
  const { resolution, resolvedAtMs, note, transactionId, payoutId } = payment
  return {
    note,
    transactionId: transactionId ?? '',
    payoutId: payoutId ?? '',
    ...(resolution && { resolution: ResolutionMessage[resolution] }),
    resolvedAt: toOptionalTimestamp(resolvedAtMs),
  }
}

/** Encodes the event of an unmatched payment, which belongs to no business. */
export function encodeUnmatchedEvent(payment: UnmatchedPayment, eventId: string): Uint8Array {
  return encodeEvent({
    id: eventId,
    kind: 'PAYMENT_UNMATCHED',
    occurredAt: toTimestamp(payment.createdAtMs),
    payload: { case: 'unmatchedPayment', value: toUnmatchedMessage(payment) },
    traceparent: payment.traceparent ?? '',
  })
}

/** The event of a recipient, encoded without its position in the log. It states nothing about payers and customers. */
export function encodeShareEvent(
  { kind, subjectId, ownerId, live, atMs }: ShareChange,
  ownerName: string,
  { businessId, count, amountMinor }: Share,
  eventId: string,
): Uint8Array {
  return encodeEvent({
    id: eventId,
    businessId,
    kind,
    occurredAt: toTimestamp(atMs),
    live,
    payload: {
      case: 'share',
      value: {
        ownerBusinessId: ownerId,
        ownerName,
        [kind === 'SHARE_SETTLED' ? 'settlementId' : 'transactionId']: subjectId,
        transactionCount: BigInt(count),
        amountMinor,
        currency: CURRENCY,
      },
    },
  })
}

/** The shares that a business receives of payments of another business, or gives back. */
export interface Share {
  readonly businessId: string
  readonly count: number
  readonly amountMinor: bigint
}

/** A change of the shares of an owner's payments. */
export interface ShareChange {
  readonly kind: 'SHARE_SETTLED' | 'SHARE_REVERSED'
  /** The settlement of the owner, or the reversed transaction. */
  readonly subjectId: string
  readonly ownerId: string
  readonly live: boolean
  readonly atMs: number
}
