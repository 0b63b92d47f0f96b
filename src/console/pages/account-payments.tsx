import { useInfiniteQuery } from '@connectrpc/connect-query'
import type { Account } from '../../../gen/inflow/account/v1/account_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { useArrivals } from '../session/live.tsx'
import { useHref } from '../session/view-scope.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty } from '../ui/page.tsx'
import { Id, Money, Status, Time, type Tone } from '../ui/values.tsx'

export type Payments = ReturnType<typeof usePayments>

/** The payments into an account, which the page asks for together with it. */
export function usePayments(businessId: string, reference: string) {
  return useInfiniteQuery(
    TransactionService.method.listTransactions,
    { businessId, reference, pageSize: 25, pageToken: '' },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
}

export function AccountPayments({
  payments,
  account,
}: {
  readonly payments: Payments
  readonly account: Account
}) {
  const href = useHref()
  const arrivals = useArrivals(
    payments.refetch,
    ({ payload }) =>
      payload.case === 'transaction' && payload.value.accountReference === account.reference,
  )
  const rows = payments.data?.pages.flatMap((page) => page.transactions) ?? []
  const command = `inflow transfer simulate --account ${account.accountNumber} --amount 1500.50`
  return (
    <ListFrame
      pages={payments}
      isEmpty={rows.length === 0}
      empty={
        <Empty title="No payments yet" command={account.simulated ? command : undefined}>
          What is paid into the account appears here.
        </Empty>
      }
    >
      {arrivals}
      <Table
        label="Payments"
        columns={COLUMNS}
        rows={rows}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => href(`/payments/${id}`)}
      />
    </ListFrame>
  )
}

const COLUMNS: readonly Column<Transaction>[] = [
  { key: 'paid', title: 'Paid', render: ({ paidAt }) => <Time at={paidAt} /> },
  {
    key: 'amount',
    title: 'Amount',
    isNumber: true,
    render: ({ amountMinor, status }) => (
      <Money minor={amountMinor} isReversed={status === TransactionStatus.REVERSED} />
    ),
  },
  { key: 'status', title: 'Status', render: (payment) => <PaymentState payment={payment} /> },
  { key: 'payer', title: 'Payer', render: ({ payer }) => payer?.name || payer?.accountNumber },
  { key: 'session', title: 'Session', render: ({ sessionId }) => <Id text={sessionId} /> },
  {
    key: 'settled',
    title: 'Settles',
    render: ({ settled, settlesAt }) => (settled ? 'Yes' : settlesAt && <Time at={settlesAt} />),
  },
]

const STATES: ReadonlyMap<TransactionStatus, readonly [Tone, string]> = new Map([
  [TransactionStatus.PENDING, ['waiting', 'Pending']],
  [TransactionStatus.SUCCESS, ['good', 'Success']],
  [TransactionStatus.FAILED, ['bad', 'Failed']],
  [TransactionStatus.REVERSED, ['neutral', 'Reversed']],
])

function PaymentState({ payment }: { readonly payment: Transaction }) {
  const [tone, label] = STATES.get(payment.status) ?? ['neutral', 'Unknown']
  if (payment.holdState === HoldState.HELD) return <Status tone="waiting">Held</Status>
  return <Status tone={tone}>{label}</Status>
}
