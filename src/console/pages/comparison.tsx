import { Fragment, type ReactNode, useState } from 'react'
import { Action } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { BANKS } from '../format/banks.ts'
import { csvText } from '../format/csv.ts'
import { enumWords } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { nameOf, STATUSES } from '../format/payments.ts'
import { msOf } from '../format/time.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { type Column, Table } from '../ui/list.tsx'
import { Failure } from '../ui/page.tsx'
import { saveFile } from '../ui/save-file.ts'
import { Id, Money, PageLink, Status, Time, type Tone } from '../ui/values.tsx'
import { amountOf, type Group, isOpen, type Outcome } from './outcome.ts'
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

/** How many more rows a click shows: a page with all of them would be slow. */
const STEP = 200

/** The payments of one group. */
function OutcomeTable({
  group,
  outcomes,
  isDone,
}: {
  readonly group: Group
  readonly outcomes: readonly Outcome[]
  readonly isDone: boolean
}) {
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

const COLUMNS: readonly Column<Outcome>[] = [
  {
    key: 'line',
    title: 'Line',
    isNumber: true,
    render: ({ row }) => row?.line ?? <span className="faint">–</span>,
  },
  {
    key: 'paid',
    title: 'Paid',
    render: ({ row, recorded }) => <Time at={row?.credit.paidAtMs ?? msOf(recorded?.paidAt)} />,
  },
  {
    key: 'session',
    title: 'Session or key',
    render: ({ row, recorded }) => (
      <Id
        text={row?.credit.sessionId || row?.credit.bankKey || recorded?.sessionId || ''}
        charsMax={32}
      />
    ),
  },
  {
    key: 'account',
    title: 'Account',
    render: ({ row, recorded }) => (
      <code>{row?.credit.accountNumber ?? recorded?.accountNumber}</code>
    ),
  },
  {
    key: 'amount',
    title: 'Amount',
    isNumber: true,
    render: (outcome) => <Money minor={amountOf(outcome)} />,
  },
  { key: 'payer', title: 'Payer', render: ({ row }) => row?.credit.payerName },
  {
    key: 'transaction',
    title: 'Recorded as',
    render: ({ recorded }) =>
      recorded && (
        <PageLink to={`/payments/${recorded.transactionId}`}>{recorded.transactionId}</PageLink>
      ),
  },
  { key: 'action', title: 'Became', render: (outcome) => <Became outcome={outcome} /> },
]

const ACTIONS: Readonly<Partial<Record<Action, readonly [Tone, string]>>> = {
  [Action.RECORDED]: ['good', 'Recorded'],
  [Action.UNMATCHED]: ['waiting', 'Recorded as unmatched'],
  [Action.REVIEW]: ['waiting', 'In review'],
  [Action.REJECTED]: ['bad', 'Not confirmed'],
  [Action.RETRY]: ['waiting', 'Undecided'],
}

/** What was done about it, and why. */
function Became({ outcome: { action, cause } }: { readonly outcome: Outcome }) {
  const [tone, name] = ACTIONS[action] ?? []
  return (
    <>
      {tone && name && <Status tone={tone}>{name}</Status>} <span className="faint">{cause}</span>
    </>
  )
}

/** Each payment on two lines, the statement above the record; the cells that differ are marked. */
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
  const status = TransactionStatus[credit.status]
  const differs = {
    account: credit.accountNumber !== recorded.accountNumber,
    amount: credit.amountMinor !== recorded.amountMinor,
    status: status !== recorded.status,
  }
  return (
    <Fragment>
      <tr className="pair">
        <td rowSpan={2}>{line}</td>
        <td>Statement</td>
        <td>
          <Id text={credit.sessionId || credit.bankKey} charsMax={32} />
        </td>
        <Cell differs={differs.account}>{credit.accountNumber}</Cell>
        <Cell differs={differs.amount} isNumber>
          <Money minor={credit.amountMinor} />
        </Cell>
        <Cell differs={differs.status}>{nameOf(STATUSES, status)}</Cell>
        <td rowSpan={2}>
          <Became outcome={outcome} />
        </td>
      </tr>
      <tr>
        <td>Recorded</td>
        <td>
          <PageLink to={`/payments/${recorded.transactionId}`}>{recorded.transactionId}</PageLink>
        </td>
        <Cell differs={differs.account}>{recorded.accountNumber}</Cell>
        <Cell differs={differs.amount} isNumber>
          <Money minor={recorded.amountMinor} />
        </Cell>
        <Cell differs={differs.status}>{nameOf(STATUSES, recorded.status)}</Cell>
      </tr>
    </Fragment>
  )
}

function Cell({
  differs,
  isNumber = false,
  children,
}: {
  readonly differs: boolean
  readonly isNumber?: boolean
  readonly children: ReactNode
}) {
  const classes = [isNumber && 'number', differs && 'differs'].filter(Boolean).join(' ')
  return (
    <td className={classes || undefined}>
      {differs && <span aria-hidden="true">≠ </span>}
      {children}
      {differs && <span className="hidden"> differs</span>}
    </td>
  )
}
