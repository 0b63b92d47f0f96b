import { durationFromMs } from '@bufbuild/protobuf/wkt'
import type { Key } from '../../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../../gen/inflow/business/v1/business_service_pb.ts'
import { HOUR } from '../../format/time.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Action } from '../../ui/controls/action.tsx'
import { AreaField, ChecksField, TextField } from '../../ui/form/fields.tsx'

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

export function IssueKey({ businessId }: { readonly businessId: string }) {
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
export function KeyActions({ of: { id, allowedCidrs } }: { readonly of: Key }) {
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
