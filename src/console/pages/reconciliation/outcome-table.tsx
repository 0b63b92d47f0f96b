import { useState } from 'react'
import { count } from '../../format/money.ts'
import { msOf } from '../../format/time.ts'
import { Button } from '../../ui/controls/button.tsx'
import { PageLink } from '../../ui/href.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'
import { Became } from './became.tsx'
import { Mismatches } from './mismatches.tsx'
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
