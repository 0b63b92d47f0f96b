import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import {
  type Account,
  AccountSchema,
  AccountStatus,
  AccountStatusSchema,
  OpeningStateSchema,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer } from '../../../gen/inflow/account/v1/split_pb.ts'
import { ReviewKind } from '../../../gen/inflow/overview/v1/review_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { UnmatchedPaymentSchema } from '../../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import { TransactionSchema } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { enumLabel } from '../format/enums.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useArrivals } from '../session/live.tsx'
import { useMay } from '../session/session.tsx'
import { useShowObject } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, type Fact, Facts, Loaded, Page, Section } from '../ui/page.tsx'
import { BusinessLink, Clipped, CustomerLink, EnumStatus, Id, Status, Time } from '../ui/values.tsx'
import { openingText, SetSplit, shareText } from './account-forms.tsx'
import { expectedText, Resolve } from './accounts-page.tsx'
import { amountShown, PaymentStatus } from './payment-words.tsx'
import { itemKey } from './review-kinds.ts'

/** One account: its customer, terms, split, and payments. */
export function AccountPage() {
  const { business = '', reference = '' } = useParams()
  const read = useQuery(AccountService.method.getAccount, { businessId: business, reference })
  const payments = usePayments(business, reference)
  const account = read.data?.account
  useShowObject(account)
  if (account) return <Shown account={account} payments={payments} />
  return (
    <Page title="Account">
      <Loaded read={read} />
    </Page>
  )
}

interface Props {
  readonly account: Account
}

function Shown({ account, payments }: Props & { readonly payments: Payments }) {
  const { accountNumber, merchantReference, opening, status } = account
  return (
    <Page
      title={accountNumber === '' ? merchantReference : accountNumber}
      actions={
        <>
          {opening ? <Resolve account={account} /> : <SetSplit account={account} />}
          {status === AccountStatus.ACTIVE && <CloseAccount account={account} />}
        </>
      }
    >
      <p className="state-line">
        <EnumStatus of={AccountStatusSchema} value={status} />
        {account.simulated && account.live && <Status tone="neutral">Simulated</Status>}
        <Status tone="neutral">{account.live ? 'Live' : 'Test'}</Status>
        {account.importedAt && (
          <Status tone={account.bankConfirmed ? 'neutral' : 'waiting'}>
            {account.bankConfirmed ? 'Imported' : 'Imported, not yet confirmed by the bank'}
          </Status>
        )}
        {opening && <span>{openingText(opening.state)}</span>}
      </p>
      {opening?.cause && <p className="fault">{opening.cause}</p>}
      <div className="fact-columns">
        <AccountFacts account={account} />
        <TermsFacts account={account} />
        <SplitFacts account={account} />
      </div>
      <UnmatchedPayments account={account} />
      <Section title="Payments">
        <AccountPayments payments={payments} account={account} />
      </Section>
    </Page>
  )
}

/** The payments to the number of the account while it was not open. */
function UnmatchedPayments({ account: { bank, accountNumber, live } }: Props) {
  const { listUnmatchedPayments } = ReconciliationService.method
  const enabled = useMay()(listUnmatchedPayments) && live && accountNumber !== ''
  const request = { bank, accountNumber, pageSize: 50 }
  const { rows, pages } = usePagedList(listUnmatchedPayments, 'payments', request, { enabled })
  if (rows.length === 0) return null
  return (
    <Section title="Unmatched payments to this number">
      <List
        label="Unmatched payments"
        columns={UNMATCHED_COLUMNS}
        of={{ rows, pages }}
        hrefOf={({ id }, href) => {
          const item = itemKey({ kind: ReviewKind.UNMATCHED_PAYMENT, id, live })
          return href('/review', { item })
        }}
        empty={null}
      />
    </Section>
  )
}

const UNMATCHED_COLUMNS = columnsOf(UnmatchedPaymentSchema, [
  'paidAt',
  'amountMinor',
  ['Payer', ({ payer }) => <Clipped text={payer?.name ?? ''} />],
  ['Narration', ({ narration }) => <Clipped text={narration} />],
  'sessionId',
])

function CloseAccount({ account: { id, businessId, reference } }: Props) {
  return (
    <Action
      method={AccountService.method.closeAccount}
      label="Close"
      kind="danger"
      target={id}
      says="It is closed at the bank too, if the bank supports that. Later payments into it are recorded as unmatched. It cannot be opened again."
      request={{ businessId, reference }}
      isReadLater
    />
  )
}

