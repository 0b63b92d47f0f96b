import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf'
import { useState } from 'react'
import { EventAudience } from '../../../gen/inflow/type/v1/event_kind_pb.ts'
import type {
  ConfiguredOptions,
  EndpointOptions,
  EndpointOptionsSchema,
} from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import { type Endpoint, LegacySignatureSchema } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  CreateEndpointRequestSchema,
  UpdateEndpointRequestSchema,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { type Choice, enumFieldChoices } from '../format/enums.ts'
import { words } from '../format/ids.ts'
import { useEventKinds } from '../session/event-kinds.ts'
import { AreaField, SelectField } from '../ui/fields.tsx'
import { type FieldSpecs, Fields, type FormValues, pairOf } from '../ui/form.tsx'

/** The fields of an endpoint. @param endpoint the endpoint to change; undefined: a new endpoint */
export function EndpointFields({ endpoint }: { readonly endpoint?: Endpoint }) {
  const of: DescMessage = endpoint ? UpdateEndpointRequestSchema : CreateEndpointRequestSchema
  const options = endpoint?.options
  const values = endpoint ?? { url: '', concurrency: 10, options: { rateLimit: 0 } }
  return (
    <>
      <Fields
        of={of}
        values={values}
        show={{ url: { placeholder: 'https://example.com/webhooks', required: true } }}
      />
      <KindsField of={of} kinds={endpoint?.kinds ?? []} />
      <Fields of={of} values={values} show={LIMITS} />
      <details>
        <summary>Options: order, rate, headers, authentication, certificate</summary>
        <Fields of={of} values={values} show={ORDER} />
        <Headers names={options?.headerNames ?? []} />
        <Authentication of={of} options={options} />
        <Certificate of={of} subject={options?.clientCertificate?.subject ?? ''} />
      </details>
    </>
  )
}

const LIMITS: FieldSpecs = [
  { description: '', concurrency: { hint: 'Requests at once, of each instance.', min: 1 } },
]

const ORDER: FieldSpecs = {
  'options.ordered': 'Send events strictly in their order, one at a time',
  'options.rateLimit': { label: 'Most requests a second', hint: '0: no limit.' },
}

function KindsField({ of, kinds }: { of: DescMessage; kinds: readonly string[] }) {
  const choices = useEventKinds()
    ?.filter(
      ({ audience }) =>
        audience === EventAudience.ENDPOINTS || audience === EventAudience.ON_REQUEST,
    )
    .map(({ kind }) => ({ value: kind, label: words(kind) }))
  // Until the kinds are known, hidden fields keep the chosen ones.
  if (choices === undefined) {
    return kinds.map((kind) => <input key={kind} type="hidden" name="kinds" value={kind} />)
  }
  const hint =
    'None chosen: all of them, but for account created; in the wiaxy profile, payment notification alone.'
  return (
    <Fields of={of} show={{ kinds: { label: 'Kinds of events', hint, choices, values: kinds } }} />
  )
}

const KEEP: Choice = { value: 'keep', label: 'Keep' }

