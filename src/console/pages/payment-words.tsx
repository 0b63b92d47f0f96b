import type { MessageInitShape } from '@bufbuild/protobuf'
import { useQuery } from '@connectrpc/connect-query'
import { useEffect, useRef } from 'react'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
  TransactionStatusSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type SummarizeTransactionsRequestSchema,
  type SummarizeTransactionsResponse,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { enumLabel, type Tone } from '../format/enums.ts'
import { count, naira } from '../format/money.ts'
import { useEvents } from '../session/live.tsx'
import { Money, Status } from '../ui/values.tsx'

/** The amount of a payment; struck through if the payment was reversed. */
export function amountShown({ amountMinor, status }: Transaction) {
  return <Money minor={amountMinor} isReversed={status === TransactionStatus.REVERSED} />
}

export function PaymentStatus({ payment }: { readonly payment: Transaction }) {
  const [tone, name] = paymentState(payment)
  return <Status tone={tone}>{name}</Status>
}

/** The state of a payment. A held payment is shown as held, because it is in no balance. */
function paymentState({ status, holdState, settled }: Transaction): readonly [Tone, string] {
  if (status === TransactionStatus.REVERSED) return ['neutral', 'Reversed']
  if (status === TransactionStatus.FAILED) return ['bad', 'Failed']
  if (status === TransactionStatus.PENDING) return ['waiting', 'Pending']
  if (holdState === HoldState.HELD) return ['waiting', 'Held']
  if (holdState === HoldState.RETURN_REQUESTED) return ['waiting', 'Return requested']
  return ['good', settled ? 'Settled' : 'Success']
}

/** How long after an event the totals are read again, because a total reads up to ten thousand payments. */
const REREAD_MS = 5_000

interface Props {
  readonly filter: MessageInitShape<typeof SummarizeTransactionsRequestSchema>
  /** Whether a payment that arrived or changed may count in the totals; absent: any payment may. */
  readonly concerns?: (payment: Transaction) => boolean
}

/** The number and sum of the payments that match the filters of a list. The list does not wait for them. */
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