function AccountFacts({ account }: Props) {
  return (
    <MessageFacts
      schema={AccountSchema}
      of={account}
      facts={[
        ['Number', ({ accountNumber }) => accountNumber !== '' && <Id text={accountNumber} />],
        ['Name', 'accountName'],
        'bankName',
        ['Business', ({ businessId }) => <BusinessLink id={businessId} />],
        ['Own reference', 'merchantReference'],
        'reference',
        'id',
        ['Customer', ({ customer }) => customer && `${customer.firstName} ${customer.lastName}`],
        [
          'E-mail',
          ({ businessId, customer }) =>
            customer && (
              <CustomerLink businessId={businessId} email={customer.email}>
                {customer.email}
              </CustomerLink>
            ),
        ],
        ['Phone', ({ customer }) => customer?.phone],
        'createdAt',
        'importedAt',
        ['Opened by', ({ simulated }) => simulated && 'The sandbox: its number is invented'],
        ['Opening', ({ opening }) => enumLabel(OpeningStateSchema, opening?.state ?? 0)],
        ['Attempts', ({ opening }) => opening?.attempts],
        ['Next try', ({ opening }) => opening?.nextTryAt && <Time at={opening.nextTryAt} />],
      ]}
    />
  )
}

function TermsFacts({ account: { terms, metadata } }: Props) {
  const pairs = Object.entries(metadata)
  if (!terms && pairs.length === 0) return null
  const payers = terms?.allowedPayers.map(
    ({ accountNumber, bankCode, name }) =>
      name || (bankCode === '' ? accountNumber : `${accountNumber} at ${bankCode}`),
  )
  return (
    <Facts
      facts={[
        ['Expects', terms && expectedText(terms)],
        ['Expires', terms?.expiresAt && <Time at={terms.expiresAt} />],
        ['Use', terms && (terms.singleUse ? 'A single payment' : 'Any number of payments')],
        ['Used up', terms?.usedAt && <Time at={terms.usedAt} />],
        ['Closed by itself', terms?.endedAt && <Time at={terms.endedAt} />],
        ['Who may pay', payers?.join(', ')],
        ...pairs,
      ]}
    />
  )
}

function SplitFacts({ account: { split, businessId } }: Props) {
  const recipients = split?.recipients ?? []
  const owner = useBusinessName(businessId)
  if (recipients.length === 0) {
    return <Facts facts={[['Split', 'None: the business keeps everything']]} />
  }
  const isShared = split?.feeBearer === FeeBearer.SHARED
  const shares = recipients.map(
    (recipient, index): Fact => [
      `Share ${index + 1}`,
      <span key={recipient.businessId}>
        {shareText(recipient)} to <BusinessLink id={recipient.businessId} />
      </span>,
    ],
  )
  return (
    <Facts
      facts={[
        ...shares,
        ['The rest', owner === businessId ? 'The owner' : owner],
        ['Fee', isShared ? 'In proportion to the shares' : 'The owner bears it'],
      ]}
    />
  )
}

type Payments = ReturnType<typeof usePayments>

/** The payments into an account, which the page reads at the same time as the account. */
function usePayments(businessId: string, reference: string) {
  const request = { businessId, reference, pageSize: 25 }
  return usePagedList(TransactionService.method.listTransactions, 'transactions', request)
}

function AccountPayments({ payments, account }: Props & { readonly payments: Payments }) {
  const arrivals = useArrivals(
    payments.pages.refetch,
    ({ payload }) =>
      payload.case === 'transaction' && payload.value.accountReference === account.reference,
  )
  const command = `inflow transfer simulate --account ${account.accountNumber} --amount 1500.50`
  return (
    <List
      label="Payments"
      columns={COLUMNS}
      of={payments}
      isExported
      hrefOf={({ id }, href) => href(`/payments/${id}`)}
      empty={
        <Empty title="No payments yet" command={account.simulated ? command : undefined}>
          What is paid into the account appears here.
        </Empty>
      }
    >
      {arrivals}
    </List>
  )
}

const COLUMNS = columnsOf(TransactionSchema, [
  'paidAt',
  ['Amount', amountShown, 'number'],
  ['Status', (payment) => <PaymentStatus payment={payment} />],
  ['Payer', ({ payer }) => payer?.name || payer?.accountNumber],
  'sessionId',
  ['Settles', ({ settled, settlesAt }) => (settled ? 'Yes' : settlesAt && <Time at={settlesAt} />)],
])
