import type { Command } from 'commander'
import type { PaymentConflict } from '../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import {
  ListPaymentConflictsResponseSchema,
  ReconciliationService,
  ResolvePaymentConflictResponseSchema,
} from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, enumName, nextPage, notePage, type PageOptions } from '../options.ts'
import { type Column, fields, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<PaymentConflict>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Reported at', of: ({ createdAt }) => localTime.format(createdAt) },
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Session', of: ({ sessionId }) => sessionId },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Amount', right: true, of: ({ amountMinor }) => formatAmount(amountMinor) },
  { title: 'Status', of: ({ status }) => enumName(status, TransactionStatus) },
  { title: 'Recorded account', of: ({ recordedAccountNumber }) => recordedAccountNumber },
  {
    title: 'Recorded amount',
    right: true,
    of: ({ recordedAmountMinor }) => formatAmount(recordedAmountMinor),
  },
]

const DETAILS: readonly Column<PaymentConflict>[] = [
  ...COLUMNS,
  { title: 'Transaction', of: ({ transactionId }) => transactionId },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Resolved at', of: ({ resolvedAt }) => localTime.format(resolvedAt) },
  { title: 'Note', of: ({ note }) => note },
]

/** `inflow conflict` */
export function conflict(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list unresolved reports that contradict recorded payments, newest first',
      example: 'conflict list --limit 20',
    }),
  ).action(listConflicts)
  addVerb(noun, 'resolve', {
    summary: 'end the manual review of a report; the recorded payment does not change',
    example: 'conflict resolve cfl_01… --note "the bank corrected its report"',
  })
    .argument('<id>', 'the report, cfl_…')
    .requiredOption('--note <text>', 'how and why it was resolved')
    .option(...YES)
    .action(resolveConflict)
  addServiceOptions(noun)
}

const listConflicts = serviceAction<PageOptions>(async (service, options) => {
  const client = service.client(ReconciliationService)
  const response = await nextPage(
    options,
    (pageToken) => client.listPaymentConflicts({ pageSize: options.limit ?? 0, pageToken }),
    ({ conflicts }) => conflicts.length === 0,
  )
  printResponse(options, ListPaymentConflictsResponseSchema, response, () =>
    table(response.conflicts, COLUMNS),
  )
  notePage(response)
})

const resolveConflict = serviceAction<YesOption & { note: string }>(
  async (service, options, conflictId) => {
    const { note } = options
    await confirmAction(service, options, {
      word: 'resolve',
      target: conflictId,
      effect: 'Its manual review ends, and the recorded payment stays as it is.',
    })
    const response = await service
      .client(ReconciliationService)
      .resolvePaymentConflict({ conflictId, note })
    printResponse(options, ResolvePaymentConflictResponseSchema, response, () =>
      response.conflict ? fields(response.conflict, DETAILS) : '',
    )
  },
)
