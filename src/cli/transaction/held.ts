import type { Command } from 'commander'
import {
  AcceptPaymentResponseSchema,
  CompleteReturnResponseSchema,
  HeldPaymentService,
  ListHeldPaymentsResponseSchema,
  ReturnPaymentResponseSchema,
} from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  type Transaction,
  Variance,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  addModeOptions,
  addPageOptions,
  enumName,
  type ModeOptions,
  modeName,
  modeOf,
  notePage,
  type PageOptions,
} from '../options.ts'
import { type Column, fields, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addVerb } from '../verb.ts'

/** What is shown of a payment into a one-time account. */
export const VARIANCE_COLUMNS: readonly Column<Transaction>[] = [
  { title: 'Expected', right: true, of: expectedText },
  { title: 'Variance', of: ({ variance }) => enumName(variance, Variance) },
  { title: 'Hold', of: ({ holdState }) => enumName(holdState, HoldState) },
]

const ROW: readonly Column<Transaction>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Paid at', of: ({ paidAt }) => localTime.format(paidAt) },
  { title: 'Amount', right: true, of: ({ amountMinor }) => formatAmount(amountMinor) },
  ...VARIANCE_COLUMNS,
  { title: 'Mode', of: modeName },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Own reference', of: ({ merchantReference }) => merchantReference },
  { title: 'Payer', of: ({ payer }) => payer?.name ?? '' },
  { title: 'Return reason', of: ({ returnReason }) => returnReason },
  { title: 'Business', of: ({ businessId }) => businessId },
]

function expectedText({ expectedAmountMinor }: Transaction): string {
  return expectedAmountMinor === 0n ? '' : formatAmount(expectedAmountMinor)
}

/** `inflow transaction held`, `accept`, `return` and `complete-return` */
export function addHeldVerbs(noun: Command): void {
  addPageOptions(
    addModeOptions(
      addVerb(noun, 'held', {
        summary: 'list payments that wait for a decision, or for the completion of their return',
        example: 'transaction held --returns',
      })
        .option('--business <id>', 'of this business only (default: all businesses)')
        .option('--returns', 'only those whose return is requested'),
    ),
  ).action(listHeld)
  addTransactionVerb(noun, 'accept', {
    summary: 'accept a held payment for its business: it is settled with the next payments',
    example: 'transaction accept txn_…',
  }).action(acceptPayment)
  addTransactionVerb(noun, 'return', {
    summary: 'request the return of a held payment for its business',
    example: 'transaction return txn_… --reason "the order was cancelled"',
  })
    .option('--reason <text>', 'why it is returned')
    .action(returnPayment)
  addTransactionVerb(noun, 'complete-return', {
    summary: 'record that the bank has returned a payment: it is reversed',
    example: 'transaction complete-return txn_… --note "NIP 000013…"',
  })
    .requiredOption('--note <text>', 'how the money was returned')
    .action(completeReturn)
}

function addTransactionVerb(noun: Command, name: string, texts: Parameters<typeof addVerb>[2]) {
  return addVerb(noun, name, texts)
    .argument('<transaction-id>', 'the transaction id, txn_…')
    .option(...YES)
}

interface HeldOptions extends PageOptions, ModeOptions {
  readonly business?: string
  readonly returns?: boolean
}

const listHeld = serviceAction<HeldOptions>(async (service, options) => {
  const response = await service.client(HeldPaymentService).listHeldPayments({
    businessId: options.business ?? '',
    holdState: options.returns ? HoldState.RETURN_REQUESTED : HoldState.UNSPECIFIED,
    ...modeOf(options),
    pageSize: options.limit ?? 0,
    pageToken: options.pageToken ?? '',
  })
  printResponse(options, ListHeldPaymentsResponseSchema, response, () =>
    table(response.transactions, ROW),
  )
  notePage(response)
})

const acceptPayment = serviceAction<YesOption>(async (service, options, transactionId) => {
  await confirmAction(service, options, {
    word: 'accept',
    target: transactionId,
    effect: 'Its amount is credited to its business. It cannot be held again.',
  })
  const response = await service.client(HeldPaymentService).acceptPayment({ transactionId })
  printResponse(options, AcceptPaymentResponseSchema, response, () => shown(response))
})

const returnPayment = serviceAction<YesOption & { reason?: string }>(
  async (service, options, transactionId) => {
    const { reason = '' } = options
    await confirmAction(service, options, {
      word: 'return',
      target: transactionId,
      effect: 'Its amount goes back to the payer. It cannot be accepted any more.',
    })
    const client = service.client(HeldPaymentService)
    const response = await client.returnPayment({ transactionId, reason })
    printResponse(options, ReturnPaymentResponseSchema, response, () => shown(response))
  },
)

const completeReturn = serviceAction<YesOption & { note: string }>(
  async (service, options, transactionId) => {
    const { note } = options
    await confirmAction(service, options, {
      word: 'return',
      target: transactionId,
      effect: 'It is reversed, and its business is notified: the bank has returned the money.',
    })
    const client = service.client(HeldPaymentService)
    const response = await client.completeReturn({ transactionId, note })
    printResponse(options, CompleteReturnResponseSchema, response, () => shown(response))
  },
)

function shown({ transaction }: { readonly transaction?: Transaction | undefined }): string {
  return transaction ? fields(transaction, ROW) : ''
}