/** The fields of secret headers, which are kept, replaced or removed. */
function Headers({ names }: { readonly names: readonly string[] }) {
  const canKeep = names.length > 0
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
          hint="One per line, name: value. They are encrypted, and not shown again."
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

/** Describes how requests authenticate; undefined: they do not. */
export function authenticationText(options: ConfiguredOptions | undefined): string | undefined {
  const authentication = options?.authentication
  if (authentication?.case === 'basicUsername') return `as ${authentication.value} (basic)`
  if (authentication?.case === 'oauth2') return `OAuth 2.0 as ${authentication.value.clientId}`
  return undefined
}

function Authentication({
  of,
  options,
}: {
  readonly of: DescMessage
  readonly options: ConfiguredOptions | undefined
}) {
  const present = authenticationText(options)
  const canKeep = present !== undefined
  const [method, setMethod] = useState(canKeep ? 'keep' : 'none')
  return (
    <>
      <SelectField
        name="authentication"
        label={canKeep ? `Authentication: ${present}` : 'Authentication'}
        choices={canKeep ? [KEEP, ...METHODS] : METHODS}
        onChoose={setMethod}
      />
      {method === 'basic' && <Fields of={of} show={BASIC} />}
      {method === 'oauth2' && <Fields of={of} show={OAUTH2} />}
    </>
  )
}

const required = { required: true }

const BASIC: FieldSpecs = [
  {
    'options.authentication.basic.username': required,
    'options.authentication.basic.password': required,
  },
]

const OAUTH2: FieldSpecs = [
  { 'options.authentication.oauth2.tokenUrl': required },
  {
    'options.authentication.oauth2.clientId': required,
    'options.authentication.oauth2.clientSecret': required,
    'options.authentication.oauth2.scope': '',
    'options.authentication.oauth2.audience': '',
  },
  { 'options.authentication.oauth2.credentialsInBody': 'Send the credentials in the body' },
]

function Certificate({ of, subject }: { readonly of: DescMessage; readonly subject: string }) {
  const canKeep = subject !== ''
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
      {change === 'replace' && <Fields of={of} show={CERTIFICATE} />}
    </>
  )
}

const CERTIFICATE: FieldSpecs = {
  'options.clientCertificate.certificatePem': {
    label: 'Certificate and its chain, PEM',
    required: true,
    rows: 3,
  },
  'options.clientCertificate.privateKeyPem': {
    label: 'Private key, PEM, not encrypted',
    required: true,
    rows: 3,
  },
}

/** The options that a form changes; options that it keeps are absent. */
export function readOptions(
  form: FormValues,
  read: EndpointOptions | undefined,
): MessageInitShape<typeof EndpointOptionsSchema> {
  const headers = form.lines('options.headers').map((line) => {
    const [name, value] = pairOf(line, ':')
    return { name, value }
  })
  return {
    ...read,
    ...(form.text('headersChange') !== 'keep' && { headers: { headers } }),
    ...(form.text('authentication') === 'none' && { authentication: {} }),
    ...(form.text('certificate') === 'none' && { clientCertificate: {} }),
  } as MessageInitShape<typeof EndpointOptionsSchema>
}

/** The fields for the format and signature of requests to a new endpoint. */
export function ProfileFields() {
  const [profile, setProfile] = useState('STANDARD')
  const choices = [
    { value: 'STANDARD', label: 'Standard Webhooks' },
    { value: 'WIAXY', label: 'wiaxy, for an existing receiver' },
  ]
  return (
    <>
      <Fields
        of={CreateEndpointRequestSchema}
        show={{ profile: { choices, onChoose: setProfile, value: profile } }}
      />
      {profile === 'WIAXY' && (
        <>
          <Fields of={CreateEndpointRequestSchema} show={{ textSecret: TEXT_SECRET }} />
          <FormatFields of={CreateEndpointRequestSchema} />
        </>
      )}
    </>
  )
}

export const TEXT_SECRET = {
  hint: 'The secret key that the receiver already has. It is encrypted, and not shown again. Empty: one is generated.',
}

const LEGACY_SIGNATURES = [{ value: '', label: 'None' }, ...enumFieldChoices(LegacySignatureSchema)]

/** The fields of the wiaxy profile that can be changed. @param endpoint the endpoint to change; undefined: a new endpoint */
export function FormatFields({ of, endpoint = {} }: { of: DescMessage; endpoint?: object }) {
  return (
    <Fields
      of={of}
      values={endpoint}
      show={{
        legacySignature: { label: 'Signature of earlier receivers', choices: LEGACY_SIGNATURES },
        eventName: { hint: 'What bodies call PAYMENT_NOTIFICATION. Empty: just that.' },
        payerAsArray: 'Send the payer as an array of one',
      }}
    />
  )
}
