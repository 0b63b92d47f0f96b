import { type ReactNode, useState } from 'react'
import { Action, ActionSchema } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import {
  TransactionStatus,
  TransactionStatusSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { type Bank, BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { csvText } from '../format/csv.ts'
import { enumLabel, enumName, type Tone } from '../format/enums.ts'
import { words } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { msOf } from '../format/time.ts'
import { Button } from '../ui/button.tsx'
import { columns } from '../ui/columns.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Table } from '../ui/list.tsx'
import { Failure } from '../ui/page.tsx'
import { saveFile } from '../ui/save-file.ts'
import { Dash, Id, Money, PageLink, Status, Time } from '../ui/values.tsx'
import { amountOf, type Group, isOpen, type Outcome } from './outcome.ts'
import type { Comparison as ComparisonState } from './use-comparison.ts'

const GROUPS = [
  { group: 'matched', title: 'Matched', note: 'recorded with the same facts' },
  { group: 'missing', title: 'Missing here', note: 'in the statement, not recorded' },
  { group: 'extra', title: 'Missing there', note: 'recorded, not in the statement' },
  { group: 'mismatched', title: 'Mismatched', note: 'recorded with other facts' },
  { group: 'unmatched', title: 'Unmatched', note: 'no open account has the number' },
  { group: 'repeated', title: 'Repeated', note: 'twice in the statement' },
] as const

/** The groups that are shown even if they are empty. */
const ALWAYS: ReadonlySet<Group> = new Set(['matched', 'missing', 'extra', 'mismatched'])

interface ComparisonProps {
  readonly comparison: ComparisonState
  readonly bank: Bank
  readonly onApply: (outcomes: readonly Outcome[]) => void
  readonly onStop: () => void
}

interface GroupProps {
  readonly group: Group
  readonly outcomes: readonly Outcome[]
}

/** The result of a comparison: counts and sums, the payments of a group, and the possible actions. */
export function Comparison({ comparison, bank, onApply, onStop }: ComparisonProps) {
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
        {GROUPS.map((each) => {
          const found = outcomes.filter(({ group }) => group === each.group)
          if (found.length === 0 && !ALWAYS.has(each.group)) return null
          const isChosen = each.group === chosen
          return (
            <button
              key={each.group}
              type="button"
              className={isChosen ? 'figure chosen' : 'figure'}
              aria-pressed={isChosen}
              onClick={() => choose(each.group)}
            >
              <span className="figure-title">{each.title}</span>
              <span className="figure-value">{count(found.length)}</span>
              <span className="money">{naira(sumOf(found))}</span>
              <span className="faint">{each.note}</span>
            </button>
          )
        })}
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

function sumOf(outcomes: readonly Outcome[]): bigint {
  return outcomes.reduce((total, outcome) => total + amountOf(outcome), 0n)
}

function Progress({ comparison, onStop }: Pick<ComparisonProps, 'comparison' | 'onStop'>) {
  const { step, done, total } = comparison
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

/** Records missing payments, or queues mismatches for review, after a confirmation. */
function ApplyButton({ group, outcomes, onApply }: GroupProps & Pick<ComparisonProps, 'onApply'>) {
  const [isOpen, setOpen] = useState(false)
  const number = count(outcomes.length)
  const sum = sumOf(outcomes)
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

const CSV_COLUMNS: readonly (readonly [string, (outcome: Outcome) => string | undefined])[] = [
  ['finding', ({ group }) => group],
  ['action', ({ action }) => words(enumName(ActionSchema, action)).toLowerCase()],
  ['cause', ({ cause }) => cause],
  ['line', ({ row }) => row && `${row.line}`],
  ['session_id', ({ row, recorded }) => row?.credit.sessionId || recorded?.sessionId],
  ['bank_key', ({ row }) => row?.credit.bankKey],
  ['statement_account', ({ row }) => row?.credit.accountNumber],
  ['statement_amount', ({ row }) => row && formatAmount(row.credit.amountMinor)],
  ['statement_status', ({ row }) => row?.credit.status],
  ['paid_at', ({ row }) => isoText(row?.credit.paidAtMs)],
  ['payer', ({ row }) => row?.credit.payerName],
  ['narration', ({ row }) => row?.credit.narration],
  ['transaction_id', ({ recorded }) => recorded?.transactionId],
  ['recorded_account', ({ recorded }) => recorded?.accountNumber],
  ['recorded_amount', ({ recorded }) => recorded && formatAmount(recorded.amountMinor)],
  [
    'recorded_status',
    ({ recorded }) => recorded && enumName(TransactionStatusSchema, recorded.status),
  ],
]

const isoText = (ms: number | undefined) => (ms === undefined ? '' : new Date(ms).toISOString())

function ExportButton({ group, outcomes, bank }: GroupProps & { readonly bank: Bank }) {
  const save = () => {
    const records = outcomes.map((outcome) => CSV_COLUMNS.map(([, read]) => read(outcome) || ''))
    const text = csvText([CSV_COLUMNS.map(([name]) => name), ...records])
    const code = enumName(BankSchema, bank).toLowerCase()
    saveFile(`reconciliation-${code}-${group}.csv`, 'text/csv', [text])
  }
  return (
    <Button icon="download" onClick={save}>
      Export {outcomes.length} as CSV
    </Button>
  )
}

/** How many more rows a click shows, because a page with all rows would be slow. */
const STEP = 200

function OutcomeTable({ group, outcomes, isDone }: GroupProps & { readonly isDone: boolean }) {
  const [shown, setShown] = useState(STEP)
  if (outcomes.length === 0) return isDone ? <p className="soft">None.</p> : null
  const rows = outcomes.slice(0, shown)
  return (
    <>
      {group === 'mismatched' ? (
        <Mismatches outcomes={rows} />
      ) : (
        <Table label="Payments" columns={COLUMNS} rows={rows} keyOf={({ key }) => key} />
      )}
      {shown < outcomes.length && (
        <div className="more">
          <Button onClick={() => setShown(shown + STEP)}>
            More, {count(outcomes.length - shown)} are left
          </Button>
        </div>
      )}
    </>
  )
}

const COLUMNS = columns<Outcome>([
  ['Line', ({ row }) => row?.line ?? <Dash />, 'number'],
  ['Paid', ({ row, recorded }) => <Time at={row?.credit.paidAtMs ?? msOf(recorded?.paidAt)} />],
  [
    'Session or key',
    ({ row, recorded }) => {
      const { sessionId, bankKey } = row?.credit ?? {}
      return <Id text={sessionId || bankKey || recorded?.sessionId || ''} charsMax={32} />
    },
  ],
  [
    'Account',
    ({ row, recorded }) => <code>{row?.credit.accountNumber ?? recorded?.accountNumber}</code>,
  ],
  ['Amount', (outcome) => <Money minor={amountOf(outcome)} />, 'number'],
  ['Payer', ({ row }) => row?.credit.payerName],
  ['Recorded as', ({ recorded }) => recorded && <Payment id={recorded.transactionId} />],
  ['Became', (outcome) => <Became outcome={outcome} />],
])

function Payment({ id }: { readonly id: string }) {
  return <PageLink to={`/payments/${id}`}>{id}</PageLink>
}

const ACTIONS: Readonly<Partial<Record<Action, readonly [Tone, string]>>> = {
  [Action.RECORDED]: ['good', 'Recorded'],
  [Action.UNMATCHED]: ['waiting', 'Recorded as unmatched'],
  [Action.REVIEW]: ['waiting', 'In review'],
  [Action.REJECTED]: ['bad', 'Not confirmed'],
  [Action.RETRY]: ['waiting', 'Undecided'],
}

function Became({ outcome: { action, cause } }: { readonly outcome: Outcome }) {
  const [tone, name] = ACTIONS[action] ?? []
  return (
    <>
      {tone && name && <Status tone={tone}>{name}</Status>} <span className="faint">{cause}</span>
    </>
  )
}

/** Shows each payment on two lines: the row of the statement above the record. Cells that differ are marked. */
function Mismatches({ outcomes }: { readonly outcomes: readonly Outcome[] }) {
  return (
    <div className="table-frame scrolls">
      <table className="table mismatches" aria-label="Payments">
        <thead>
          <tr>
            {['Line', 'Side', 'Session or key', 'Account', 'Amount', 'Status', 'Became'].map(
              (title) => (
                <th key={title} scope="col" className={title === 'Amount' ? 'number' : undefined}>
                  {title}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {outcomes.map((outcome) => (
            <Pair key={outcome.key} outcome={outcome} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Pair({ outcome }: { readonly outcome: Outcome }) {
  const { row, recorded } = outcome
  if (row === undefined || recorded === undefined) return null
  const { credit, line } = row
  const sides = [
    { ...credit, status: TransactionStatus[credit.status], name: 'Statement' },
    { ...recorded, name: 'Recorded' },
  ] as const
  const differs = (name: 'accountNumber' | 'amountMinor' | 'status') =>
    sides[0][name] !== sides[1][name]
  return sides.map(({ name, accountNumber, amountMinor, status }, index) => (
    <tr key={name} className={index === 0 ? 'pair' : undefined}>
      {index === 0 && <td rowSpan={2}>{line}</td>}
      <td>{name}</td>
      <td>
        {index === 0 ? (
          <Id text={credit.sessionId || credit.bankKey} charsMax={32} />
        ) : (
          <Payment id={recorded.transactionId} />
        )}
      </td>
      <Cell differs={differs('accountNumber')}>{accountNumber}</Cell>
      <Cell differs={differs('amountMinor')} className="number">
        <Money minor={amountMinor} />
      </Cell>
      <Cell differs={differs('status')}>{enumLabel(TransactionStatusSchema, status)}</Cell>
      {index === 0 && (
        <td rowSpan={2}>
          <Became outcome={outcome} />
        </td>
      )}
    </tr>
  ))
}

interface CellProps {
  readonly differs: boolean
  readonly className?: string
  readonly children: ReactNode
}

function Cell({ differs, className = '', children }: CellProps) {
  return (
    <td className={`${className} ${differs ? 'differs' : ''}`.trim() || undefined}>
      {differs && <span aria-hidden="true">≠ </span>}
      {children}
      {differs && <span className="hidden"> differs</span>}
    </td>
  )
}
