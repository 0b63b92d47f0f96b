import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { useLocation } from 'wouter'
import {
  type Endpoint,
  EndpointProfile,
  EndpointStatus,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { count } from '../format/money.ts'
import { DAY, HOUR, localField } from '../format/time.ts'
import { useHref } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { TextField } from '../ui/form.tsx'
import { PageLink } from '../ui/values.tsx'
import { EndpointFields } from './endpoint-fields.tsx'
import { FormatFields, readFormat, TextSecretField } from './format-fields.tsx'
import { readOptions } from './options-text.ts'
import { Rehearse } from './rehearse.tsx'

const METHODS = WebhookService.method

/** What may be done with an endpoint. */
export function EndpointActions({ endpoint }: { readonly endpoint: Endpoint }) {
  const isEnabled = endpoint.status === EndpointStatus.ENABLED
  return (
    <>
      {isEnabled && <SendTest endpoint={endpoint} />}
      <Rehearse endpoint={endpoint} />
      {isEnabled && <Recover endpoint={endpoint} />}
      <Edit endpoint={endpoint} />
      {isWiaxy(endpoint) ? <RotateText endpoint={endpoint} /> : <Rotate endpoint={endpoint} />}
      {isWiaxy(endpoint) && <SwitchText endpoint={endpoint} />}
      <Switch endpoint={endpoint} isEnabled={isEnabled} />
      <Delete endpoint={endpoint} />
    </>
  )
}

interface Props {
  readonly endpoint: Endpoint
}

function SendTest({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.sendTestEvent}
      label="Send test"
      target={id}
      says="An event of kind ENDPOINT_TEST is recorded and sent to this endpoint only, like any other event."
      request={() => ({ endpointId: id })}
      result={({ eventId }) => (
        <p>
          Recorded <PageLink to={`/events/${eventId}`}>{eventId}</PageLink>. Its delivery appears in
          the list.
        </p>
      )}
    />
  )
}

function Recover({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.recover}
      label="Recover"
      target={id}
      says="All deliveries since a time that failed, or wait for a retry, are sent again at once."
      request={(_reason, form) => ({
        endpointId: id,
        since: form.time('since') ?? timestampFromMs(Date.now() - DAY),
      })}
      result={({ recovered }) => <p>{count(recovered)} deliveries are sent again.</p>}
    >
      <TextField
        name="since"
        label="Since"
        type="datetime-local"
        required
        value={localField(Date.now() - DAY)}
      />
    </Action>
  )
}

function Edit({ endpoint }: Props) {
  const { id } = endpoint
  return (
    <Action
      method={METHODS.updateEndpoint}
      label="Edit"
      target={id}
      says="Pending deliveries are sent to a new URL too. Headers and authentication belong to the URL's origin: state them again with another one."
      request={(_reason, form) => {
        const kinds = form.all('kinds')
        const url = form.text('url')
        return {
          endpointId: id,
          ...(url !== endpoint.url && { url }),
          ...(kinds.length > 0 ? { kinds } : { allKinds: true }),
          description: form.text('description'),
          concurrency: form.whole('concurrency'),
          options: readOptions(form),
          ...(isWiaxy(endpoint) && readFormat(form)),
        }
      }}
    >
      <EndpointFields endpoint={endpoint} />
      {isWiaxy(endpoint) && <FormatFields endpoint={endpoint} />}
    </Action>
  )
}

const isWiaxy = ({ profile }: Endpoint) => profile === EndpointProfile.WIAXY

function RotateText({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.rotateSecret}
      label="Rotate text"
      target={id}
      says="Adds a new text. It signs only test events until you switch to it: send a test event first."
      request={(_reason, form) => ({ endpointId: id, textSecret: form.text('textSecret') })}
      result={({ secret }) => (
        <p>
          {secret
            ? 'The receiver verifies test events with this text:'
            : 'The new text signs test events.'}
        </p>
      )}
      secret={({ secret }) => secret || undefined}
    >
      <TextSecretField />
    </Action>
  )
}

function SwitchText({ endpoint: { id, secrets } }: Props) {
  return (
    <Action
      method={METHODS.switchSecret}
      label="Switch text"
      kind="danger"
      target={id}
      isOffered={secrets.some(({ next }) => next)}
      says="Only the new text signs from now on: a receiver with the one before refuses events."
      request={() => ({ endpointId: id })}
    />
  )
}

function Rotate({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.rotateSecret}
      label="Rotate secret"
      target={id}
      says="Creates a new signing secret. The earlier ones also sign during the overlap, so that the receiver can switch."
      request={(_reason, form) => ({
        endpointId: id,
        overlap: durationFromMs(form.whole('overlap') * HOUR),
      })}
      result={() => <p>The receiver verifies signatures with this secret from now on:</p>}
      secret={({ secret }) => secret}
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
  )
}

function Switch({ endpoint: { id }, isEnabled }: Props & { readonly isEnabled: boolean }) {
  return (
    <Action
      key={String(isEnabled)}
      method={METHODS.updateEndpoint}
      label={isEnabled ? 'Disable' : 'Enable'}
      {...(isEnabled && { kind: 'danger' as const })}
      target={id}
      says={
        isEnabled
          ? 'Its deliveries are paused for as long as retries last, and then fail. Later events get no deliveries until it is enabled.'
          : 'Its paused deliveries are sent now, and its failure history is reset. Recover sends again what failed meanwhile.'
      }
      request={() => ({ endpointId: id, enabled: !isEnabled })}
      onClosed={() => {}}
    />
  )
}

function Delete({ endpoint: { id } }: Props) {
  const [, navigate] = useLocation()
  const href = useHref()
  return (
    <Action
      method={METHODS.deleteEndpoint}
      label="Delete"
      kind="danger"
      target={id}
      says="Its pending deliveries are dropped. This cannot be undone."
      request={() => ({ endpointId: id })}
      onClosed={() => navigate(href('/webhooks'))}
    />
  )
}
