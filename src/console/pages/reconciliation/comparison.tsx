import { useState } from 'react'
import { Action } from '../../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { Bank } from '../../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../../core/money.ts'
import { BANKS } from '../../format/banks.ts'
import { csvText } from '../../format/csv.ts'
import { enumWords } from '../../format/ids.ts'
import { count, naira } from '../../format/money.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Dialog } from '../../ui/controls/dialog.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { saveFile } from '../../ui/save-file.ts'
import { amountOf, type Group, isOpen, type Outcome } from './outcome.ts'
import { OutcomeTable } from './outcome-table.tsx'
import type { Comparison as ComparisonState } from './use-comparison.ts'

const GROUPS: readonly { readonly group: Group; readonly title: string; readonly note: string }[] =
  [
    { group: 'matched', title: 'Matched', note: 'recorded with the same facts' },
    { group: 'missing', title: 'Missing here', note: 'in the statement, not recorded' },
    { group: 'extra', title: 'Missing there', note: 'recorded, not in the statement' },
    { group: 'mismatched', title: 'Mismatched', note: 'recorded with other facts' },
    { group: 'unmatched', title: 'Unmatched', note: 'no open account has the number' },
    { group: 'repeated', title: 'Repeated', note: 'twice in the statement' },
  ]

/** The groups that are shown also when they are empty. */
const ALWAYS: ReadonlySet<Group> = new Set(['matched', 'missing', 'extra', 'mismatched'])

/** What a comparison found: counts and sums, the payments of a group, and what can be done about them. */
export function Comparison({
  comparison,
  bank,
  onApply,
  onStop,
}: {
  readonly comparison: ComparisonState
  readonly bank: Bank
  readonly onApply: (outcomes: readonly Outcome[]) => void
  readonly onStop: () => void
}) {
  const [chosen, choose] = useState<Group>('missing')
  const { state, outcomes, error, lookedForExtra } = comparison
  const shown = outcomes.filter(({ group }) => group === chosen)
  const open = shown.filter(isOpen)
  return (
    <>
      {state === 'running' && <Progress comparison={comparison} onStop={onStop} />}
      {error !== undefined && <Failure error={error} />}
      <fieldset className="figures groups">
        <legend className="hidden">Findings</legend>
        {GROUPS.map(({ group, title, note }) => (
          <GroupButton
            key={group}
            title={title}
            note={note}
            outcomes={outcomes.filter((outcome) => outcome.group === group)}
            isAlways={ALWAYS.has(group)}
            isChosen={group === chosen}
            onChoose={() => choose(group)}
          />
        ))}
      </fieldset>
      {state === 'done' && !lookedForExtra && error === undefined && (
        <p className="faint">
          No row says when it was paid: payments that the statement lacks were not looked for.
        </p>
      )}
      <div className="group-actions">
        {state === 'done' && open.length > 0 && (
          <ApplyButton group={chosen} outcomes={open} onApply={onApply} />
        )}
        {shown.length > 0 && <ExportButton group={chosen} outcomes={shown} bank={bank} />}
        {chosen === 'unmatched' && shown.length > 0 && (
          <PageLink to="/review" query={{ kind: 'unmatched' }}>
            Assign or return them in Review
          </PageLink>
        )}
      </div>
      <OutcomeTable group={chosen} outcomes={shown} isDone={state === 'done'} />
    </>
  )
}

function GroupButton({
  title,
  note,
  outcomes,
  isAlways,
  isChosen,
  onChoose,
}: {
  readonly title: string
  readonly note: string
  readonly outcomes: readonly Outcome[]
  readonly isAlways: boolean
  readonly isChosen: boolean
  readonly onChoose: () => void
}) {
  if (outcomes.length === 0 && !isAlways) return null
  const sum = outcomes.reduce((total, outcome) => total + amountOf(outcome), 0n)
  return (
    <button
      type="button"
      className={isChosen ? 'figure chosen' : 'figure'}
      aria-pressed={isChosen}
      onClick={onChoose}
    >
      <span className="figure-title">{title}</span>
      <span className="figure-value">{count(outcomes.length)}</span>
      <span className="money">{naira(sum)}</span>
      <span className="faint">{note}</span>
    </button>
  )
}

function Progress({
  comparison: { step, done, total },
  onStop,
}: {
  readonly comparison: ComparisonState
  readonly onStop: () => void
}) {
  return (
    <div className="comparison-progress">
      <progress aria-label={step} {...(total > 0 && { max: total, value: done })} />
      <p role="status">
        {step}: {count(done)}
        {total > 0 && ` of ${count(total)}`} payments
      </p>
      <Button onClick={onStop}>Stop</Button>
    </div>
  )
}

/** Records what is missing, or has mismatches reviewed, after a confirmation. */
function ApplyButton({
  group,
  outcomes,
  onApply,
}: {
  readonly group: Group
  readonly outcomes: readonly Outcome[]
  readonly onApply: (outcomes: readonly Outcome[]) => void
}) {
  const [isOpen, setOpen] = useState(false)
  const number = count(outcomes.length)
  const sum = outcomes.reduce((total, outcome) => total + amountOf(outcome), 0n)
  const label =
    group === 'missing' ? `Record ${number} that the bank confirms` : `Have ${number} reviewed`
  return (
    <>
      <Button kind="primary" onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog title={label} isOpen={isOpen} onClose={() => setOpen(false)}>
        <p>
          {group === 'missing'
            ? `A live bank is asked about each of the payments, ${naira(sum)} together, and those that it confirms are recorded and notified to their business. For a bank of the sandbox the statement is trusted.`
            : 'Each contradiction is queued in Review. The recorded payments do not change.'}
        </p>
        <div className="dialog-buttons">
          <Button onClick={() => setOpen(false)}>Cancel</Button>
          <Button
            kind="primary"
            onClick={() => {
              setOpen(false)
              onApply(outcomes)
            }}
          >
            {group === 'missing' ? 'Record' : 'Queue'}
          </Button>
        </div>
      </Dialog>
    </>
  )
}

const CSV_HEADER = [
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
function ExportButton({
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
          csvText([CSV_HEADER, ...outcomes.map(toRecord)]),
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
