import type { Command } from 'commander'
import {
  AssignUnmatchedPaymentResponseSchema,
  ListUnmatchedPaymentsResponseSchema,
  ReconciliationService,
  ReturnUnmatchedPaymentResponseSchema,
} from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  Resolution,
  type UnmatchedPayment,
} from '../../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  addBusinessOption,
  addPageOptions,
  enumName,
  enumOption,
  nextPage,
  notePage,
  type PageOptions,
} from '../options.ts'
import { type Column, fields, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { TRANSACTION_COLUMNS } from '../transaction/transaction.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<UnmatchedPayment>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Paid at', of: ({ paidAt }) => localTime.format(paidAt) },
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Amount', right: true, of: ({ amountMinor }) => formatAmount(amountMinor) },
  { title: 'Status', of: ({ status }) => enumName(status, TransactionStatus) },
  { title: 'Session', of: ({ sessionId }) => sessionId },
  { title: 'Payer', of: ({ payer }) => payer?.name ?? '' },
]

const DETAILS: readonly Column<UnmatchedPayment>[] = [
  ...COLUMNS,
  { title: 'Narration', of: ({ narration }) => narration },
  { title: 'Resolution', of: ({ resolution }) => enumName(resolution, Resolution) },
  { title: 'Resolved at', of: ({ resolvedAt }) => localTime.format(resolvedAt) },
  { title: 'Note', of: ({ note }) => note },
]

/** `inflow unmatched` */
export function unmatched(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list unresolved unmatched payments, newest first',
      example: 'unmatched list --bank PALMPAY --limit 20',
    }).addOption(enumOption('--bank <code>', 'only this bank', Bank, 'BANK_')),
  ).action(listUnmatched)
  addBusinessOption(
    addVerb(noun, 'assign', {
      summary: 'record an unmatched payment for an account; a repeat changes nothing',
      example: 'unmatched assign unm_01… --reference order-1 --note "the payer mistyped"',
    }),
  )
    .argument('<id>', 'the payment, unm_…')
    .requiredOption('--reference <text>', "the account's reference (R-…) or the business's own")
    .option('--note <text>', 'the reason')
    .option(...YES)
    .action(assignUnmatched)
  addVerb(noun, 'return', {
    summary: 'mark a payment as returned to its payer; the bank moves the money itself',
    example: 'unmatched return unm_01… --note "sent back by the bank on 20 November"',
  })
    .argument('<id>', 'the payment, unm_…')
    .requiredOption('--note <text>', 'how and why it was returned')
    .option(...YES)
    .action(returnUnmatched)
  addServiceOptions(noun)
}

const listUnmatched = serviceAction<PageOptions & { bank?: Bank }>(async (service, options) => {
  const client = service.client(ReconciliationService)
  const request = {
    bank: options.bank ?? Bank.BANK_UNSPECIFIED,
    pageSize: options.limit ?? 0,
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listUnmatchedPayments({ ...request, pageToken }),
    ({ payments }) => payments.length === 0,
  )
  printResponse(options, ListUnmatchedPaymentsResponseSchema, response, () =>
    table(response.payments, COLUMNS),
  )
  notePage(response)
})

interface AssignOptions extends YesOption {
  readonly business?: string
  readonly reference: string
  readonly note?: string
}

const assignUnmatched = serviceAction<AssignOptions>(
  async (service, options, unmatchedPaymentId) => {
    const businessId = service.business(options.business)
    const { reference } = options
    await confirmAction(service, options, {
      word: 'assign',
      target: unmatchedPaymentId,
      effect: `It is credited to ${businessId}, account ${reference}, and the business is notified.`,
    })
    const response = await service.client(ReconciliationService).assignUnmatchedPayment({
      unmatchedPaymentId,
      businessId,
      reference,
      note: options.note ?? '',
    })
    printResponse(options, AssignUnmatchedPaymentResponseSchema, response, () =>
      response.transaction ? fields(response.transaction, TRANSACTION_COLUMNS) : '',
    )
  },
)

const returnUnmatched = serviceAction<YesOption & { note: string }>(
  async (service, options, unmatchedPaymentId) => {
    const { note } = options
    await confirmAction(service, options, {
      word: 'return',
      target: unmatchedPaymentId,
      effect: 'It is marked as returned to its payer, and cannot be assigned any more.',
    })
    const response = await service
      .client(ReconciliationService)
      .returnUnmatchedPayment({ unmatchedPaymentId, note })
    printResponse(options, ReturnUnmatchedPaymentResponseSchema, response, () =>
      response.payment ? fields(response.payment, DETAILS) : '',
    )
  },
)
