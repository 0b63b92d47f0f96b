import type { MessageInitShape } from '@bufbuild/protobuf'
import { useQuery } from '@connectrpc/connect-query'
import { useEffect, useRef } from 'react'
import {
  type Transaction,
  TransactionStatusSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type SummarizeTransactionsRequestSchema,
  type SummarizeTransactionsResponse,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { enumLabel } from '../format/enums.ts'
import { count, naira } from '../format/money.ts'
import { useEvents } from '../session/live.tsx'

/** How long after an event the totals are read again. They read up to ten thousand payments. */
const REREAD_MS = 5_000

interface Props {
  readonly filter: MessageInitShape<typeof SummarizeTransactionsRequestSchema>
  /** Whether a payment that arrived or changed may be one of them; absent: any may. */
  readonly concerns?: (payment: Transaction) => boolean
}

/** How many payments have the filters of a list, and their sum, in a line that the list does not wait for. */
export function PaymentTotals({ filter, concerns = () => true }: Props) {
  const { summarizeTransactions } = TransactionService.method
  const { data, error, refetch } = useQuery(summarizeTransactions, filter)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  useEvents((events, missed) => {
    const isChanged = events.some(
      ({ payload }) => payload.case === 'transaction' && concerns(payload.value),
    )
    if (!missed && !isChanged) return
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      void refetch()
    }, REREAD_MS)
  })
  return (
    <p className="totals">
      {data && <Sums totals={data} />}
      {error !== null && <span className="faint">The totals cannot be read at the moment.</span>}
    </p>
  )
}

function Sums({ totals }: { readonly totals: SummarizeTransactionsResponse }) {
  const { statuses, truncated } = totals
  if (totals.count === 0 && !truncated) return null
  const least = truncated ? '+' : ''
  return (
    <>
      <strong>
        {count(totals.count)}
        {least} {totals.count === 1 && !truncated ? 'payment' : 'payments'} ·{' '}
        {naira(totals.amountMinor)}
        {least}
      </strong>
      {statuses.length > 1 &&
        statuses.map((each) => (
          <span key={each.status} className="faint">
            {enumLabel(TransactionStatusSchema, each.status)} {count(each.count)} ·{' '}
            {naira(each.amountMinor)}
          </span>
        ))}
      {truncated && (
        <span className="faint">Only the latest 10,000 payments were read: limit the time.</span>
      )}
    </>
  )
}
