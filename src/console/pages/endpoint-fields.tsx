import { useQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import { EventAudience } from '../../../gen/inflow/type/v1/event_kind_pb.ts'
import type { ConfiguredOptions } from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import type { Endpoint } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { words } from '../format/ids.ts'
import { useMay } from '../session/session.tsx'
import type { Choice } from '../ui/filters.tsx'
import { AreaField, CheckField, ChecksField, SelectField, TextField } from '../ui/form.tsx'
import { authenticationText } from './options-text.ts'

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

const KEEP: Choice = { value: 'keep', label: 'Keep' }

/** Headers, authentication, certificate, rate and order. What is secret is kept, replaced or removed. */
function OptionFields({
  options,
  isNew,
}: {
  readonly options: ConfiguredOptions | undefined
  readonly isNew: boolean
}) {
  return (
    <details>
      <summary>Options: order, rate, headers, authentication, certificate</summary>
      <CheckField
        name="options.ordered"
        label="Send events strictly in their order, one at a time"
        isOn={options?.ordered ?? false}
      />
      <TextField
        name="options.rateLimit"
        label="Most requests a second"
        hint="0: no limit."
        type="number"
        min={0}
        max={1000}
        value={options?.rateLimit ?? 0}
      />
      <Headers names={options?.headerNames ?? []} isNew={isNew} />
      <Authentication options={options} isNew={isNew} />
      <Certificate subject={options?.clientCertificate?.subject ?? ''} isNew={isNew} />
    </details>
  )
}

function Headers({ names, isNew }: { readonly names: readonly string[]; readonly isNew: boolean }) {
  const canKeep = !isNew && names.length > 0
  const [change, setChange] = useState(canKeep ? 'keep' : 'replace')
  return (
    <>
      {canKeep && (
        <SelectField
          name="headersChange"
          label={`Headers: ${names.join(', ')}`}
          choices={[KEEP, { value: 'replace', label: 'Replace or remove' }]}
          onChoose={setChange}
        />
      )}
      {change === 'replace' && (
        <AreaField
          name="options.headers"
          label="Headers of every request"
          placeholder="x-tenant: ada"
          hint="One a line, name: value. They are encrypted, and not shown again."
        />
      )}
    </>
  )
}

const METHODS: readonly Choice[] = [
  { value: 'none', label: 'None' },
  { value: 'basic', label: 'User name and password' },
  { value: 'oauth2', label: 'OAuth 2.0 client credentials' },
]

function Authentication({
  options,
  isNew,
}: {
  readonly options: ConfiguredOptions | undefined
  readonly isNew: boolean
}) {
  const present = authenticationText(options)
  const canKeep = !isNew && present !== undefined
  const [method, setMethod] = useState(canKeep ? 'keep' : 'none')
  return (
    <>
      <SelectField
        name="authentication"
        label={canKeep ? `Authentication: ${present}` : 'Authentication'}
        choices={canKeep ? [KEEP, ...METHODS] : METHODS}
        onChoose={setMethod}
      />
      {method === 'basic' && <Basic />}
      {method === 'oauth2' && <OAuth2 />}
    </>
  )
}

const BASIC = 'options.authentication.basic'

function Basic() {
  return (
    <div className="fields">
      <TextField name={`${BASIC}.username`} label="User name" required maxLength={200} />
      <TextField
        name={`${BASIC}.password`}
        label="Password"
        type="password"
        required
        maxLength={500}
      />
    </div>
  )
}

const OAUTH2 = 'options.authentication.oauth2'

function OAuth2() {
  return (
    <>
      <TextField
        name={`${OAUTH2}.tokenUrl`}
        label="URL that issues tokens"
        type="url"
        required
        maxLength={2000}
      />
      <div className="fields">
        <TextField name={`${OAUTH2}.clientId`} label="Client id" required maxLength={200} />
        <TextField
          name={`${OAUTH2}.clientSecret`}
          label="Client secret"
          type="password"
          required
          maxLength={500}
        />
        <TextField name={`${OAUTH2}.scope`} label="Scope" maxLength={500} />
        <TextField name={`${OAUTH2}.audience`} label="Audience" maxLength={500} />
      </div>
      <CheckField name={`${OAUTH2}.credentialsInBody`} label="Send the credentials in the body" />
    </>
  )
}

const CERTIFICATE = 'options.clientCertificate'

function Certificate({ subject, isNew }: { readonly subject: string; readonly isNew: boolean }) {
  const canKeep = !isNew && subject !== ''
  const [change, setChange] = useState(canKeep ? 'keep' : 'none')
  const none = { value: 'none', label: 'None' }
  const replace = { value: 'replace', label: 'A certificate for mutual TLS' }
  return (
    <>
      <SelectField
        name="certificate"
        label={canKeep ? `Client certificate: ${subject}` : 'Client certificate'}
        choices={canKeep ? [KEEP, none, replace] : [none, replace]}
        onChoose={setChange}
      />
      {change === 'replace' && (
        <>
          <AreaField
            name={`${CERTIFICATE}.certificatePem`}
            label="Certificate and its chain, PEM"
            required
            maxLength={16_384}
          />
          <AreaField
            name={`${CERTIFICATE}.privateKeyPem`}
            label="Private key, PEM, not encrypted"
            required
            maxLength={8_192}
          />
        </>
      )}
    </>
  )
}
