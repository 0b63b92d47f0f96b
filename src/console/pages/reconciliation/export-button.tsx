import { Action } from '../../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { Bank } from '../../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../../core/money.ts'
import { csvText } from '../../files/csv.ts'
import { saveFile } from '../../files/save-file.ts'
import { BANKS } from '../../format/banks.ts'
import { enumWords } from '../../format/ids.ts'
import { Button } from '../../ui/controls/button.tsx'
import type { Group, Outcome } from './outcome.ts'

const HEADER = [
  'finding',
  'action',
  'cause',
  'line',
  'session_id',
  'bank_key',
  'statement_account',
  'statement_amount',
  'statement_status',
  'paid_at',
  'payer',
  'narration',
  'transaction_id',
  'recorded_account',
  'recorded_amount',
  'recorded_status',
]

/** Saves the payments that are shown. */
export function ExportButton({
  group,
  outcomes,
  bank,
}: {
  readonly group: Group
  readonly outcomes: readonly Outcome[]
  readonly bank: Bank
}) {
  const code = BANKS.find((each) => each.bank === bank)?.code ?? 'bank'
  return (
    <Button
      icon="download"
      onClick={() =>
        saveFile(`reconciliation-${code}-${group}.csv`, 'text/csv', [
          csvText([HEADER, ...outcomes.map(toRecord)]),
        ])
      }
    >
      Export {outcomes.length} as CSV
    </Button>
  )
}

function toRecord({ group, action, cause, row, recorded }: Outcome): string[] {
  const { line, credit } = row ?? {}
  return [
    group,
    enumWords(Action, action).toLowerCase(),
    cause,
    line === undefined ? '' : `${line}`,
    credit?.sessionId || recorded?.sessionId || '',
    credit?.bankKey ?? '',
    credit?.accountNumber ?? '',
    credit ? formatAmount(credit.amountMinor) : '',
    credit?.status ?? '',
    credit?.paidAtMs === undefined ? '' : new Date(credit.paidAtMs).toISOString(),
    credit?.payerName ?? '',
    credit?.narration ?? '',
    recorded?.transactionId ?? '',
    recorded?.accountNumber ?? '',
    recorded ? formatAmount(recorded.amountMinor) : '',
    recorded ? enumWords(TransactionStatus, recorded.status).toUpperCase() : '',
  ]
}
