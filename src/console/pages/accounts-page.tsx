import { createQueryOptions, useQuery, useTransport } from '@connectrpc/connect-query'
import { useQueries } from '@tanstack/react-query'
import {
  type Account,
  AccountSchema,
  AccountStatus,
  AccountStatusSchema,
  type OpeningState,
  OpeningStateSchema,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AmountRule, type PaymentTerms } from '../../../gen/inflow/account/v1/terms_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../../gen/inflow/overview/v1/search_pb.ts'
import { BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { enumChoices, enumLabel, enumName, enumValue } from '../format/enums.ts'
import { naira } from '../format/money.ts'
import { useArrivals } from '../session/live.tsx'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { columnsOf, type Entry } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar, TextFilter } from '../ui/filters.tsx'
import { List, Table, usePagedList } from '../ui/list.tsx'
import { Empty, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Clipped, CustomerLink, EnumStatus, Id, PageLink, Status, Time } from '../ui/values.tsx'
import { BANKS, OpenAccount, openingText, pathOfAccount, ResolveOpening } from './account-forms.tsx'

export function AccountsPage() {
  const [reference] = useUrlState('find')
  const [status] = useUrlState('status')
  const [opening] = useUrlState('opening')
  const isFiltered = reference !== '' || status !== '' || opening !== ''
  return (
    <Page title="Accounts" actions={<OpenAccount />} isWide>
      <FilterBar>
        <TextFilter
          name="find"
          label="Reference, number or e-mail"
          placeholder="R-…, order-1, 0123456789"
        />
        <ChoiceFilter name="status" label="Status" choices={enumChoices(AccountStatusSchema)} />
        <ChoiceFilter name="bank" label="Bank" choices={BANKS} />
        <ChoiceFilter name="opening" label="Opening" choices={enumChoices(OpeningStateSchema)} />
      </FilterBar>
      {!isFiltered && <PendingOpenings />}
      {reference === '' ? <AllAccounts /> : <FoundAccounts text={reference} />}
    </Page>
  )
}

function AllAccounts() {
  const { live, businessId } = useViewScope()
  const [status] = useUrlState('status')
  const [bank] = useUrlState('bank')
  const [opening] = useUrlState('opening')
  const state = enumValue(OpeningStateSchema, opening)
  const accounts = usePagedList(AccountService.method.listAccounts, 'accounts', {
    businessId,
    live,
    pageSize: 50,
    bank: enumValue(BankSchema, bank) ?? 0,
    status: enumValue(AccountStatusSchema, status) ?? 0,
    openingStates: state === undefined ? [] : [state],
  })
  const arrivals = useArrivals(accounts.pages.refetch, ({ payload }) => payload.case === 'account')
  const business = businessId === '' ? '' : ` --business ${businessId}`
  return (
    <List
      label="Accounts"
      columns={state === undefined ? ACCOUNT_COLUMNS : PENDING_COLUMNS}
      hrefOf={hrefOfAccount}
      of={accounts}
      isExported
      empty={
        <Empty
          title="No accounts"
          command={`inflow account create${business} --reference order-1 --bank 9PSB --first-name Ada --last-name Obi --email ada@example.com --phone 08012345678${live ? '' : ' --test'}`}
        >
          Each customer of a business gets an account of their own. What is paid into it appears
          under Payments.
        </Empty>
      }
    >
      {arrivals}
    </List>
  )
}

/** The accounts with a reference, account number, id or e-mail address. */
function FoundAccounts({ text }: { readonly text: string }) {
  const { live, businessId } = useViewScope()
  const transport = useTransport()
  const found = useQuery(OverviewService.method.search, { query: text, live, businessId })
  const results = found.data?.results.filter(({ kind }) => kind === ResultKind.ACCOUNT) ?? []
  const { getAccount } = AccountService.method
  const reads = useQueries({
    queries: results.map(({ businessId: owner, reference }) =>
      createQueryOptions(getAccount, { businessId: owner, reference }, { transport }),
    ),
  })
  const accounts = reads.flatMap(({ data }) => data?.account ?? [])
  const error = found.error ?? reads.find((read) => read.error)?.error
  if (error) return <Failure error={error} onRetry={() => void found.refetch()} />
  if (found.isPending || reads.some(({ isPending }) => isPending)) return <Waiting rows={3} />
  if (accounts.length > 0) {
    return (
      <Table label="Accounts" columns={ACCOUNT_COLUMNS} rows={accounts} hrefOf={hrefOfAccount} />
    )
  }
  return (
    <Empty title="No account found">
      A reference, an account number, an id and an e-mail address must be whole.
    </Empty>
  )
}

