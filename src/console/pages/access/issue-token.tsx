import { AdminService } from '../../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { Action } from '../../ui/controls/action.tsx'
import { AreaField, ChecksField, TextField } from '../../ui/form/fields.tsx'

const SCOPES = [
  { value: 'read', label: 'read' },
  { value: 'events:subscribe', label: 'events:subscribe' },
  { value: 'payments:write', label: 'payments:write' },
  { value: 'payments:reverse', label: 'payments:reverse' },
  { value: 'splits:write', label: 'splits:write' },
  { value: 'admin', label: 'admin (everything)' },
]

export function IssueToken() {
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
