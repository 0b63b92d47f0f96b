import { useParams } from 'wouter'
import type { Account } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import {
  type Transaction,
  TransactionSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { useArrivals } from '../session/live.tsx'
import { useShowObject, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Facts, Page, Section } from '../ui/page.tsx'
import { BusinessLink, Id, PageLink, Time } from '../ui/values.tsx'
import { pathOfAccount } from './account-forms.tsx'
import { ACCOUNT_COLUMNS } from './accounts-page.tsx'
import { amountShown, PaymentStatus, PaymentTotals } from './payment-words.tsx'

/** A customer of a business, in the shown mode. */
interface Customer {
  readonly businessId: string
  readonly customerEmail: string
  readonly live: boolean
}

/** One customer, identified by an e-mail address: their accounts, and the payments into all of them. */
export function CustomerPage() {
  const { business: businessId = '' } = useParams()
  const [customerEmail] = useUrlState('email')
  const { live } = useViewScope()
  useShowObject({ businessId })
  if (customerEmail === '') return <NoCustomer />
  return <Shown customer={{ businessId, customerEmail, live }} />
}

function NoCustomer() {
  return (
    <Page title="Customer">
      <Empty title="The address of this page names no customer">
        The pages of their accounts and payments lead here.
      </Empty>
    </Page>
  )
}

interface Props {
  readonly customer: Customer
}

function Shown({ customer }: Props) {
  const { businessId, customerEmail, live } = customer
  const accounts = usePagedList(AccountService.method.listAccounts, 'accounts', {
    ...customer,
    pageSize: 10,
  })
  const names = distinct(accounts.rows, ({ customer: of }) => `${of?.firstName} ${of?.lastName}`)
  const phones = distinct(accounts.rows, ({ customer: of }) => of?.phone ?? '')
  return (
    <Page title={names[0] ?? customerEmail}>
      <Facts
        facts={[
          ['Name', names.join(', ')],
          ['E-mail', <Id key="email" text={customerEmail} charsMax={60} />],
          ['Phone', phones.join(', ')],
          ['Business', <BusinessLink key="business" id={businessId} />],
        ]}
      />
      <Section title="Accounts">
        <List
          label="Accounts"
          columns={ACCOUNT_COLUMNS}
          of={accounts}
          hrefOf={(account, href) => href(pathOfAccount(account))}
          empty={
            <Empty title={`No account in ${live ? 'live' : 'test'} mode`}>
              The business has opened none for this address.
            </Empty>
          }
        />
      </Section>
      <CustomerPayments customer={customer} />
    </Page>
  )
}

/** The distinct texts of some accounts, beginning with the newest account. */
function distinct(accounts: readonly Account[], textOf: (account: Account) => string): string[] {
  return [...new Set(accounts.map(textOf))].filter((text) => text !== '')
}

function CustomerPayments({ customer }: Props) {
  const { businessId, customerEmail } = customer
  const isTheirs = (payment: Transaction) =>
    payment.businessId === businessId && payment.customerEmail === customerEmail
  const payments = usePagedList(TransactionService.method.listTransactions, 'transactions', {
    ...customer,
    pageSize: 25,
  })
  const arrivals = useArrivals(
    payments.pages.refetch,
    ({ payload }) => payload.case === 'transaction' && isTheirs(payload.value),
  )
  return (
    <Section title="Payments">
      <PaymentTotals filter={customer} concerns={isTheirs} />
      <List
        label="Payments"
        columns={COLUMNS}
        of={payments}
        isExported
        hrefOf={({ id }, href) => href(`/payments/${id}`)}
        empty={<Empty title="No payments yet">Payments into their accounts appear here.</Empty>}
      >
        {arrivals}
      </List>
    </Section>
  )
}

const COLUMNS = columnsOf(TransactionSchema, [
  'paidAt',
  ['Amount', amountShown, 'number'],
  ['Status', (payment) => <PaymentStatus payment={payment} />],
  [
    'Account',
    ({ businessId, accountReference, accountNumber }) => (
      <PageLink to={`/accounts/${businessId}/${accountReference}`}>
        <code>{accountNumber}</code>
      </PageLink>
    ),
  ],
  ['Payer', ({ payer }) => payer?.name || payer?.accountNumber],
  'sessionId',
  ['Settles', ({ settled, settlesAt }) => (settled ? 'Yes' : settlesAt && <Time at={settlesAt} />)],
])
