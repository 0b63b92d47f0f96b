import { useInfiniteQuery } from '@connectrpc/connect-query'
import { type Account, AccountStatus } from '../../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import { useArrivals } from '../../live/arrivals.tsx'
import { useUrlState, useViewScope } from '../../session/view-scope.ts'
import { ChoiceFilter, FilterBar, TextFilter } from '../../ui/controls/filters.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { Page } from '../../ui/page.tsx'
import { AccountTable } from './account-table.tsx'
import { BANKS, bankOf, OPENINGS, STATUSES } from './account-words.ts'
import { FoundAccounts } from './found-accounts.tsx'
import { OpenAccount } from './open-account.tsx'
import { PendingOpenings } from './pending-openings.tsx'
import '../../styles/accounts.css'

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
