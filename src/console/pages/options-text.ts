import type { MessageInitShape } from '@bufbuild/protobuf'
import type {
  AuthenticationSchema,
  ClientCertificateSchema,
  ConfiguredOptions,
  EndpointOptionsSchema,
} from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import type { FormValues } from '../ui/form.tsx'

/** How requests authenticate themselves, in words; undefined: not at all. */
export function authenticationText(options: ConfiguredOptions | undefined): string | undefined {
  const authentication = options?.authentication
  if (authentication?.case === 'basicUsername') return `as ${authentication.value} (basic)`
  if (authentication?.case === 'oauth2') return `OAuth 2.0 as ${authentication.value.clientId}`
  return undefined
}

/** The options that a form changes; what it keeps is absent. */
export function readOptions(form: FormValues): MessageInitShape<typeof EndpointOptionsSchema> {
  return {
    ordered: form.isOn('options.ordered'),
    rateLimit: form.whole('options.rateLimit'),
    ...(form.text('headersChange') !== 'keep' && { headers: { headers: readHeaders(form) } }),
    ...readAuthentication(form),
    ...readCertificate(form),
  }
}

function readHeaders(form: FormValues) {
  return form.lines('options.headers').map((line) => {
    const colon = line.indexOf(':')
    if (colon < 0) return { name: line, value: '' }
    return { name: line.slice(0, colon).trim(), value: line.slice(colon + 1).trim() }
  })
}

function readAuthentication(form: FormValues): {
  authentication?: MessageInitShape<typeof AuthenticationSchema>
} {
  const method = form.text('authentication')
  const of = (name: string) => form.text(`options.authentication.${method}.${name}`)
  if (method === 'none') return { authentication: {} }
  if (method === 'basic') {
    const value = { username: of('username'), password: of('password') }
    return { authentication: { method: { case: 'basic', value } } }
  }
  if (method !== 'oauth2') return {}
  const value = {
    tokenUrl: of('tokenUrl'),
    clientId: of('clientId'),
    clientSecret: of('clientSecret'),
    scope: of('scope'),
    audience: of('audience'),
    credentialsInBody: form.isOn('options.authentication.oauth2.credentialsInBody'),
  }
  return { authentication: { method: { case: 'oauth2', value } } }
}

function readCertificate(form: FormValues): {
  clientCertificate?: MessageInitShape<typeof ClientCertificateSchema>
} {
  const change = form.text('certificate')
  if (change !== 'none' && change !== 'replace') return {}
  return {
    clientCertificate: {
      certificatePem: form.text('options.clientCertificate.certificatePem'),
      privateKeyPem: form.text('options.clientCertificate.privateKeyPem'),
    },
  }
}
