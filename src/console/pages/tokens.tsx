import { useInfiniteQuery } from '@connectrpc/connect-query'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { Token } from '../../../gen/inflow/admin/v1/token_pb.ts'
import { msOf } from '../format/time.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useUrlState } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { ChoiceFilter, FilterBar } from '../ui/filters.tsx'
import { AreaField, ChecksField, TextField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty } from '../ui/page.tsx'
import { Status, Time } from '../ui/values.tsx'

const STATES = [
  { value: 'active', label: 'Active' },
  { value: 'ended', label: 'Revoked or expired' },
]

/** The tokens of services and operators. */
export function Tokens() {
  const [state] = useUrlState('state')
  const pages = useInfiniteQuery(
    AdminService.method.listTokens,
    { pageSize: 50, pageToken: '', ...(state !== '' && { active: state === 'active' }) },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
  const tokens = pages.data?.pages.flatMap((page) => page.tokens) ?? []
  const nameOf = useBusinessNames(tokens.flatMap(({ businessIds }) => businessIds))
  return (
    <>
      <FilterBar>
        <ChoiceFilter name="state" label="State" choices={STATES} />
        <span className="filters-end">
          <IssueToken />
        </span>
      </FilterBar>
      <ListFrame
        pages={pages}
        isEmpty={tokens.length === 0}
        empty={
          <Empty title="No tokens" command="inflow token issue --name ledger --scope read">
            Services and operators call Inflow with tokens. A token can be restricted to businesses.
          </Empty>
        }
      >
        <Table label="Tokens" columns={columnsOf(nameOf)} rows={tokens} keyOf={({ id }) => id} />
      </ListFrame>
    </>
  )
}

function isActive({ revokedAt, expiresAt }: Token): boolean {
  const expiresAtMs = msOf(expiresAt)
  return revokedAt === undefined && (expiresAtMs === undefined || expiresAtMs > Date.now())
}

function columnsOf(nameOf: (businessId: string) => string): Column<Token>[] {
  return [
    {
      key: 'name',
      title: 'Name',
      render: ({ name, description }) => (
        <>
          {name} <span className="faint">{description}</span>
        </>
      ),
    },
    {
      key: 'prefix',
      title: 'Token',
      render: ({ prefix, id }) => <code title={id}>{prefix}…</code>,
    },
    { key: 'state', title: 'State', render: (token) => <TokenState token={token} /> },
    {
      key: 'scopes',
      title: 'May',
      render: ({ scopes }) => <span className="scopes">{scopes.join(', ')}</span>,
    },
    {
      key: 'businesses',
      title: 'Restricted to',
      render: ({ businessIds }) => (
        <span className="scopes" title={businessIds.join('\n')}>
          {businessIds.length === 0 ? 'Not restricted' : businessIds.map(nameOf).join(', ')}
        </span>
      ),
    },
    {
      key: 'used',
      title: 'Last used',
      render: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} /> : 'Never'),
    },
    { key: 'created', title: 'Issued', render: ({ createdAt }) => <Time at={createdAt} /> },
    { key: 'do', title: '', render: (token) => isActive(token) && <Revoke token={token} /> },
  ]
}

function TokenState({ token }: { readonly token: Token }) {
  if (token.revokedAt) return <Status tone="neutral">Revoked</Status>
  if (!isActive(token)) return <Status tone="neutral">Expired</Status>
  return (
    <>
      <Status tone="good">Active</Status>
      {token.expiresAt && (
        <span className="faint">
          {' until '}
          <Time at={token.expiresAt} />
        </span>
      )}
    </>
  )
}

function Revoke({ token: { id, name } }: { readonly token: Token }) {
  return (
    <Action
      method={AdminService.method.revokeToken}
      label="Revoke"
      kind="danger"
      target={id}
      says={`The token of ${name} is refused within a second, and its streams end within two, for good.`}
      request={() => ({ tokenId: id })}
      onClosed={() => {}}
    />
  )
}

const SCOPES = [
  { value: 'read', label: 'read' },
  { value: 'events:subscribe', label: 'events:subscribe' },
  { value: 'payments:write', label: 'payments:write' },
  { value: 'payments:reverse', label: 'payments:reverse' },
  { value: 'splits:write', label: 'splits:write' },
  { value: 'admin', label: 'admin (everything)' },
]

function IssueToken() {
  return (
    <Action
      method={AdminService.method.issueToken}
      label="Issue token"
      kind="primary"
      icon="plus"
      target={({ token }) => token?.id ?? ''}
      says="For a service or an operator. It also signs in to this console."
      request={(_reason, form) => {
        const expiresAt = form.time('expiresAt')
        return {
          name: form.text('name'),
          description: form.text('description'),
          scopes: form.all('scopes'),
          businessIds: form.lines('businessIds'),
          ...(expiresAt && { expiresAt }),
        }
      }}
      result={({ token }) => (
        <p>
          Issued <code>{token?.id}</code> for {token?.name}.
        </p>
      )}
      secret={({ secret }) => secret}
      secretNote="It is shown only now: Inflow stores a hash of it and cannot show it again."
    >
      <div className="fields">
        <TextField name="name" label="Name" required maxLength={100} placeholder="ledger" />
        <TextField name="description" label="Purpose" maxLength={200} />
      </div>
      <ChecksField name="scopes" label="Scopes" choices={SCOPES} values={['read']} required />
      <AreaField
        name="businessIds"
        label="Restricted to these businesses"
        placeholder="biz_…"
        hint="One a line. Empty: not restricted."
      />
      <TextField name="expiresAt" label="Expires" hint="Empty: never." type="datetime-local" />
    </Action>
  )
}
