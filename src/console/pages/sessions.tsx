import { useInfiniteQuery } from '@connectrpc/connect-query'
import { CallerKind, type Session } from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useSession } from '../session/session.tsx'
import { useUrlState } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { ChoiceFilter, FilterBar } from '../ui/filters.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty } from '../ui/page.tsx'
import { Status, Time } from '../ui/values.tsx'

const STATES = [{ value: 'all', label: 'Active and ended' }]

/** The browsers that are signed in to the console. */
export function Sessions() {
  const { sessionId } = useSession()
  const [state] = useUrlState('state')
  const pages = useInfiniteQuery(
    SessionService.method.listSessions,
    { activeOnly: state !== 'all', pageSize: 50, pageToken: '' },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
  const sessions = pages.data?.pages.flatMap((page) => page.sessions) ?? []
  const nameOf = useBusinessNames(sessions.flatMap(({ businessIds }) => businessIds))
  return (
    <>
      <FilterBar>
        <ChoiceFilter name="state" label="State" choices={STATES} any="Active" />
      </FilterBar>
      <ListFrame
        pages={pages}
        isEmpty={sessions.length === 0}
        empty={<Empty title="No sessions">Browsers that sign in to the console appear here.</Empty>}
      >
        <Table
          label="Sessions"
          columns={columnsOf(sessionId, nameOf)}
          rows={sessions}
          keyOf={({ id }) => id}
        />
      </ListFrame>
    </>
  )
}

const KINDS: ReadonlyMap<CallerKind, string> = new Map([
  [CallerKind.TOKEN, 'Token'],
  [CallerKind.ADMIN_TOKEN, 'ADMIN_TOKEN'],
  [CallerKind.OIDC, 'OpenID Connect'],
  [CallerKind.PORTAL_LINK, 'Portal link'],
])

function columnsOf(sessionId: string, nameOf: (businessId: string) => string): Column<Session>[] {
  return [
    {
      key: 'name',
      title: 'Who',
      render: ({ id, name, callerId }) => (
        <span title={callerId}>
          {name} {id === sessionId && <span className="faint">this browser</span>}
        </span>
      ),
    },
    { key: 'kind', title: 'Signed in with', render: ({ kind }) => KINDS.get(kind) },
    {
      key: 'state',
      title: 'State',
      render: ({ active, revokedAt }) =>
        active ? (
          <Status tone="good">Active</Status>
        ) : (
          <Status tone="neutral">{revokedAt ? 'Ended' : 'Expired'}</Status>
        ),
    },
    {
      key: 'scopes',
      title: 'May',
      render: ({ scopes }) => <span className="scopes">{scopes.join(', ')}</span>,
    },
    {
      key: 'businesses',
      title: 'Restricted to',
      render: ({ businessIds }) =>
        businessIds.length === 0 ? 'Not restricted' : businessIds.map(nameOf).join(', '),
    },
    { key: 'address', title: 'From', render: ({ address }) => <code>{address}</code> },
    { key: 'used', title: 'Last used', render: ({ lastUsedAt }) => <Time at={lastUsedAt} /> },
    { key: 'created', title: 'Began', render: ({ createdAt }) => <Time at={createdAt} /> },
    { key: 'expires', title: 'Ends', render: ({ expiresAt }) => <Time at={expiresAt} /> },
    {
      key: 'do',
      title: '',
      render: (session) => session.active && <Revoke session={session} />,
    },
  ]
}

function Revoke({ session: { id } }: { readonly session: Session }) {
  return (
    <Action
      method={SessionService.method.revokeSession}
      label="Revoke"
      kind="danger"
      target={id}
      says="The browser is signed out within a second."
      request={() => ({ sessionId: id })}
      onClosed={() => {}}
    />
  )
}
