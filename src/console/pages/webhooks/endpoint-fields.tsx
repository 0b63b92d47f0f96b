import { useQuery } from '@connectrpc/connect-query'
import { EventAudience } from '../../../../gen/inflow/type/v1/event_kind_pb.ts'
import type { Endpoint } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { words } from '../../format/ids.ts'
import { useMay } from '../../session/session.tsx'
import { ChecksField, TextField } from '../../ui/form/fields.tsx'
import { OptionFields } from './option-fields.tsx'

/** The fields of an endpoint. @param endpoint to change; undefined: a new one */
export function EndpointFields({ endpoint }: { readonly endpoint?: Endpoint }) {
  return (
    <>
      <TextField
        name="url"
        label="URL"
        type="url"
        required
        maxLength={2000}
        placeholder="https://example.com/webhooks"
        value={endpoint?.url ?? ''}
      />
      <KindsField kinds={endpoint?.kinds ?? []} />
      <div className="fields">
        <TextField
          name="description"
          label="Description"
          maxLength={200}
          value={endpoint?.description ?? ''}
        />
        <TextField
          name="concurrency"
          label="Concurrency"
          hint="Requests at once, of each instance."
          type="number"
          min={1}
          max={50}
          value={endpoint?.concurrency ?? 10}
        />
      </div>
      <OptionFields options={endpoint?.options} isNew={endpoint === undefined} />
    </>
  )
}

function KindsField({ kinds }: { readonly kinds: readonly string[] }) {
  const mayList = useMay()(WebhookService.method.listEventKinds)
  const { data } = useQuery(
    WebhookService.method.listEventKinds,
    {},
    { enabled: mayList, staleTime: Number.POSITIVE_INFINITY },
  )
  const choices = data?.kinds
    .filter(
      ({ audience }) =>
        audience === EventAudience.ENDPOINTS || audience === EventAudience.ON_REQUEST,
    )
    .map(({ kind }) => ({ value: kind, label: words(kind) }))
  // Until they are known, those that are chosen stay chosen.
  if (choices === undefined) {
    return kinds.map((kind) => <input key={kind} type="hidden" name="kinds" value={kind} />)
  }
  return (
    <ChecksField
      name="kinds"
      label="Kinds of events"
      hint="None chosen: all of them, but for account created; in the wiaxy profile, payment notification alone."
      choices={choices}
      values={kinds}
    />
  )
}
