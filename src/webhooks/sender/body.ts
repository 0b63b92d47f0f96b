import {
  create,
  type DescEnum,
  fromBinary,
  type JsonObject,
  type MessageInitShape,
  toJson,
} from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Account, AccountStatusSchema } from '../../../gen/inflow/account/v1/account_pb.ts'
import { type Event, EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import { type Payout, PayoutStatusSchema } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  type Settlement,
  SettlementStatusSchema,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import type { Share } from '../../../gen/inflow/settlement/v1/share_pb.ts'
import { EventBodySchema } from '../../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import {
  HoldState,
  HoldStateSchema,
  type Transaction,
  TransactionStatusSchema,
  Variance,
  VarianceSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  DisabledReasonSchema,
  type Endpoint,
  EndpointStatusSchema,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type { BankNames } from '../../banks/bank.ts'
import { toBankCode } from '../../banks/message.ts'
import type { TimeText } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import { formatAmount } from '../../core/money.ts'
import { typeOfKind } from '../../events/message.ts'
import type { LogEntry } from '../../events/read-log.ts'
import { fromTimestamp } from '../../protobuf/values.ts'
import type { RequestFormat } from '../endpoints/endpoint.ts'

/** An event as businesses see it, in webhooks and in listEvents. */
type EventBodyFields = MessageInitShape<typeof EventBodySchema>

/** Creates a function that converts stored events to bodies; `listEvents` has no previous sequence. */
export function createToEventBody(
  timeText: TimeText,
  bankNames: BankNames,
): (entry: LogEntry, previousSequence?: number) => EventBodyFields {
  return (entry, previousSequence) => {
    const { payload, traceparent } = fromBinary(EventSchema, entry.payload)
    assert(payload.case, `event ${entry.eventId} has a payload`)
    const fields = fieldsOf(payload, entry, timeText)
    return {
      event: entry.kind,
      data: {
        ...fields,
        ...('account' in fields && {
          account: { ...fields.account, bankName: bankNames[fields.account.bankId] },
        }),
        eventId: entry.eventId,
        sequence: Number(entry.businessSequence),
        live: entry.live,
        epoch: entry.epoch,
        ...(previousSequence !== undefined && { previousSequence }),
        ...(traceparent !== '' && { traceparent }),
      },
    }
  }
}

/**
 * Encodes a body as it is sent and signed. Keys are in the order of the field numbers, which is the
 * documented order; fields that the kind lacks are left out, and empty strings are not.
 */
export function encodeEventBody(body: EventBodyFields): string {
  return JSON.stringify(toEventJson(body))
}

function toEventJson(body: EventBodyFields): JsonObject {
  const message = create(EventBodySchema, body)
  return toJson(EventBodySchema, message, { alwaysEmitImplicit: true }) as JsonObject
}

/** Creates a function that encodes the body of a webhook in the format of its endpoint. */
export function createToWebhookBody(
  timeText: TimeText,
  bankNames: BankNames,
): (entry: LogEntry, previousSequence: number, format: RequestFormat) => string {
  const toEventBody = createToEventBody(timeText, bankNames)
  return (entry, previousSequence, format) => {
    const body = toEventJson(toEventBody(entry, previousSequence))
    return JSON.stringify(format.profile === 'WIAXY' ? toWiaxyBody(body, entry, format) : body)
  }
}

type Payload = NonNullable<Exclude<Event['payload'], { case: undefined }>>

function fieldsOf(payload: Payload, entry: LogEntry, timeText: TimeText) {
  switch (payload.case) {
    case 'transaction':
      return transactionFields(payload.value, entry, timeText)
    case 'account':
      return accountFields(payload.value, entry, timeText)
    case 'settlement':
      return settlementFields(payload.value, timeText)
    case 'share':
      return shareFields(payload.value, entry, timeText)
    case 'payout':
      return payoutFields(payload.value, entry, timeText)
    case 'endpoint':
      return endpointFields(payload.value, entry, timeText)
    case 'unmatchedPayment':
    case 'heldNotification':
    case 'paymentConflict':
      throw new Error(`event ${entry.eventId} belongs to no business`)
  }
}

/**
 * Receivers that look only at the type must credit only credited payments. Earlier versions announced held payments as
 * PAYMENT_NOTIFICATION, too.
 */
function transactionType(kind: string, { holdState }: Transaction): string {
  return typeOfKind(holdState === HoldState.HELD ? 'PAYMENT_ON_HOLD' : kind)
}

function transactionFields(transaction: Transaction, { kind }: LogEntry, timeText: TimeText) {
  const { payer } = transaction
  return {
    type: transactionType(kind, transaction),
    reference: transaction.accountReference,
    merchantReference: transaction.merchantReference,
    transactionRef: transaction.sessionId,
    wiaxyRef: transaction.sessionId,
    amount: formatAmount(transaction.amountMinor),
    status: enumText(TransactionStatusSchema, transaction.status),
    method: 'bank_transfer',
    createdAt: timeOf(transaction.paidAt, timeText),
    account: bankAccount(transaction, transaction.accountCreatedAt, timeText),
    payer: {
      accountNumber: payer?.accountNumber ?? '',
      accountName: payer?.name ?? '',
      bankCode: payer?.bankCode ?? '',
      bankName: payer?.bankName ?? '',
    },
    ...varianceFields(transaction),
    ...metadataField(transaction),
  }
}

/** Only for payments into one-time accounts. */
function varianceFields({ expectedAmountMinor, variance, holdState }: Transaction) {
  return {
    ...(expectedAmountMinor > 0n && { expectedAmount: formatAmount(expectedAmountMinor) }),
    ...(variance !== Variance.UNSPECIFIED && { variance: enumText(VarianceSchema, variance) }),
    ...(holdState !== HoldState.UNSPECIFIED && { holdState: enumText(HoldStateSchema, holdState) }),
  }
}

function metadataField({ metadata }: Pick<Account, 'metadata'>) {
  return Object.keys(metadata).length > 0 && { metadata }
}

function accountFields(account: Account, entry: LogEntry, timeText: TimeText) {
  return {
    type: 'RESERVED_ACCOUNT',
    reference: account.reference,
    merchantReference: account.merchantReference,
    status: enumText(AccountStatusSchema, account.status),
    createdAt: timeText.format(entry.occurredAtMs),
    account: bankAccount(account, account.createdAt, timeText),
    ...(account.terms &&
      account.terms.amountMinor > 0n && {
        expectedAmount: formatAmount(account.terms.amountMinor),
      }),
    ...metadataField(account),
  }
}

function settlementFields(settlement: Settlement, timeText: TimeText) {
  const net = formatAmount(settlement.netMinor)
  return {
    type: 'SETTLEMENT',
    amount: net,
    status: enumText(SettlementStatusSchema, settlement.status),
    createdAt: timeOf(settlement.completedAt, timeText),
    settlement: {
      settlementId: settlement.id,
      transactionCount: Number(settlement.transactionCount),
      grossAmount: formatAmount(settlement.grossMinor),
      fees: formatAmount(settlement.feesMinor),
      netAmount: net,
      cutOffAt: timeOf(settlement.cutOffAt, timeText),
      currency: settlement.currency,
      ...(settlement.splitsMinor > 0n && { splits: formatAmount(settlement.splitsMinor) }),
    },
  }
}

function shareFields(share: Share, entry: LogEntry, timeText: TimeText) {
  const { settlementId, transactionId } = share
  return {
    type: 'SHARE',
    amount: formatAmount(share.amountMinor),
    status: settlementId === '' ? 'REVERSED' : 'SETTLED',
    createdAt: timeText.format(entry.occurredAtMs),
    share: {
      businessId: share.ownerBusinessId,
      businessName: share.ownerName,
      ...(settlementId !== '' && { settlementId }),
      ...(transactionId !== '' && { transactionId }),
      transactionCount: Number(share.transactionCount),
      currency: share.currency,
    },
  }
}

function payoutFields(payout: Payout, entry: LogEntry, timeText: TimeText) {
  const { beneficiary, sessionId, failureReason, settlementId, refundedSessionId } = payout
  return {
    type: typeOfKind(entry.kind),
    amount: formatAmount(payout.amountMinor),
    status: enumText(PayoutStatusSchema, payout.status),
    createdAt: timeText.format(entry.occurredAtMs),
    payout: {
      payoutId: payout.id,
      reference: payout.reference,
      fee: formatAmount(payout.feeMinor),
      duty: formatAmount(payout.dutyMinor),
      bankCode: beneficiary?.bankCode ?? '',
      bankName: beneficiary?.bankName ?? '',
      accountNumber: beneficiary?.accountNumber ?? '',
      accountName: beneficiary?.accountName ?? '',
      narration: payout.narration,
      ...(sessionId !== '' && { sessionId }),
      ...(failureReason !== '' && { failureReason }),
      ...(refundedSessionId !== '' && { refundedTransaction: refundedSessionId }),
      ...(settlementId !== '' && { settlementId }),
    },
  }
}

function endpointFields(endpoint: Endpoint, entry: LogEntry, timeText: TimeText) {
  const { failingSince, disabledAt, disabledReason } = endpoint
  return {
    type: 'WEBHOOK_ENDPOINT',
    status: enumText(EndpointStatusSchema, endpoint.status),
    createdAt: timeText.format(entry.occurredAtMs),
    endpoint: {
      endpointId: endpoint.id,
      url: endpoint.url,
      description: endpoint.description,
      ...(failingSince && { failingSince: timeOf(failingSince, timeText) }),
      ...(disabledAt && {
        disabledAt: timeOf(disabledAt, timeText),
        disabledReason: enumText(DisabledReasonSchema, disabledReason),
      }),
    },
  }
}

function bankAccount(
  of: Pick<Account, 'bank' | 'accountNumber' | 'accountName'>,
  createdAt: Timestamp | undefined,
  timeText: TimeText,
) {
  const bankId = toBankCode(of.bank)
  return {
    accountNumber: of.accountNumber,
    accountName: of.accountName,
    bankId,
    createdAt: timeOf(createdAt, timeText),
  }
}

function timeOf(timestamp: Timestamp | undefined, timeText: TimeText): string {
  return timestamp ? timeText.format(fromTimestamp(timestamp)) : ''
}

/** The name of an enum value without the enum's prefix: SUCCESS. */
function enumText(schema: DescEnum, value: number): string {
  return schema.value[value]?.localName ?? 'UNKNOWN'
}

/**
 * The body of the WIAXY profile: the standard body with the additional fields that existing receivers read. Payments have
 * the customer, the payer's first and last name, and `aspfiy_ref`; results of payouts have another name and separate
 * references.
 *
 * @param body the standard body, as JSON
 */
function toWiaxyBody(
  body: JsonObject,
  entry: LogEntry,
  { eventName, payerAsArray }: Pick<RequestFormat, 'eventName' | 'payerAsArray'>,
): JsonObject {
  const { payload } = fromBinary(EventSchema, entry.payload)
  const data = body['data'] as JsonObject
  if (payload.case === 'payout') return toDisbursement(body, data, entry.kind, payload.value)
  if (payload.case !== 'transaction') return body
  const payer = wiaxyPayer(data)
  return {
    event: entry.kind === 'PAYMENT_NOTIFICATION' && eventName ? eventName : entry.kind,
    data: {
      ...data,
      payer: payerAsArray ? [payer] : payer,
      aspfiy_ref: data['wiaxy_ref'] ?? '',
      customer: customerOf(payload.value),
    },
  }
}

/** The `status` of disbursements by the kind of the event. Receivers treat any other word as a failure. */
const DISBURSEMENT_STATUS: Readonly<Record<string, string>> = {
  PAYOUT_PAID: 'successful',
  PAYOUT_FAILED: 'failed',
  PAYOUT_RETURNED: 'failed',
}

/** The result of a payout; other events of payouts, and refunds, keep the standard body. */
function toDisbursement(
  body: JsonObject,
  data: JsonObject,
  kind: string,
  { id, reference, sessionId }: Payout,
): JsonObject {
  const status = DISBURSEMENT_STATUS[kind]
  if (status === undefined) return body
  // Receivers refuse a body that lacks one of the three references; a failed payout has no session id.
  const sent = sessionId || id
  return {
    event: 'DISBURSEMENT_NOTIFICATION',
    data: {
      ...data,
      event_kind: kind,
      status,
      reference: id,
      merchant_reference: reference,
      transaction_ref: sent,
      wiaxy_ref: sent,
    },
  }
}

function wiaxyPayer({ payer, created_at: paidAt }: JsonObject): JsonObject {
  const known = payer as JsonObject
  const [firstName, lastName] = splitName(`${known['account_name']}`)
  return {
    ...known,
    first_name: firstName,
    last_name: lastName,
    bank_id: known['bank_code'] ?? '',
    createdAt: paidAt ?? '',
    created_at: paidAt ?? '',
  }
}

function customerOf({ customerName, customerLastName, customerEmail }: Transaction): JsonObject {
  const [firstName, lastName] =
    customerLastName === ''
      ? splitName(customerName)
      : [customerName.slice(0, -customerLastName.length - 1), customerLastName]
  return { email: customerEmail, firstName, lastName }
}

/** @returns the text before the first space, and the text after it */
function splitName(name: string): readonly [string, string] {
  const space = name.indexOf(' ')
  return space < 0 ? [name, ''] : [name.slice(0, space), name.slice(space + 1)]
}
