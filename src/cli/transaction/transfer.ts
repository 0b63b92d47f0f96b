import type { Command } from 'commander'
import {
  SandboxService,
  type SimulateTransferResponse,
  SimulateTransferResponseSchema,
} from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { RecordOutcome } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { amount, enumName } from '../options.ts'
import { type Column, fields, nestedColumns, note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { TRANSACTION_COLUMNS } from './transaction.ts'

const COLUMNS: readonly Column<SimulateTransferResponse>[] = [
  { title: 'Outcome', of: outcomeOf },
  // The columns of the transaction include the session.
  { title: 'Session', of: ({ transaction, sessionId }) => (transaction ? '' : sessionId) },
  ...nestedColumns(
    TRANSACTION_COLUMNS,
    (response: SimulateTransferResponse) => response.transaction,
  ),
]

/** Explanations of the outcomes other than RECORDED. */
const MEANINGS: Readonly<Record<string, string>> = {
  DUPLICATE: 'The session is already recorded; nothing changed.',
  UNMATCHED: 'No open account has this number; the payment is queued for manual review.',
  CONFLICT: 'The session is recorded with another amount or account; nothing changed.',
}

/** `inflow transfer` */
export function transfer(noun: Command): void {
  addVerb(noun, 'simulate', {
    summary: 'simulate a payment into a test account, or a live account at a sandbox bank',
    example: 'transfer simulate --account 1234567890 --amount 1500.50 --payer "Chidi Okafor"',
  })
    .requiredOption('--account <number>', 'account number of the virtual account, ten digits')
    .requiredOption('--amount <naira>', 'amount in naira, with at most two decimals', amount)
    .option('--session <id>', 'the interbank session id (default: a new one)')
    .option('--payer <name>', 'name of the payer (default: a made-up one)')
    .action(simulateTransfer)
  addServiceOptions(noun)
}

interface SimulateOptions {
  readonly account: string
  readonly amount: bigint
  readonly session?: string
  readonly payer?: string
}

const simulateTransfer = serviceAction<SimulateOptions>(async (service, options) => {
  const response = await service.client(SandboxService).simulateTransfer({
    accountNumber: options.account,
    amountMinor: options.amount,
    sessionId: options.session ?? '',
    payerName: options.payer ?? '',
  })
  printResponse(options, SimulateTransferResponseSchema, response, () => fields(response, COLUMNS))
  const meaning = MEANINGS[outcomeOf(response)]
  if (meaning !== undefined) note(meaning)
})

function outcomeOf({ outcome }: SimulateTransferResponse): string {
  return enumName(outcome, RecordOutcome)
}
