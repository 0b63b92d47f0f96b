import type { EndpointProfile } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Action } from '../../ui/controls/action.tsx'
import { BusinessField } from '../../ui/form/business-field.tsx'
import { EndpointFields } from './endpoint-fields.tsx'
import { ProfileFields, readFormat } from './format-fields.tsx'
import { readOptions } from './options-text.ts'

export function CreateEndpoint() {
  const { live } = useViewScope()
  return (
    <Action
      method={WebhookService.method.createEndpoint}
      label="Create endpoint"
      kind="primary"
      icon="plus"
      says={`It receives the events of ${live ? 'live' : 'test'} mode that are recorded from now on.`}
      target={({ endpoint }) => endpoint?.id ?? ''}
      request={(_reason, form) => ({
        businessId: form.text('businessId'),
        url: form.text('url'),
        kinds: form.all('kinds'),
        description: form.text('description'),
        concurrency: form.whole('concurrency'),
        test: !live,
        options: readOptions(form),
        ...readFormat(form),
        profile: form.whole('profile') as EndpointProfile,
        textSecret: form.text('textSecret'),
      })}
      result={({ endpoint, secret }) => (
        <p>
          Created <code>{endpoint?.id}</code>.{' '}
          {secret && 'The receiver verifies signatures with this secret:'}
        </p>
      )}
      secret={({ secret }) => secret || undefined}
    >
      <BusinessField />
      <ProfileFields />
      <EndpointFields />
    </Action>
  )
}
