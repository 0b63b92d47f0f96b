import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import {
  type RehearsalCandidate,
  RehearsalVerdict,
} from '../../gen/inflow/webhook/v1/rehearsal_pb.ts'
import type { RehearseResponseSchema } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { HOUR_MS } from '../core/durations.ts'
import type { LogEntry } from '../events/read-log.ts'
import type { RequestFormat } from './endpoints/endpoint.ts'
import { toRequestFormat } from './message.ts'
import {
  type MadeUpEvent,
  MERCHANT_REFERENCE,
  type Progress,
  REFERENCE,
} from './rehearsal-steps.ts'

const ACCOUNT_AGE_MS = HOUR_MS

/** The event as an entry of the log, so that its body is encoded like that of a real event. */
export function toLogEntry(event: MadeUpEvent): LogEntry {
  const { kind, businessId, occurredAtMs, transactionId: id, sessionId, amountMinor } = event
  const message = create(EventSchema, {
    id: event.eventId,
    businessId,
    kind,
    occurredAt: timestampFromMs(occurredAtMs),
    live: event.live,
    payload: {
      case: 'transaction',
      value: {
        id,
        businessId,
        sessionId,
        amountMinor,
        currency: 'NGN',
        status:
          kind === 'PAYMENT_REVERSED' ? TransactionStatus.REVERSED : TransactionStatus.SUCCESS,
        accountReference: REFERENCE,
        merchantReference: MERCHANT_REFERENCE,
        bank: Bank.BANK_9PSB,
        accountNumber: '0000000000',
        accountName: 'Rehearsal/Ada Obi',
        customerName: 'Ada Obi',
        customerLastName: 'Obi',
        customerEmail: 'ada@example.com',
        paidAt: timestampFromMs(occurredAtMs),
        accountCreatedAt: timestampFromMs(occurredAtMs - ACCOUNT_AGE_MS),
        payer: {
          name: 'REHEARSAL PAYER',
          accountNumber: '0123456789',
          bankCode: '000013',
          bankName: 'GTBank',
        },
      },
    },
  })
  return { ...event, position: 0n, payload: toBinary(EventSchema, message) }
}

/** A receiver that has no endpoint yet. */
export interface Candidate {
  readonly businessId: string
  readonly url: string
  readonly format: RequestFormat
  readonly secret: string
  /** The event kinds that its endpoint will receive; empty: the default. */
  readonly kinds: readonly string[]
}

export function toCandidate(businessId: string, message: RehearsalCandidate): Candidate {
  const { url, secret, kinds } = message
  return { businessId, url, secret, kinds, format: toRequestFormat(message) }
}

export function toProgressMessage(
  progress: Progress,
): MessageInitShape<typeof RehearseResponseSchema> {
  if ('summary' in progress) {
    const { verdict, ...rest } = progress.summary
    const value = { ...rest, verdict: RehearsalVerdict[verdict], reference: REFERENCE }
    return { progress: { case: 'summary', value } }
  }
  const { verdict, status: statusCode = 0, responseBody = '', note = '', ...step } = progress.step
  const value = { ...step, note, statusCode, responseBody, verdict: RehearsalVerdict[verdict] }
  return { progress: { case: 'step', value } }
}
