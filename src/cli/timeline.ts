import type { Command } from 'commander'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../gen/inflow/overview/v1/search_pb.ts'
import type { ExpectedStep, Step, Timeline } from '../../gen/inflow/overview/v1/timeline_pb.ts'
import {
  HoldStateSchema,
  RecorderKindSchema,
  TransactionStatusSchema,
  VarianceSchema,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { formatAmount } from '../core/money.ts'
import { EXIT, Failure } from './failure.ts'
import { enumName, localTime } from './options.ts'
import { type Column, table } from './output.ts'
import { rpc } from './rpc-verb.ts'
import type { Service } from './service-action.ts'
import { addVerbs } from './verb.ts'

/** A line of the table: a step that happened, or one that is expected. */
interface Line {
  readonly at: string
  readonly what: string
  readonly detail: string
}

const COLUMNS: readonly Column<Line>[] = [
  { title: 'At', of: ({ at }) => at },
  { title: 'What', of: ({ what }) => what },
  { title: 'Detail', of: ({ detail }) => detail },
]

const TIMELINE_HELP = `
  timeline: show everything that happened to a payment, and what is still to happen
  <transaction>  the transaction id, txn_…, or the session id
  Example: transaction timeline txn_…`

export function addTimelineVerb(noun: Command): void {
  addVerbs(noun, TIMELINE_HELP, {
    timeline: rpc(OverviewService.method.getTimeline, {
      request: async (_options, service, text) =>
        text.startsWith('txn_') ? {} : { transactionId: await findTransaction(service, text) },
      shows: ({ timeline }) => (timeline ? table(linesOf(timeline), COLUMNS) : ''),
      notes: ({ timeline }) => (timeline?.truncated ? 'There is more than this shows.' : undefined),
    }),
  })
}

/** @throws Failure if no payment, or several, have the session id */
async function findTransaction(service: Service, query: string): Promise<string> {
  const { results } = await service.client(OverviewService).search({ query })
  const [first, ...others] = results.filter(({ kind }) => kind === ResultKind.TRANSACTION)
  if (first === undefined)
    throw new Failure(EXIT.refused, 'There is no such transaction (not_found)')
  if (others.length === 0) return first.id
  const ids = [first, ...others].map(({ id }) => id).join(', ')
  throw new Failure(EXIT.usage, `several payments have the session id: ${ids}`)
}

function linesOf({ transaction, steps, expectedSteps }: Timeline): readonly Line[] {
  const status = enumName(TransactionStatusSchema, transaction?.status)
  return [
    ...steps.map((step) => ({ at: localTime.format(step.at), ...happened(step) })),
    ...expectedSteps.map(({ dueAt, step }) => ({ at: localTime.format(dueAt), ...expected(step) })),
    { at: '', what: 'now', detail: status },
  ]
}

function happened({ step }: Step): Omit<Line, 'at'> {
  switch (step.case) {
    case 'bankNotified': {
      const { result, cause, notificationId } = step.value
      return { what: 'the bank notified', detail: words(result, cause, notificationId) }
    }
    case 'paymentRecorded': {
      const { recorder, connector, variance, held } = step.value
      const by = `by ${enumName(RecorderKindSchema, recorder?.kind).toLowerCase()} ${recorder?.id ?? ''}`
      const hold = held && `held: ${enumName(VarianceSchema, variance)}`
      return { what: 'recorded', detail: words(by, connector, hold) }
    }
    case 'eventNumbered': {
      const { businessSequence, kind, eventId } = step.value
      return { what: `event #${businessSequence}`, detail: words(kind, eventId) }
    }
    case 'deliveryAttempted': {
      const { attempt, endpointId } = step.value
      const { number = 0, statusCode = 0, latencyMs = 0, error = '' } = attempt ?? {}
      const outcome = `${statusCode || 'no response'}, ${latencyMs} ms`
      return { what: `attempt ${number}`, detail: words(outcome, error, endpointId) }
    }
    case 'conflictReported':
    case 'conflictResolved': {
      const { id, amountMinor, accountNumber, note: text } = step.value
      const what = step.case === 'conflictReported' ? 'contradicted' : 'conflict resolved'
      return { what, detail: words(formatAmount(amountMinor), accountNumber, text, id) }
    }
    case 'holdDecided': {
      const { holdState, reason } = step.value
      return { what: enumName(HoldStateSchema, holdState).toLowerCase(), detail: reason }
    }
    case 'paymentSettled': {
      const { settlementId, feeMinor } = step.value
      return { what: 'settled', detail: words(`fee ${formatAmount(feeMinor)}`, settlementId) }
    }
    case 'paymentReversed': {
      const { reason, actorKind, actorName, auditNumber } = step.value
      const by =
        auditNumber === 0n ? '' : `by ${actorName || actorKind}, audit entry ${auditNumber}`
      return { what: 'reversed', detail: words(reason, by) }
    }
    default:
      return { what: 'something of a newer version', detail: '' }
  }
}

function expected(step: ExpectedStep['step']): Omit<Line, 'at'> {
  if (step.case === 'nextAttemptDeliveryId') {
    return { what: 'next attempt', detail: step.value }
  }
  return { what: 'settles', detail: '' }
}

/** The texts that are not empty. */
const words = (...texts: readonly (string | false)[]) => texts.filter((text) => !!text).join(', ')
