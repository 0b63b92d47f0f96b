import { Fragment, type ReactNode, useState } from 'react'
import { Action } from '../../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { count } from '../../format/money.ts'
import { nameOf, STATUSES } from '../../format/payments.ts'
import { msOf } from '../../format/time.ts'
import { Button } from '../../ui/controls/button.tsx'
import { PageLink } from '../../ui/href.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Status, type Tone } from '../../ui/status.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'
import { amountOf, type Group, type Outcome } from './outcome.ts'

/** How many more rows a click shows: a page with all of them would be slow. */
const STEP = 200

/** The payments of one group. */
export function OutcomeTable({
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
