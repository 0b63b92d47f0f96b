import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { TokenSchema } from '../../../gen/inflow/admin/v1/token_pb.ts'
import { type Key, KeySchema } from '../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import {
  CallerKindSchema,
  PortalLinkSchema,
  SessionSchema,
} from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { enumLabel } from '../format/enums.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useMay, useSession } from '../session/session.tsx'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Action, Revoke } from '../ui/action.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar } from '../ui/filters.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Section } from '../ui/page.tsx'
import { Dash, Status, Time } from '../ui/values.tsx'

interface Credential {
  readonly revokedAt?: Timestamp | undefined
  readonly expiresAt?: Timestamp | undefined
  readonly lastUsedAt?: Timestamp | undefined
}

function isActive({ revokedAt, expiresAt }: Credential): boolean {
  return revokedAt === undefined && (!expiresAt || timestampMs(expiresAt) > Date.now())
}

/** @param hasEnd whether the end has a column of its own */
function CredentialState({ of, hasEnd = false }: { of: Credential; hasEnd?: boolean }) {
  if (of.revokedAt) return <Status tone="neutral">Revoked</Status>
  if (!isActive(of)) return <Status tone="neutral">Expired</Status>
  if (hasEnd || !of.expiresAt) return <Status tone="good">Active</Status>
  return (
    <>
      <Status tone="good">Active</Status>
      <span className="faint">
        {' until '}
        <Time at={of.expiresAt} />
      </span>
    </>
  )
}

const lastUse = ({ lastUsedAt }: Credential) => (lastUsedAt ? <Time at={lastUsedAt} /> : 'Never')

const several = (texts: readonly string[], none = '') => (
  <span className="scopes">{texts.join(', ') || none}</span>
)

/** The note about a secret of which the service keeps a hash. */
export const HASHED = 'It is shown only now: Inflow stores a hash of it and cannot show it again.'

const KEYS = BusinessService.method

/** The secret keys of a business, which its page reads at the same time as the business. */
export function useKeys(businessId: string) {
  const request = { businessId, pageSize: 50 }
  return usePagedList(KEYS.listKeys, 'keys', request, { enabled: businessId !== '' })
}

/** The secret keys of a business in the shown mode, valid keys first. */
export function Keys({
  businessId,
  keys: { rows: all, pages },
}: {
  readonly businessId: string
  readonly keys: ReturnType<typeof useKeys>
}) {
  const { live } = useViewScope()
  const rows = all
    .filter((key) => key.live === live)
    .toSorted((a, b) => Number(isActive(b)) - Number(isActive(a)))
  return (
    <Section title="Secret keys" actions={<IssueKey businessId={businessId} />}>
      <List
        label="Secret keys"
        columns={KEY_COLUMNS}
        of={{ rows, pages }}
        empty={
          <Empty
            title={`No keys for ${live ? 'live' : 'test'} mode`}
            command={`inflow key issue --business ${businessId}${live ? '' : ' --test'}`}
          >
            The business calls the API with a secret key.
          </Empty>
        }
      />
    </Section>
  )
}

const KEY_COLUMNS = columnsOf(KeySchema, [
  ['Key', ({ prefix, id }) => <code title={id}>{prefix}…</code>],
  ['State', (key) => <CredentialState of={key} />],
  ['May', ({ scopes }) => several(scopes, 'call methods for keys without scopes')],
  ['From', ({ allowedCidrs }) => several(allowedCidrs, 'anywhere')],
  ['Last used', lastUse],
  ['Issued', 'createdAt'],
  ['', (key) => isActive(key) && <KeyActions of={key} />],
])

const ADDRESSES = {
  label: 'Addresses that it is allowed from',
  placeholder: '203.0.113.0/24\n2001:db8::/32',
  hint: 'One per line. Empty: anywhere. A key with the scope payouts needs at least one.',
}

