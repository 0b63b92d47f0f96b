import {
  type Transaction,
  TransactionStatus,
} from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { bankName } from '../../format/banks.ts'
import { nameOf, VARIANCES } from '../../format/payments.ts'
import { PageLink } from '../../ui/href.tsx'
import type { Column } from '../../ui/lists/table.tsx'
import { PaymentStatus } from '../../ui/payment-status.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'

const FIRST: readonly Column<Transaction>[] = [
  { key: 'paid', title: 'Paid', render: ({ paidAt }) => <Time at={paidAt} /> },
  {
    key: 'amount',
    title: 'Amount',
    isNumber: true,
    render: ({ amountMinor, status }) => (
      <Money minor={amountMinor} isReversed={status === TransactionStatus.REVERSED} />
    ),
  },
  { key: 'status', title: 'Status', render: (payment) => <PaymentStatus payment={payment} /> },
  { key: 'customer', title: 'Customer', render: ({ customerName }) => clipped(customerName) },
  {
    key: 'account',
    title: 'Account',
    isWide: true,
    render: ({ businessId, accountReference, accountNumber }) => (
      <PageLink to={`/accounts/${businessId}/${accountReference}`}>
        <code>{accountNumber}</code>
      </PageLink>
    ),
  },
  { key: 'bank', title: 'Bank', isWide: true, render: ({ bank }) => bankName(bank) },
  { key: 'payer', title: 'Payer', isWide: true, render: ({ payer }) => clipped(payer?.name ?? '') },
  {
    key: 'session',
    title: 'Session',
    isWide: true,
    render: ({ sessionId }) => <Id text={sessionId} charsMax={15} />,
  },
]

const LAST: readonly Column<Transaction>[] = [
  {
    key: 'variance',
    title: 'Variance',
    isExtra: true,
    render: ({ variance }) => nameOf(VARIANCES, variance),
  },
  {
    key: 'reference',
    title: 'Reference',
    isExtra: true,
    render: ({ merchantReference }) => clipped(merchantReference),
  },
  { key: 'email', title: 'E-mail', isExtra: true, render: ({ customerEmail }) => customerEmail },
  {
    key: 'narration',
    title: 'Narration',
    isExtra: true,
    render: ({ narration }) => clipped(narration),
  },
  {
    key: 'settles',
    title: 'Settles',
    isExtra: true,
    render: ({ settlesAt, settled }) => (settled ? 'Settled' : <Time at={settlesAt} />),
  },
  { key: 'id', title: 'Id', isExtra: true, render: ({ id }) => <Id text={id} /> },
]

/** The columns of payments of all businesses. @param nameOf returns the name of a business by its id */
export function allColumns(nameOf: (businessId: string) => string): readonly Column<Transaction>[] {
  const business: Column<Transaction> = {
    key: 'business',
    title: 'Business',
    isWide: true,
    render: ({ businessId }) => clipped(nameOf(businessId)),
  }
  return [...FIRST, business, ...LAST]
}

/** The columns of payments of one business. */
export const BUSINESS_COLUMNS: readonly Column<Transaction>[] = [...FIRST, ...LAST]

/** A text that others wrote: whole on hover. */
function clipped(text: string) {
  if (text === '') return <span className="faint">–</span>
  return (
    <span className="clipped" title={text}>
      {text}
    </span>
  )
}
