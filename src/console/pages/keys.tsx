import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { useInfiniteQuery } from '@connectrpc/connect-query'
import type { Key } from '../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { HOUR, msOf } from '../format/time.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { AreaField, ChecksField, TextField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Section } from '../ui/page.tsx'
import { Status, Time } from '../ui/values.tsx'

type KeyPages = ReturnType<typeof useKeys>

export function useKeys(businessId: string) {
  return useInfiniteQuery(
    BusinessService.method.listKeys,
    { businessId, pageSize: 50, pageToken: '' },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
}

/** The secret keys of a business in the mode that is shown: those that still work come first. */
export function Keys({
  businessId,
  pages,
}: {
  readonly businessId: string
  readonly pages: KeyPages
}) {
  const { live } = useViewScope()
  const all = pages.data?.pages.flatMap((page) => page.keys) ?? []
  const keys = all.filter((key) => key.live === live)
  const rows = keys.toSorted((a, b) => Number(isActive(b)) - Number(isActive(a)))
  return (
    <Section title="Secret keys" actions={<IssueKey businessId={businessId} />}>
      <ListFrame
        pages={pages}
        isEmpty={rows.length === 0}
        empty={
          <Empty
            title={`No keys for ${live ? 'live' : 'test'} mode`}
            command={`inflow key issue --business ${businessId}${live ? '' : ' --test'}`}
          >
            The business calls the API with a secret key.
          </Empty>
        }
      >
        <Table label="Secret keys" columns={COLUMNS} rows={rows} keyOf={({ id }) => id} />
      </ListFrame>
    </Section>
  )
}

/** Whether a key may still be used. */
function isActive({ revokedAt, expiresAt }: Key): boolean {
  const expiresAtMs = msOf(expiresAt)
  return revokedAt === undefined && (expiresAtMs === undefined || expiresAtMs > Date.now())
}

const COLUMNS: readonly Column<Key>[] = [
  { key: 'prefix', title: 'Key', render: ({ prefix, id }) => <code title={id}>{prefix}…</code> },
  { key: 'state', title: 'State', render: (key) => <KeyState of={key} /> },
  {
    key: 'scopes',
    title: 'May',
    render: ({ scopes }) => (
      <span className="scopes">{scopes.join(', ') || 'what keys without scopes may'}</span>
    ),
  },
  {
    key: 'addresses',
    title: 'From',
    render: ({ allowedCidrs }) => (
      <span className="scopes">{allowedCidrs.join(', ') || 'anywhere'}</span>
    ),
  },
  {
    key: 'used',
    title: 'Last used',
    render: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} /> : 'Never'),
  },
  { key: 'created', title: 'Issued', render: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'do', title: '', render: (key) => isActive(key) && <KeyActions of={key} /> },
]

function KeyState({ of }: { readonly of: Key }) {
  const { revokedAt, expiresAt } = of
  if (revokedAt) return <Status tone="neutral">Revoked</Status>
  if (!isActive(of)) return <Status tone="neutral">Expired</Status>
  return (
    <>
      <Status tone="good">Active</Status>
      {expiresAt && (
        <span className="faint">
          {' until '}
          <Time at={expiresAt} />
        </span>
      )}
    </>
  )
}

const METHODS = BusinessService.method

const SCOPES = [
  'accounts:read',
  'accounts:create',
  'accounts:write',
  'payments:read',
  'payments:decide',
  'payments:requery',
  'payments:simulate',
  'events:read',
  'balances:read',
  'webhooks:read',
  'webhooks:write',
].map((value) => ({ value, label: value }))

const SECRET_NOTE = 'It is shown only now: Inflow stores a hash of it and cannot show it again.'

function IssueKey({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  return (
    <Action
      method={METHODS.issueKey}
      label="Issue key"
      icon="plus"
      target={({ key }) => key?.id ?? ''}
      says={
        live
          ? 'Issues a secret key for live mode.'
          : 'Issues a secret key for test mode: its accounts are simulated, and it sees nothing of live mode.'
      }
      request={(_reason, form) => {
        const expiresAt = form.time('expiresAt')
        return {
          businessId,
          test: !live,
          scopes: form.all('scopes'),
          allowedCidrs: form.lines('allowedCidrs'),
          ...(expiresAt && { expiresAt }),
        }
      }}
      result={({ key }) => (
        <p>
          Issued <code>{key?.id}</code>.
        </p>
      )}
      secret={({ secretKey }) => secretKey}
      secretNote={SECRET_NOTE}
    >
      <ChecksField
        name="scopes"
        label="What it may be used for"
        hint="None chosen: the methods that are open to keys without scopes."
        choices={SCOPES}
      />
      <Addresses values={[]} />
      <TextField name="expiresAt" label="Expires" hint="Empty: never." type="datetime-local" />
    </Action>
  )
}

function Addresses({ values }: { readonly values: readonly string[] }) {
  return (
    <AreaField
      name="allowedCidrs"
      label="Addresses that it is allowed from"
      placeholder={'203.0.113.0/24\n2001:db8::/32'}
      hint="One a line. Empty: anywhere."
      value={values.join('\n')}
    />
  )
}

/** What may be done with a key that still works. */
function KeyActions({ of: { id, allowedCidrs } }: { readonly of: Key }) {
  return (
    <span className="row-actions">
      <Action
        method={METHODS.updateKey}
        label="Addresses"
        target={id}
        says="Takes effect within a second."
        request={(_reason, form) => {
          const lines = form.lines('allowedCidrs')
          return {
            keyId: id,
            ...(lines.length > 0 ? { allowedCidrs: lines } : { anyAddress: true }),
          }
        }}
      >
        <Addresses values={allowedCidrs} />
      </Action>
      <Action
        method={METHODS.rotateKey}
        label="Rotate"
        target={id}
        says="Issues a key with the same mode, addresses and scopes. The replaced one stays valid for the overlap."
        request={(_reason, form) => ({
          keyId: id,
          overlap: durationFromMs(form.whole('overlap') * HOUR),
        })}
        result={({ key }) => (
          <p>
            Issued <code>{key?.id}</code> in its place.
          </p>
        )}
        secret={({ secretKey }) => secretKey}
        secretNote={SECRET_NOTE}
      >
        <TextField
          name="overlap"
          label="Overlap, in hours"
          type="number"
          min={0}
          max={720}
          value={24}
        />
      </Action>
      <Action
        method={METHODS.revokeKey}
        label="Revoke"
        kind="danger"
        target={id}
        says="It is refused within a second, for good. What uses it stops working."
        request={() => ({ keyId: id })}
        onClosed={() => {}}
      />
    </span>
  )
}
