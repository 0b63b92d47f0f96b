import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  HoldState,
  RecorderKind,
  type Transaction,
  TransactionStatus,
  Variance,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  GetTransactionResponseSchema,
  ListTransactionsResponseSchema,
  ReverseTransactionResponseSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  addBusinessOption,
  addModeOptions,
  addPageOptions,
  amount,
  enumName,
  enumOption,
  enumsOption,
  type ModeOptions,
  modeName,
  modeOf,
  nextPage,
  notePage,
  type PageOptions,
  time,
} from '../options.ts'
import { type Column, fields, pairsText, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { addHeldVerbs, VARIANCE_COLUMNS } from './held.ts'
import { addTimelineVerb } from './timeline.ts'

const ROW: readonly Column<Transaction>[] = [
  { title: 'Paid at', of: ({ paidAt }) => localTime.format(paidAt) },
  { title: 'Session', of: ({ sessionId }) => sessionId },
  { title: 'Amount', right: true, of: ({ amountMinor }) => formatAmount(amountMinor) },
  { title: 'Status', of: ({ status }) => enumName(status, TransactionStatus) },
  { title: 'Settled', of: ({ settled }) => (settled ? 'yes' : 'no') },
  { title: 'Mode', of: modeName },
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Reference', of: ({ accountReference }) => accountReference },
  { title: 'Customer', of: ({ customerName }) => customerName },
  { title: 'Payer', of: ({ payer }) => payer?.name ?? '' },
]

const IMPORTED: Column<Transaction> = {
  title: 'Imported',
  of: ({ imported }) => (imported ? 'yes' : ''),
}

const BUSINESS: Column<Transaction> = { title: 'Business', of: ({ businessId }) => businessId }

/** All columns of a single transaction. */
export const TRANSACTION_COLUMNS: readonly Column<Transaction>[] = [
  ...ROW,
  IMPORTED,
  { title: 'Currency', of: ({ currency }) => currency },
  { title: 'Merchant reference', of: ({ merchantReference }) => merchantReference },
  { title: 'Account name', of: ({ accountName }) => accountName },
  { title: 'E-mail', of: ({ customerEmail }) => customerEmail },
  { title: 'Payer account', of: ({ payer }) => payer?.accountNumber ?? '' },
  { title: 'Payer bank', of: ({ payer }) => payer?.bankName || payer?.bankCode || '' },
  { title: 'Narration', of: ({ narration }) => narration },
  { title: 'Recorded at', of: ({ recordedAt }) => localTime.format(recordedAt) },
  { title: 'Settles at', of: ({ settlesAt }) => localTime.format(settlesAt) },
  { title: 'Reversed at', of: ({ reversal }) => localTime.format(reversal?.reversedAt) },
  { title: 'Reversal reason', of: ({ reversal }) => reversal?.reason ?? '' },
  ...VARIANCE_COLUMNS,
  { title: 'Return reason', of: ({ returnReason }) => returnReason },
  { title: 'Metadata', of: ({ metadata }) => pairsText(metadata) },
  { title: 'Recorded by', of: recorderText },
  BUSINESS,
  { title: 'Id', of: ({ id }) => id },
]

/** "token tok_…"; "notification"; empty in responses that do not show it. */
function recorderText({ recorder }: Transaction): string {
  if (recorder === undefined) return ''
  return `${enumName(recorder.kind, RecorderKind).toLowerCase()} ${recorder.id}`.trimEnd()
}

/** `inflow transaction` */
export function transaction(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'get', {
      summary: 'show one transaction',
      example: 'transaction get 120001261120100000123456789012',
    }),
  )
    .argument('<session-id>', 'the interbank session id')
    .action(getTransaction)
  addPageOptions(
    addModeOptions(
      addBusinessOption(
        addVerb(noun, 'list', {
          summary:
            'list transactions, the latest payment first; of all businesses, the latest recorded first',
          example: 'transaction list --status SUCCESS --from "2026-11-01 00:00:00" --limit 20',
        }),
      ),
    )
      .option('--reference <text>', "only into this account: its reference or the business's own")
      .option('--session <id>', 'only with this session id, at every bank')
      .option('--all', 'of all businesses: in live mode, unless --test is given')
      .addOption(enumsOption('--status <status...>', 'only with these statuses', TransactionStatus))
      .addOption(enumOption('--bank <code>', 'only at this bank', Bank, 'BANK_'))
      .option('--min-amount <naira>', 'only of this amount or more', amount)
      .option('--max-amount <naira>', 'only of this amount or less', amount)
      .addOption(enumsOption('--variance <kind...>', 'only that differ from the terms', Variance))
      .addOption(
        enumsOption('--hold <state...>', 'only held payments of which this became', HoldState),
      )
      .option('--from <time>', 'paid at or after this time', time)
      .option('--to <time>', 'paid before this time', time)
      .option(
        '--recorded-from <time>',
        'in the order of recording, from this time on; with --all, reported since',
        time,
      )
      .option(
        '--recorded-to <time>',
        'in the order of recording, before this time; with --all, reported before',
        time,
      ),
  ).action(listTransactions)
  addVerb(noun, 'reverse', {
    summary: 'reverse a payment: undo its postings and notify the business',
    example: 'transaction reverse txn_… --reason "recalled by the bank"',
  })
    .argument('<transaction-id>', 'the transaction id, txn_…')
    .requiredOption('--reason <text>', 'why it is reversed')
    .option(...YES)
    .action(reverseTransaction)
  addTimelineVerb(noun)
  addHeldVerbs(noun)
  addServiceOptions(noun)
}

