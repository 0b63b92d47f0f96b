import { Fragment, type ReactNode } from 'react'
import { TransactionStatus } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { nameOf, STATUSES } from '../../format/payments.ts'
import { PageLink } from '../../ui/href.tsx'
import { Id, Money } from '../../ui/values.tsx'
import { Became } from './became.tsx'
import type { Outcome } from './outcome.ts'

/** Each payment on two lines, the statement above the record; the cells that differ are marked. */
export function Mismatches({ outcomes }: { readonly outcomes: readonly Outcome[] }) {
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
