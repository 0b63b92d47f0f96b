import '../styles/accounts.css'
import {
  createQueryOptions,
  useInfiniteQuery,
  useQuery,
  useTransport,
} from '@connectrpc/connect-query'
import { useQueries } from '@tanstack/react-query'
import {
  type Account,
  AccountStatus,
  OpeningState,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../../gen/inflow/overview/v1/search_pb.ts'
import { useArrivals } from '../session/live.tsx'
import { useHref, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { ChoiceFilter, FilterBar, TextFilter } from '../ui/filters.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Id, PageLink, Status, Time } from '../ui/values.tsx'
import { AccountTable, CAUSE, pathOfAccount } from './account-table.tsx'
import { BANKS, bankOf, OPENINGS, openingOf, STATUSES } from './account-words.ts'
import { OpenAccount } from './open-account.tsx'
import { ResolveOpening } from './resolve-opening.tsx'

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
        <ChoiceFilter name="status" label="Status" choices={STATUSES} />
        <ChoiceFilter name="bank" label="Bank" choices={BANKS} />
        <ChoiceFilter name="opening" label="Opening" choices={OPENINGS} />
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
  const state = OPENINGS.find(({ value }) => value === opening)?.state
  const pages = useInfiniteQuery(
    AccountService.method.listAccounts,
    {
      businessId,
      live,
      pageSize: 50,
      pageToken: '',
      bank: bankOf(bank),
      status: STATUSES.find(({ value }) => value === status)?.status ?? AccountStatus.UNSPECIFIED,
      openingStates: state === undefined ? [] : [state],
    },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
  const arrivals = useArrivals(pages.refetch, ({ payload }) => payload.case === 'account')
  const accounts: readonly Account[] = pages.data?.pages.flatMap((page) => page.accounts) ?? []
  return (
    <ListFrame pages={pages} isEmpty={accounts.length === 0} empty={<NoAccounts />}>
      {arrivals}
      <AccountTable accounts={accounts} showsOpening={state !== undefined} />
    </ListFrame>
  )
}

function NoAccounts() {
  const { live, businessId } = useViewScope()
  const business = businessId === '' ? '' : ` --business ${businessId}`
  return (
    <Empty
      title="No accounts"
      command={`inflow account create${business} --reference order-1 --bank 9PSB --first-name Ada --last-name Obi --email ada@example.com --phone 08012345678${live ? '' : ' --test'}`}
    >
      Each customer of a business gets an account of their own. What is paid into it appears under
      Payments.
    </Empty>
  )
}

/** The accounts that a reference, a number, an id or an e-mail address belongs to. */
function FoundAccounts({ text }: { readonly text: string }) {
  const { live, businessId } = useViewScope()
  const transport = useTransport()
  const found = useQuery(OverviewService.method.search, { query: text, live, businessId })
  const results = found.data?.results.filter(({ kind }) => kind === ResultKind.ACCOUNT) ?? []
  const reads = useQueries({
    queries: results.map(({ businessId: owner, reference }) =>
      createQueryOptions(
        AccountService.method.getAccount,
        { businessId: owner, reference },
        { transport },
      ),
    ),
  })
  const error = found.error ?? reads.find((read) => read.error)?.error
  if (error) return <Failure error={error} onRetry={() => void found.refetch()} />
  if (found.isPending || reads.some(({ isPending }) => isPending)) return <Waiting rows={3} />
  const accounts = reads.flatMap(({ data }) => data?.account ?? [])
  if (accounts.length === 0) {
    return (
      <Empty title="No account has it">
        A reference, an account number, an id and an e-mail address must be whole.
      </Empty>
    )
  }
  return <AccountTable accounts={accounts} />
}

/** The most that are shown above the list; the filter shows them all. */
const OPENINGS_SHOWN_MAX = 10

/** The openings that did not succeed yet, with their cause and what an operator may do. Nothing if there are none. */
function PendingOpenings() {
  const { live, businessId } = useViewScope()
  const href = useHref()
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
        keyOf={({ id }) => id}
        hrefOf={(account) => href(pathOfAccount(account))}
      />
    </Section>
  )
}

const OPENING_COLUMNS: readonly Column<Account>[] = [
  {
    key: 'own',
    title: 'Own reference',
    render: ({ merchantReference }) => <Id text={merchantReference} charsMax={24} />,
  },
  { key: 'bank', title: 'Bank', render: ({ bankName }) => bankName },
  {
    key: 'state',
    title: 'Opening',
    render: ({ opening }) => <OpeningStatus state={opening?.state} />,
  },
  CAUSE,
  {
    key: 'attempts',
    title: 'Attempts',
    isNumber: true,
    render: ({ opening }) => opening?.attempts,
  },
  { key: 'next', title: 'Next try', render: ({ opening }) => <Time at={opening?.nextTryAt} /> },
  { key: 'created', title: 'Since', render: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'do', title: '', render: (account) => <ResolveOpening account={account} /> },
]

function OpeningStatus({ state }: { readonly state: OpeningState | undefined }) {
  const opening = openingOf(state)
  if (!opening) return null
  return (
    <span title={opening.says}>
      <Status tone={state === OpeningState.MANUAL_REVIEW ? 'bad' : 'waiting'}>
        {opening.label}
      </Status>
    </span>
  )
}
