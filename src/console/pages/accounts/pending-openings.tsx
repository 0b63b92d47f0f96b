import { useQuery } from '@connectrpc/connect-query'
import {
  type Account,
  AccountStatus,
  OpeningState,
} from '../../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import { useHref, useViewScope } from '../../session/view-scope.ts'
import { PageLink } from '../../ui/href.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Id, Time } from '../../ui/values.tsx'
import { CAUSE, pathOfAccount } from './account-table.tsx'
import { openingOf } from './account-words.ts'
import { ResolveOpening } from './resolve-opening.tsx'

/** The most that are shown above the list; the filter shows them all. */
const SHOWN_MAX = 10

/** The openings that did not succeed yet, with their cause and what an operator may do. Nothing if there are none. */
export function PendingOpenings() {
  const { live, businessId } = useViewScope()
  const href = useHref()
  const { data } = useQuery(AccountService.method.listAccounts, {
    businessId,
    live,
    status: AccountStatus.PENDING,
    pageSize: SHOWN_MAX,
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
        columns={COLUMNS}
        rows={accounts}
        keyOf={({ id }) => id}
        hrefOf={(account) => href(pathOfAccount(account))}
      />
    </Section>
  )
}

const COLUMNS: readonly Column<Account>[] = [
  {
    key: 'own',
    title: 'Own reference',
    render: ({ merchantReference }) => <Id text={merchantReference} charsMax={24} />,
  },
  { key: 'bank', title: 'Bank', render: ({ bankName }) => bankName },
  { key: 'state', title: 'Opening', render: ({ opening }) => <State state={opening?.state} /> },
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

function State({ state }: { readonly state: OpeningState | undefined }) {
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