/** The columns of all lists of accounts. @param showsOpening whether columns show why accounts are pending */
const accountColumns = (showsOpening: boolean) =>
  columnsOf(AccountSchema, [
    ['Account', numberShown, undefined, 'number'],
    'businessId',
    'bankName',
    ['Status', ({ status }) => <EnumStatus of={AccountStatusSchema} value={status} />],
    [
      'Customer',
      ({ businessId, customer }) =>
        customer && (
          <CustomerLink businessId={businessId} email={customer.email}>
            <Clipped text={`${customer.firstName} ${customer.lastName}`} />
          </CustomerLink>
        ),
    ],
    OWN_REFERENCE,
    ['Expects', ({ terms }) => terms && expectedText(terms), undefined, 'terms'],
    'createdAt',
    ...(showsOpening ? [OPENING, CAUSE] : []),
    ['Name', 'accountName', 'extra'],
    ['Reference', ({ reference }) => <Id text={reference} charsMax={24} />, 'extra'],
    ['E-mail', ({ customer }) => customer?.email, 'extra'],
    ['Phone', ({ customer }) => customer?.phone, 'extra'],
    ['Id', 'id', 'extra'],
  ])

function hrefOfAccount(account: Account, href: (path: string) => string): string {
  return href(pathOfAccount(account))
}

function numberShown({ accountNumber }: Account) {
  if (accountNumber === '') return <span className="faint">Not open yet</span>
  return <code>{accountNumber}</code>
}

/** `Exactly ₦5,000.00`. */
export function expectedText({ amountMinor, amountRule }: PaymentTerms): string {
  if (amountMinor === 0n) return 'Any amount'
  const rule = RULES[amountRule]
  return rule ? `${rule} ${naira(amountMinor)}` : `Any amount; ${naira(amountMinor)} is expected`
}

const RULES: Readonly<Record<number, string>> = {
  [AmountRule.EXACT]: 'Exactly',
  [AmountRule.AT_LEAST]: 'At least',
  [AmountRule.AT_MOST]: 'At most',
}

const OWN_REFERENCE: Entry<Account> = [
  'Own reference',
  ({ merchantReference }) => <Id text={merchantReference} charsMax={24} />,
  undefined,
  'own',
]

const OPENING: Entry<Account> = [
  'Opening',
  ({ opening }) => enumLabel(OpeningStateSchema, opening?.state ?? 0),
]

const CAUSE: Entry<Account> = [
  'Cause',
  ({ opening }) => <span className="cause">{opening?.cause}</span>,
]

export const ACCOUNT_COLUMNS = accountColumns(false)
const PENDING_COLUMNS = accountColumns(true)

/** The most pending openings above the list; the filter shows all of them. */
const OPENINGS_SHOWN_MAX = 10

/** The openings that have not succeeded yet, with their causes and possible actions. Nothing if there are none. */
function PendingOpenings() {
  const { live, businessId } = useViewScope()
  const { data } = useQuery(AccountService.method.listAccounts, {
    businessId,
    live,
    status: AccountStatus.PENDING,
    pageSize: OPENINGS_SHOWN_MAX,
  })
  const accounts = data?.accounts ?? []
  if (accounts.length === 0) return null
  return (
    <Section
      title="Pending openings"
      actions={
        data?.nextPageToken !== '' && (
          <PageLink to="/accounts" query={{ status: 'pending' }}>
            All of them
          </PageLink>
        )
      }
    >
      <Table
        label="Pending openings"
        columns={OPENING_COLUMNS}
        rows={accounts}
        hrefOf={hrefOfAccount}
      />
    </Section>
  )
}

const OPENING_COLUMNS = columnsOf(AccountSchema, [
  OWN_REFERENCE,
  'bankName',
  ['Opening', ({ opening }) => <OpeningStatus state={opening?.state ?? 0} />],
  CAUSE,
  ['Attempts', ({ opening }) => opening?.attempts, 'number'],
  ['Next try', ({ opening }) => <Time at={opening?.nextTryAt} />],
  ['Since', 'createdAt'],
  ['', (account) => <Resolve account={account} />],
])

function OpeningStatus({ state }: { readonly state: OpeningState }) {
  const isReview = enumName(OpeningStateSchema, state) === 'MANUAL_REVIEW'
  return (
    <span title={openingText(state)}>
      <Status tone={isReview ? 'bad' : 'waiting'}>{enumLabel(OpeningStateSchema, state)}</Status>
    </span>
  )
}

export function Resolve({ account }: { readonly account: Account }) {
  const { opening, bankName, id } = account
  return (
    <ResolveOpening
      account={account}
      says={
        <>
          <p>{openingText(opening?.state)}</p>
          {opening?.cause && <p className="faint">{opening.cause}</p>}
        </>
      }
      target={id}
      question={`What ${bankName} says`}
      onClosed={() => {}}
    />
  )
}