function IssueKey({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  return (
    <Action
      method={KEYS.issueKey}
      label="Issue key"
      icon="plus"
      target={({ key }) => key?.id ?? ''}
      says={
        live
          ? 'Issues a secret key for live mode.'
          : 'Issues a secret key for test mode: its accounts are simulated, and it sees nothing of live mode.'
      }
      request={{ businessId, test: !live }}
      fields={{
        scopes: {
          label: 'What it may be used for',
          hint: 'None chosen: the methods that are open to keys without scopes.',
        },
        allowedCidrs: ADDRESSES,
        expiresAt: { hint: 'Empty: never.' },
      }}
      result={({ key }) => (
        <p>
          Issued <code>{key?.id}</code>.
        </p>
      )}
      secret={({ secretKey }) => secretKey}
      secretNote={HASHED}
    />
  )
}

function KeyActions({ of: { id, allowedCidrs } }: { readonly of: Key }) {
  return (
    <span className="row-actions">
      <Action
        method={KEYS.updateKey}
        label="Addresses"
        target={id}
        says="Takes effect within a second."
        request={(_form, { allowedCidrs: lines = [] }) => ({
          keyId: id,
          anyAddress: lines.length === 0,
        })}
        fields={{ allowedCidrs: ADDRESSES }}
        values={{ allowedCidrs }}
      />
      <Action
        method={KEYS.rotateKey}
        label="Rotate"
        target={id}
        says="Issues a key with the same mode, addresses and scopes. The replaced one stays valid for the overlap."
        request={{ keyId: id }}
        fields={{ overlap: { min: 0, max: 720, value: 24 } }}
        result={({ key }) => (
          <p>
            Issued <code>{key?.id}</code> in its place.
          </p>
        )}
        secret={({ secretKey }) => secretKey}
        secretNote={HASHED}
      />
      <Revoke
        method={KEYS.revokeKey}
        target={id}
        says="It is refused within a second, for good. What uses it stops working."
        request={{ keyId: id }}
      />
    </span>
  )
}

const SESSIONS = SessionService.method

/** The portal links of a business, which its page reads at the same time as the business. */
export function usePortalLinks(businessId: string) {
  const enabled = useMay()(SESSIONS.listPortalLinks)
  const request = { businessId, pageSize: 20 }
  return usePagedList(SESSIONS.listPortalLinks, 'portalLinks', request, { enabled })
}

export function PortalLinks({
  title = 'Portal links',
  businessId,
  links,
}: {
  readonly title?: string
  readonly businessId: string
  readonly links: ReturnType<typeof usePortalLinks>
}) {
  return (
    <Section title={title} actions={<CreateLink businessId={businessId} />}>
      <List
        label="Portal links"
        columns={LINK_COLUMNS}
        of={links}
        empty={
          <Empty title="No links" command={`inflow portal link --business ${businessId} --ttl 24h`}>
            A link opens this console for the business: it sees its own data, and nothing else.
          </Empty>
        }
      />
    </Section>
  )
}

function mayText(scope: string): string {
  return LINK_SCOPES.find(({ value }) => value === scope)?.label.toLowerCase() ?? scope
}

const LINK_COLUMNS = columnsOf(PortalLinkSchema, [
  ['For', ({ description }) => description || <Dash />],
  ['State', (link) => <CredentialState of={link} hasEnd />],
  ['May', ({ scopes }) => <span className="sentence">{scopes.map(mayText).join('; ')}</span>],
  'expiresAt',
  ['Last opened', lastUse],
  'createdAt',
  'id',
  [
    '',
    (link) =>
      isActive(link) && (
        <Revoke
          method={SESSIONS.revokePortalLink}
          target={link.id}
          says="The link and every session that was begun with it end within a second."
          request={{ portalLinkId: link.id }}
        />
      ),
  ],
])

const TTLS = [
  { value: '1', label: 'An hour' },
  { value: '24', label: 'A day' },
  { value: '168', label: 'A week' },
  { value: '720', label: '30 days' },
]

const LINK_SCOPES = [
  { value: 'read', label: 'See its data' },
  { value: 'events:subscribe', label: 'See it as it happens' },
  { value: 'payments:write', label: 'Open and close accounts, decide on held payments' },
  { value: 'payments:reverse', label: 'Reverse payments' },
  { value: 'splits:write', label: 'Divide payments with approved recipients' },
  { value: 'payouts:write', label: 'Request payouts and refunds' },
  { value: 'payouts:approve', label: 'Approve payouts that others requested' },
  { value: 'webhooks:write', label: 'Manage webhooks: endpoints, secrets, retries, rehearsals' },
]

function CreateLink({ businessId }: { readonly businessId: string }) {
  return (
    <Action
      method={SESSIONS.createPortalLink}
      label="Create link"
      icon="plus"
      target={({ portalLink }) => portalLink?.id ?? ''}
      says="Whoever has the link sees this business in the console, and does what it allows, until it expires or is revoked."
      request={{ businessId }}
      fields={{
        description: 'For whom, or why',
        ttl: { choices: TTLS, value: '24' },
        scopes: {
          label: 'What it allows',
          choices: LINK_SCOPES,
          values: ['read', 'events:subscribe'],
          required: true,
        },
      }}
      result={() => <p>Send this link to the business:</p>}
      secret={({ urlPath }) => window.location.origin + urlPath}
      secretNote="It is shown only now, and may be opened repeatedly."
    />
  )
}

const STATES = [
  { value: 'active', label: 'Active' },
  { value: 'ended', label: 'Revoked or expired' },
]

export function Tokens() {
  const [state] = useUrlState('state')
  const tokens = usePagedList(AdminService.method.listTokens, 'tokens', {
    pageSize: 50,
    ...(state !== '' && { active: state === 'active' }),
  })
  const nameOf = useBusinessNames(tokens.rows.flatMap(({ businessIds }) => businessIds))
  return (
    <>
      <FilterBar>
        <ChoiceFilter name="state" label="State" choices={STATES} />
        <span className="filters-end">
          <IssueToken />
        </span>
      </FilterBar>
      <List
        label="Tokens"
        columns={tokenColumns(nameOf)}
        of={tokens}
        empty={
          <Empty title="No tokens" command="inflow token issue --name ledger --scope read">
            Services and operators call Inflow with tokens. A token can be restricted to businesses.
          </Empty>
        }
      />
    </>
  )
}

const tokenColumns = (nameOf: (businessId: string) => string) =>
  columnsOf(TokenSchema, [
    [
      'Name',
      ({ name, description }) => (
        <>
          {name} <span className="faint">{description}</span>
        </>
      ),
    ],
    ['Token', ({ prefix, id }) => <code title={id}>{prefix}…</code>],
    ['State', (token) => <CredentialState of={token} />],
    ['May', ({ scopes }) => several(scopes)],
    [
      'Restricted to',
      ({ businessIds }) => (
        <span title={businessIds.join('\n')}>
          {several(businessIds.map(nameOf), 'Not restricted')}
        </span>
      ),
    ],
    ['Last used', lastUse],
    ['Issued', 'createdAt'],
    [
      '',
      (token) =>
        isActive(token) && (
          <Revoke
            method={AdminService.method.revokeToken}
            target={token.id}
            says={`The token of ${token.name} is refused within a second, and its streams end within two, for good.`}
            request={{ tokenId: token.id }}
          />
        ),
    ],
  ])

const TOKEN_SCOPES = [
  ...LINK_SCOPES.map(({ value }) => ({ value, label: value })),
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
      request={{}}
      fields={[
        { name: { placeholder: 'ledger' }, description: 'Purpose' },
        { scopes: { choices: TOKEN_SCOPES, values: ['read'] } },
        {
          businessIds: {
            label: 'Restricted to these businesses',
            placeholder: 'biz_…',
            hint: 'One a line. Empty: not restricted.',
          },
        },
        { expiresAt: { hint: 'Empty: never.' } },
      ]}
      result={({ token }) => (
        <p>
          Issued <code>{token?.id}</code> for {token?.name}.
        </p>
      )}
      secret={({ secret }) => secret}
      secretNote={HASHED}
    />
  )
}

