import type { Command } from 'commander'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../gen/inflow/overview/v1/search_pb.ts'
import type { ExpectedStep, Step, Timeline } from '../../gen/inflow/overview/v1/timeline_pb.ts'
import {
  SandboxService,
  type SimulateTransferResponse,
} from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  HoldStateSchema,
  RecorderKindSchema,
  type Transaction,
  TransactionSchema,
  TransactionStatusSchema,
  VarianceSchema,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcomeSchema,
  type SummarizeTransactionsResponse,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { formatAmount } from '../core/money.ts'
import { columnsOf, nestedColumns } from './columns.ts'
import { YES } from './confirm.ts'
import { enumName, localTime } from './options.ts'
import { type Column, EXIT, Failure, fields, table } from './output.ts'
import { BUSINESS, MODE, PAGE, rpc } from './rpc-verb.ts'
import type { Service } from './service-action.ts'
import { addVerbs } from './verb.ts'

const ROW = `paidAt, sessionId, amountMinor, status, settled, live, bank, accountNumber,
  accountReference=Reference, customerName=Customer, payer.name=Payer`

const IMPORTED = 'imported?'

/** The columns of a payment into a one-time account. */
const VARIANCE = 'expectedAmountMinor?=Expected, variance, holdState=Hold'

/** All columns of a single transaction. */
export const TRANSACTION = columnsOf(
  TransactionSchema,
  `${ROW}, ${IMPORTED}, currency, merchantReference, accountName, customerEmail=E-mail,
  payer.accountNumber=Payer account, Payer bank, narration, recordedAt, settlesAt,
  reversal.reversedAt, reversal.reason=Reversal reason, ${VARIANCE}, returnReason, metadata,
  Recorded by, businessId, id`,
  {
    'Payer bank': ({ payer }) => payer?.bankName || payer?.bankCode || '',
    'Recorded by': recorderText,
  },
)

/** "token tok_…"; "notification"; empty in responses that do not show it. */
function recorderText({ recorder }: Transaction): string {
  if (recorder === undefined) return ''
  return `${enumName(RecorderKindSchema, recorder.kind).toLowerCase()} ${recorder.id}`.trimEnd()
}

const HELD = `id, paidAt, amountMinor, ${VARIANCE}, live, accountNumber, merchantReference=Own reference,
  payer.name=Payer, returnReason, businessId`

const TRANSACTION_ID = '<transaction-id>  the transaction id, txn_…'
const HELD_ID = '<held-payment-id>  the transaction id, txn_…'

const FILTERS = `--reference <reference>  only into this account: its reference or the business's own
  --email <address>  only into accounts of the customer with this e-mail address
  --session <id>  only with this session id, at every bank
  --all  of all businesses: in live mode, unless --test is given
  --status <status...>  only with these statuses
  --bank <code>  only at this bank
  --min-amount <naira>  only of this amount or more
  --max-amount <naira>  only of this amount or less
  --variance <kind...>  only payments that differ from the terms of their account in this way
  --hold <state...>  only held payments in these states
  --from <time>  paid at or after this time
  --to <time>  paid before this time`

const TRANSACTION_HELP = `
  get: show one transaction
  ${BUSINESS}
  <session-id>  the interbank session id
  Example: transaction get 120001261120100000123456789012

  list: list transactions, the latest payment first; of all businesses, the latest recorded first
  ${BUSINESS}
  ${MODE}
  ${FILTERS}
  --recorded-from <time>  in the order of recording, from this time on; with --all, reported since
  --recorded-to <time>  in the order of recording, before this time; with --all, reported before
  ${PAGE}
  Example: transaction list --status SUCCESS --from "2026-11-01 00:00:00" --limit 20

  summary: count the transactions that a list with the same filters has, and add up their amounts
  ${BUSINESS}
  ${MODE}
  ${FILTERS}
  --recorded-from <time>  recorded at or after this time; with --all, reported since
  --recorded-to <time>  recorded before this time; with --all, reported before
  Example: transaction summary --from "2026-11-01 00:00:00" --bank 9PSB

  reverse: reverse a payment: undo its postings and notify the business
  ${TRANSACTION_ID}
  --reason <text>!  why it is reversed
  ${YES}
  Example: transaction reverse txn_… --reason "recalled by the bank"

  timeline: show everything that happened to a payment, and what is still to happen
  <transaction>  the transaction id, txn_…, or the session id
  Example: transaction timeline txn_…

  held: list payments that wait for a decision, or for the completion of their return
  --business <id>  of this business only (default: all businesses)
  --returns  only those whose return is requested
  ${MODE}
  ${PAGE}
  Example: transaction held --returns

  accept: accept a held payment for its business: it is settled with the next payments
  ${HELD_ID}
  ${YES}
  Example: transaction accept txn_…

  return: request the return of a held payment for its business
  ${HELD_ID}
  ${YES}
  --reason <text>  why it is returned
  Example: transaction return txn_… --reason "the order was cancelled"

  complete-return: record that the bank has returned a payment: it is reversed
  ${HELD_ID}
  ${YES}
  --note <text>!  how the money was returned
  Example: transaction complete-return txn_… --note "NIP 000013…"`

/** The rules that turn the flags of a list into fields, for one business and for all. */
const FILTERED = {
  flags: {
    status: 'statuses',
    email: 'customerEmail',
    minAmount: 'amountFromMinor',
    maxAmount: 'amountToMinor',
  },
  request: ({ all, test }: { all?: boolean; test?: boolean }) =>
    all ? { live: test !== true } : {},
}

