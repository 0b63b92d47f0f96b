import { useInfiniteQuery } from '@connectrpc/connect-query'
import { Redirect } from 'wouter'
import type { Business } from '../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { useSession } from '../session/session.tsx'
import { useHref, useUrlState } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { FilterBar, TextFilter } from '../ui/filters.tsx'
import { TextField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Id, PageLink, Time } from '../ui/values.tsx'
import { rateText } from './business-page.tsx'

/** The businesses that the caller may see; of one business, its own page. */
export function BusinessesPage() {
  const { businessIds } = useSession()
  const href = useHref()
  const [only] = businessIds
  if (businessIds.length === 1) return <Redirect to={href(`/businesses/${only}`)} replace />
  return (
    <Page title="Businesses" actions={<CreateBusiness />} isWide>
      <FilterBar>
        <TextFilter name="find" label="Name, alias or id" />
      </FilterBar>
      <BusinessList />
    </Page>
  )
}

function BusinessList() {
  const [query] = useUrlState('find')
  const href = useHref()
  const pages = useInfiniteQuery(
    BusinessService.method.listBusinesses,
    { query, pageSize: query === '' ? 50 : 200, pageToken: '' },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
  const businesses = pages.data?.pages.flatMap((page) => page.businesses) ?? []
  return (
    <ListFrame
      pages={pages}
      isEmpty={businesses.length === 0}
      empty={
        query === '' ? (
          <Empty title="No businesses" command="inflow business create --name 'Ada Stores'">
            A business opens accounts for its customers, and receives events about their payments.
          </Empty>
        ) : (
          <Empty title="None begins with that">
            The name, the alias and the id are compared from their beginning.
          </Empty>
        )
      }
    >
      <Table
        label="Businesses"
        columns={COLUMNS}
        rows={businesses}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => href(`/businesses/${id}`)}
      />
    </ListFrame>
  )
}

const COLUMNS: readonly Column<Business>[] = [
  { key: 'name', title: 'Name', render: ({ name }) => name },
  { key: 'alias', title: 'Prefix of account names', render: ({ alias }) => alias },
  { key: 'rate', title: 'Rate limit of each key', render: rateText },
  { key: 'created', title: 'Created', render: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'id', title: 'Id', render: ({ id }) => <Id text={id} charsMax={32} /> },
]

function CreateBusiness() {
  return (
    <Action
      method={BusinessService.method.createBusiness}
      label="Create business"
      kind="primary"
      icon="plus"
      target={({ business }) => business?.id ?? ''}
      says="Creates a business, and its first secret key for live mode."
      request={(_reason, form) => ({ name: form.text('name'), alias: form.text('alias') })}
      result={({ business }) =>
        business && (
          <p>
            Created <PageLink to={`/businesses/${business.id}`}>{business.name}</PageLink>. It calls
            the API with this secret key:
          </p>
        )
      }
      secret={({ secretKey }) => secretKey}
      secretNote="It is shown only now: Inflow stores a hash of it and cannot show it again."
    >
      <TextField name="name" label="Name" required maxLength={100} />
      <TextField
        name="alias"
        label="Prefix of account names"
        maxLength={40}
        hint="Empty: the name, shortened."
      />
    </Action>
  )
}