const SESSION_STATES = [{ value: 'all', label: 'Active and ended' }]

export function Sessions() {
  const { sessionId } = useSession()
  const [state] = useUrlState('state')
  const request = { activeOnly: state !== 'all', pageSize: 50 }
  const sessions = usePagedList(SESSIONS.listSessions, 'sessions', request)
  const nameOf = useBusinessNames(sessions.rows.flatMap(({ businessIds }) => businessIds))
  return (
    <>
      <FilterBar>
        <ChoiceFilter name="state" label="State" choices={SESSION_STATES} any="Active" />
      </FilterBar>
      <List
        label="Sessions"
        columns={sessionColumns(sessionId, nameOf)}
        of={sessions}
        empty={<Empty title="No sessions">Browsers that sign in to the console appear here.</Empty>}
      />
    </>
  )
}

const sessionColumns = (own: string, nameOf: (businessId: string) => string) =>
  columnsOf(SessionSchema, [
    [
      'Who',
      ({ id, name, callerId }) => (
        <span title={callerId}>
          {name} {id === own && <span className="faint">this browser</span>}
        </span>
      ),
    ],
    ['Signed in with', ({ kind }) => enumLabel(CallerKindSchema, kind)],
    [
      'State',
      ({ active, revokedAt }) =>
        active ? (
          <Status tone="good">Active</Status>
        ) : (
          <Status tone="neutral">{revokedAt ? 'Ended' : 'Expired'}</Status>
        ),
    ],
    ['May', ({ scopes }) => several(scopes)],
    ['Restricted to', ({ businessIds }) => businessIds.map(nameOf).join(', ') || 'Not restricted'],
    ['From', ({ address }) => <code>{address}</code>],
    'lastUsedAt',
    ['Began', 'createdAt'],
    ['Ends', 'expiresAt'],
    [
      '',
      ({ id, active }) =>
        active && (
          <Revoke
            method={SESSIONS.revokeSession}
            target={id}
            says="The browser is signed out within a second."
            request={{ sessionId: id }}
          />
        ),
    ],
  ])