const reverseTransaction = serviceAction<YesOption & { reason: string }>(
  async (service, options, transactionId) => {
    const { reason } = options
    await confirmAction(service, options, {
      word: 'reverse',
      target: transactionId,
      effect: 'Its amount is taken from the balance of its business, which is notified.',
    })
    const response = await service
      .client(TransactionService)
      .reverseTransaction({ transactionId, reason })
    printResponse(options, ReverseTransactionResponseSchema, response, () =>
      response.transaction ? fields(response.transaction, TRANSACTION_COLUMNS) : '',
    )
  },
)

const getTransaction = serviceAction<{ business?: string }>(async (service, options, sessionId) => {
  const businessId = service.business(options.business)
  const response = await service
    .client(TransactionService)
    .getTransaction({ businessId, sessionId })
  printResponse(options, GetTransactionResponseSchema, response, () =>
    response.transaction ? fields(response.transaction, TRANSACTION_COLUMNS) : '',
  )
})

interface ListOptions extends PageOptions, ModeOptions {
  readonly business?: string
  readonly reference?: string
  readonly session?: string
  readonly all?: boolean
  readonly status?: readonly TransactionStatus[]
  readonly bank?: Bank
  readonly minAmount?: bigint
  readonly maxAmount?: bigint
  readonly variance?: readonly Variance[]
  readonly hold?: readonly HoldState[]
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly recordedFrom?: Timestamp
  readonly recordedTo?: Timestamp
}

const listTransactions = serviceAction<ListOptions>(async (service, options) => {
  const client = service.client(TransactionService)
  const request = {
    ...(options.all
      ? { live: options.test !== true }
      : { businessId: service.business(options.business), ...modeOf(options) }),
    reference: options.reference ?? '',
    sessionId: options.session ?? '',
    statuses: [...(options.status ?? [])],
    bank: options.bank ?? Bank.BANK_UNSPECIFIED,
    amountFromMinor: options.minAmount ?? 0n,
    amountToMinor: options.maxAmount ?? 0n,
    variances: [...(options.variance ?? [])],
    holdStates: [...(options.hold ?? [])],
    ...(options.from && { from: options.from }),
    ...(options.to && { to: options.to }),
    ...(options.recordedFrom && { recordedFrom: options.recordedFrom }),
    ...(options.recordedTo && { recordedTo: options.recordedTo }),
    pageSize: options.limit ?? 0,
  }
  const isByTime = !options.all && (options.recordedFrom || options.recordedTo)
  const response = await nextPage(
    options,
    (pageToken) => client.listTransactions({ ...request, pageToken }),
    // The list by recorded time may have no end.
    ({ transactions }) => !isByTime && transactions.length === 0,
  )
  const columns = [
    ...ROW,
    ...(response.transactions.some(({ imported }) => imported) ? [IMPORTED] : []),
    ...(options.all ? [BUSINESS] : []),
  ]
  printResponse(options, ListTransactionsResponseSchema, response, () =>
    table(response.transactions, columns),
  )
  notePage(response)
})