export function transaction(noun: Command): void {
  addVerbs(noun, TRANSACTION_HELP, {
    get: rpc(TransactionService.method.getTransaction, { shows: TRANSACTION }),
    list: rpc(TransactionService.method.listTransactions, {
      ...FILTERED,
      // The list by time of recording is endless unless `recordedTo` ends it.
      isEndless: ({ businessId, recordedFrom, recordedTo }) =>
        businessId !== '' && (recordedFrom ?? recordedTo) !== undefined,
      shows: ({ transactions }, { all }) => transactionTable(transactions, all === true),
    }),
    summary: rpc(TransactionService.method.summarizeTransactions, {
      ...FILTERED,
      shows: totalsTable,
      notes: ({ truncated }) =>
        truncated ? 'There may be more: 10,000 transactions were read. Limit the time.' : undefined,
    }),
    reverse: rpc(TransactionService.method.reverseTransaction, {
      confirms: 'Its amount is taken from the balance of its business, which is notified.',
      shows: TRANSACTION,
    }),
    timeline: rpc(OverviewService.method.getTimeline, {
      request: async (_options, service, text) =>
        text.startsWith('txn_') ? {} : { transactionId: await findTransaction(service, text) },
      shows: ({ timeline }) => (timeline ? table(linesOf(timeline), TIMELINE_COLUMNS) : ''),
      notes: ({ timeline }) =>
        timeline?.truncated ? 'There are more entries than are shown.' : undefined,
    }),
    held: rpc(HeldPaymentService.method.listHeldPayments, {
      request: ({ returns }: { returns?: boolean }) =>
        returns ? { holdState: HoldState.RETURN_REQUESTED } : {},
      shows: HELD,
    }),
    accept: rpc(HeldPaymentService.method.acceptPayment, {
      confirms: 'Its amount is credited to its business. It cannot be held again.',
      shows: HELD,
    }),
    return: rpc(HeldPaymentService.method.returnPayment, {
      confirms: 'Its amount goes back to the payer. It can no longer be accepted.',
      shows: HELD,
    }),
    'complete-return': rpc(HeldPaymentService.method.completeReturn, {
      confirms: 'It is reversed, and its business is notified: the bank has returned the money.',
      shows: HELD,
    }),
  })
}

/** The columns depend on whether some transactions were imported, and whether several businesses are listed. */
function transactionTable(transactions: readonly Transaction[], isOfAll: boolean): string {
  const isImported = transactions.some(({ imported }) => imported)
  const columns = [ROW, ...(isImported ? [IMPORTED] : []), ...(isOfAll ? ['businessId'] : [])]
  return table(transactions, columnsOf(TransactionSchema, columns.join()).list)
}

/** A row for each status, and a row for all. */
function totalsTable({ statuses, count, amountMinor }: SummarizeTransactionsResponse): string {
  const rows = statuses.map((each) => ({
    ...each,
    title: enumName(TransactionStatusSchema, each.status),
  }))
  return table<{ title: string; count: number; amountMinor: bigint }>(
    [...rows, { title: 'total', count, amountMinor }],
    [
      { title: 'Status', of: ({ title }) => title },
      { title: 'Count', right: true, of: (row) => String(row.count) },
      { title: 'Amount', right: true, of: (row) => formatAmount(row.amountMinor) },
    ],
  )
}

/** Explanations of the outcomes other than RECORDED. */
const MEANINGS: Readonly<Record<string, string>> = {
  DUPLICATE: 'The session is already recorded; nothing changed.',
  UNMATCHED: 'No open account has this number; the payment is queued for manual review.',
  CONFLICT: 'The session is recorded with another amount or account; nothing changed.',
}

const TRANSFER_HELP = `
  simulate: simulate a payment into a test account, or a live account at a sandbox bank
  --account <account-number>!  account number of the virtual account, ten digits
  --amount <naira>!  amount in naira, with at most two decimals
  --session <text>  the interbank session id (default: a new one)
  --payer <name>  name of the payer (default: a made-up one)
  Example: transfer simulate --account 1234567890 --amount 1500.50 --payer "Chidi Okafor"`

export function transfer(noun: Command): void {
  addVerbs(noun, TRANSFER_HELP, {
    simulate: rpc(SandboxService.method.simulateTransfer, {
      shows: (response) =>
        fields(response, [
          { title: 'Outcome', of: outcomeOf },
          // The columns of the transaction include the session.
          {
            title: 'Session',
            of: ({ transaction, sessionId }) => (transaction ? '' : sessionId),
          },
          ...nestedColumns(TRANSACTION, (parent: SimulateTransferResponse) => parent.transaction),
        ]),
      notes: (response) => MEANINGS[outcomeOf(response)],
    }),
  })
}

function outcomeOf({ outcome }: SimulateTransferResponse): string {
  return enumName(RecordOutcomeSchema, outcome)
}

/** A line of the table: a step that happened, or an expected step. */
interface Line {
  readonly at: string
  readonly what: string
  readonly detail: string
}

const TIMELINE_COLUMNS: readonly Column<Line>[] = [
  { title: 'At', of: ({ at }) => at },
  { title: 'What', of: ({ what }) => what },
  { title: 'Detail', of: ({ detail }) => detail },
]

/** @throws Failure if no payment or several payments have the session id */
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
