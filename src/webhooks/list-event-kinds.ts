import {
  create,
  type DescField,
  type DescMessage,
  type JsonObject,
  type MessageInitShape,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence, StructSchema, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type AccountSchema, AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AmountRule } from '../../gen/inflow/account/v1/terms_pb.ts'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { type PayoutSchema, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import type { ShareSchema } from '../../gen/inflow/settlement/v1/share_pb.ts'
import { EventBodySchema, EventDataSchema } from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
  Variance,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { EventAudience } from '../../gen/inflow/type/v1/event_kind_pb.ts'
import { DisabledReason, EndpointStatus } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type EventKindDescription,
  EventKindDescriptionSchema,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { BankNames } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { HOUR_MS } from '../core/durations.ts'
import { assert } from '../core/errors.ts'
import { EVENT_KINDS, type EventKindFacts } from '../events/message.ts'
import type { LogEntry } from '../events/read-log.ts'
import { createToEventBody, encodeEventBody } from './sender/body.ts'

/** The previous sequence number of the examples, whose own is 42: the event between was of a kind that is not sent. */
const PREVIOUS = 40

/** The catalogue of events. The examples are encoded as webhooks are, so they cannot differ from them. */
export function listEventKinds(timeText: TimeText, bankNames: BankNames): EventKindDescription[] {
  const toEventBody = createToEventBody(timeText, bankNames)
  const exampleOf = (kind: EventKindFacts): JsonObject => {
    const entry = exampleEntry(kind.name)
    assert(entry, `the catalogue has an example of ${kind.name}`)
    return JSON.parse(encodeEventBody(toEventBody(entry, PREVIOUS))) as JsonObject
  }
  return EVENT_KINDS.map((kind) => {
    const { name, description, audience } = kind
    const described = { kind: name, description, audience }
    if (audience === EventAudience.SUBSCRIBERS) return create(EventKindDescriptionSchema, described)
    return create(EventKindDescriptionSchema, {
      ...described,
      schema: bodySchemaOf(kind),
      example: exampleOf(kind),
    })
  })
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

const SCALARS: Readonly<Partial<Record<ScalarType, string>>> = {
  [ScalarType.STRING]: 'string',
  [ScalarType.BOOL]: 'boolean',
  [ScalarType.INT32]: 'integer',
  [ScalarType.DOUBLE]: 'number',
}

/**
 * The JSON schema of the webhooks of a kind. Receivers must accept unknown fields, because a later release may add some.
 */
function bodySchemaOf({ name, description, type, data, optionalData }: EventKindFacts) {
  const fieldOf = (fieldName: string): DescField => {
    const field = EventDataSchema.fields.find((each) => each.name === fieldName)
    assert(field, `EventData has the field ${fieldName} of ${name}`)
    return field
  }
  const common = EventDataSchema.fields.filter(isAlwaysThere)
  const required = [...common, ...data.map(fieldOf)]
  const dataSchema = objectOf([...required, ...optionalData.map(fieldOf)], required)
  return {
    $schema: DIALECT,
    title: name,
    description,
    ...objectOf(EventBodySchema.fields, EventBodySchema.fields, {
      event: { const: name },
      data: { ...dataSchema, properties: { ...dataSchema.properties, type: { const: type } } },
    }),
  } satisfies JsonObject
}

type ObjectSchema = {
  readonly type: 'object'
  readonly properties: JsonObject
  readonly required: string[]
}

/** @param known the schemas of fields that are narrower than their types */
function objectOf(
  fields: readonly DescField[],
  required: readonly DescField[],
  known: JsonObject = {},
): ObjectSchema {
  const inOrder = [...fields].sort((one, other) => one.number - other.number)
  return {
    type: 'object',
    properties: Object.fromEntries(
      inOrder.map((field) => [field.jsonName, known[field.jsonName] ?? schemaOf(field)]),
    ),
    required: inOrder.filter((field) => required.includes(field)).map((field) => field.jsonName),
  }
}

function schemaOf(field: DescField): JsonObject {
  if (field.fieldKind === 'message') return messageOf(field.message)
  const type = field.fieldKind === 'scalar' ? SCALARS[field.scalar] : undefined
  assert(type, `webhooks have a JSON type for ${field.name}`)
  return { type }
}

function messageOf({ fields, typeName }: DescMessage): JsonObject {
  // The metadata of a business: texts by keys that the business chose.
  if (typeName === StructSchema.typeName) {
    return { type: 'object', additionalProperties: { type: 'string' } }
  }
  return objectOf(fields, fields.filter(isAlwaysThere))
}

/**
 * Whether a field of EventData is in every webhook, or a field of a message in every message. Fields with presence appear
 * only if they apply; `previous_sequence` applies to every webhook.
 */
export function isAlwaysThere({ name, presence }: DescField): boolean {
  return presence === FeatureSet_FieldPresence.IMPLICIT || name === 'previous_sequence'
}

type Payload = MessageInitShape<typeof EventSchema>['payload']

/** 20 November 2026, 09:00 UTC. */
const AT_MS = Date.UTC(2026, 10, 20, 9)
const at = (hours: number) => timestampFromMs(AT_MS + hours * HOUR_MS)

const ACCOUNT = {
  bank: Bank.BANK_9PSB,
  accountNumber: '5012345678',
  accountName: 'Oja/Ada Obi',
  merchantReference: 'order-1',
}

const METADATA = { order: '1042' }

/** A payment into a one-time account that expects a larger amount. */
const held = (holdState: HoldState): Payload =>
  payment(TransactionStatus.SUCCESS, {
    expectedAmountMinor: 200_000n,
    variance: Variance.UNDERPAID,
    holdState,
    metadata: METADATA,
  })

const payment = (
  status: TransactionStatus,
  more: Partial<
    Pick<Transaction, 'expectedAmountMinor' | 'variance' | 'holdState' | 'metadata'>
  > = {},
): Payload => ({
  case: 'transaction',
  value: {
    ...ACCOUNT,
    ...more,
    status,
    accountReference: 'R-ACDEFGHJKMNPQRTWXY34',
    sessionId: '090286261120100000123456789012',
    amountMinor: 150_050n,
    paidAt: at(0),
    accountCreatedAt: at(-1),
    payer: {
      name: 'Ngozi Eze',
      accountNumber: '0123456789',
      bankCode: '000013',
      bankName: 'GTBank',
    },
  },
})

const account = (
  status: AccountStatus,
  more: Pick<MessageInitShape<typeof AccountSchema>, 'terms' | 'metadata'> = {},
): Payload => ({
  case: 'account',
  value: { ...ACCOUNT, ...more, status, reference: 'R-ACDEFGHJKMNPQRTWXY34', createdAt: at(-1) },
})

const share = (of: MessageInitShape<typeof ShareSchema>): Payload => ({
  case: 'share',
  value: {
    ...of,
    ownerBusinessId: 'biz_01kah6j1yhsf9h1t2b3c4d5e70',
    ownerName: 'Oja',
    amountMinor: 30_010n,
    currency: 'NGN',
  },
})

const payout = (
  status: PayoutStatus,
  more: Pick<
    MessageInitShape<typeof PayoutSchema>,
    'sessionId' | 'failureReason' | 'refundedSessionId'
  > = {},
): Payload => ({
  case: 'payout',
  value: {
    ...more,
    id: 'pay_01kah6j1yhsf9h1t2b3c4d5e6f',
    reference: 'salary-7',
    status,
    amountMinor: 1_500_000n,
    feeMinor: 2_500n,
    beneficiary: {
      bankCode: '000013',
      bankName: 'GTBank',
      accountNumber: '0123456789',
      accountName: 'Ngozi Eze',
    },
    narration: 'Oja',
  },
})

const PAID = { sessionId: '090286261120100000123456789012' }
const FAILED = { failureReason: 'beneficiary_rejected' }
const REFUNDED = { refundedSessionId: '000013261120090000123456789012' }

const ENDPOINT = {
  id: 'ep_01kah6j1yhsf9h1t2b3c4d5e6f',
  url: 'https://shop.example.com',
  description: 'shop',
  status: EndpointStatus.ENABLED,
}

const PAYLOADS: Readonly<Record<string, Payload>> = {
  PAYMENT_NOTIFICATION: payment(TransactionStatus.SUCCESS),
  PAYMENT_REVERSED: payment(TransactionStatus.REVERSED),
  PAYMENT_ON_HOLD: held(HoldState.HELD),
  PAYMENT_ACCEPTED: held(HoldState.ACCEPTED),
  PAYMENT_RETURN_REQUESTED: held(HoldState.RETURN_REQUESTED),
  ACCOUNT_CREATED: account(AccountStatus.ACTIVE),
  ACCOUNT_CLOSED: account(AccountStatus.CLOSED),
  ACCOUNT_EXPIRED: account(AccountStatus.EXPIRED, {
    terms: { amountMinor: 200_000n, amountRule: AmountRule.EXACT, expiresAt: at(0) },
    metadata: METADATA,
  }),
  SETTLEMENT_COMPLETED: {
    case: 'settlement',
    value: {
      id: 'set_01kah6j1yhsf9h1t2b3c4d5e6f',
      status: SettlementStatus.COMPLETED,
      transactionCount: 3n,
      grossMinor: 450_150n,
      feesMinor: 2_250n,
      netMinor: 447_900n,
      currency: 'NGN',
      cutOffAt: at(-1),
      completedAt: at(0),
    },
  },
  SHARE_SETTLED: share({ settlementId: 'stl_01kah6j1yhsf9h1t2b3c4d5e6f', transactionCount: 3n }),
  SHARE_REVERSED: share({ transactionId: 'txn_01kah6j1yhsf9h1t2b3c4d5e6f', transactionCount: 1n }),
  PAYOUT_REQUESTED: payout(PayoutStatus.APPROVED),
  PAYOUT_PAID: payout(PayoutStatus.PAID, PAID),
  PAYOUT_FAILED: payout(PayoutStatus.FAILED, FAILED),
  PAYOUT_CANCELLED: payout(PayoutStatus.REJECTED),
  PAYOUT_RETURNED: payout(PayoutStatus.RETURNED, PAID),
  REFUND_REQUESTED: payout(PayoutStatus.APPROVED, REFUNDED),
  REFUND_PAID: payout(PayoutStatus.PAID, { ...REFUNDED, ...PAID }),
  REFUND_FAILED: payout(PayoutStatus.FAILED, { ...REFUNDED, ...FAILED }),
  REFUND_CANCELLED: payout(PayoutStatus.CANCELLED, REFUNDED),
  REFUND_RETURNED: payout(PayoutStatus.RETURNED, { ...REFUNDED, ...PAID }),
  ENDPOINT_FAILING: { case: 'endpoint', value: { ...ENDPOINT, failingSince: at(-24) } },
  ENDPOINT_DISABLED: {
    case: 'endpoint',
    value: {
      ...ENDPOINT,
      status: EndpointStatus.DISABLED,
      failingSince: at(-120),
      disabledAt: at(0),
      disabledReason: DisabledReason.FAILING,
    },
  },
  ENDPOINT_TEST: { case: 'endpoint', value: ENDPOINT },
}

/** An event of a kind, as the log stores it; undefined if the catalogue has no example of it. */
function exampleEntry(kind: string): LogEntry | undefined {
  const payload = PAYLOADS[kind]
  return (
    payload && {
      position: 1_024n,
      eventId: 'evt_01kah6j1yhsf9h1t2b3c4d5e6f',
      businessId: 'biz_01kah6j1yhsf9h1t2b3c4d5e6f',
      live: true,
      businessSequence: 42n,
      epoch: 1,
      kind,
      occurredAtMs: AT_MS,
      payload: toBinary(EventSchema, create(EventSchema, { payload })),
    }
  )
}
