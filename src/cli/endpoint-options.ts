import { readFileSync, statSync } from 'node:fs'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EndpointOptionsSchema } from '../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import { type Endpoint, LegacySignature } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { localTime, numberFrom } from './options.ts'
import { EXIT, Failure } from './output.ts'
import { readSecretArgument, readSecretFile } from './read-secret.ts'

/** The flags of an endpoint's options. Secrets are read only from files. */
export interface OptionFlags {
  readonly headersFile?: string
  readonly removeHeaders?: boolean
  readonly basicUsername?: string
  readonly basicPasswordFile?: string
  readonly removeAuthentication?: boolean
  readonly certificateFile?: string
  readonly certificateKeyFile?: string
  readonly removeCertificate?: boolean
  readonly oauth2Url?: string
  readonly oauth2Client?: string
  readonly oauth2SecretFile?: string
  readonly oauth2Scope?: string
  readonly oauth2Audience?: string
  readonly oauth2InBody?: boolean
  readonly rateLimit?: number
  readonly ordered?: boolean
  readonly unordered?: boolean
}

/** The flags of the format and signature of requests. The text secret is read only from a file. */
export interface FormatFlags {
  readonly textSecretFile?: string
  readonly legacySignature?: LegacySignature
  readonly removeLegacySignature?: boolean
  readonly eventName?: string
  readonly payerAsArray?: boolean
  readonly payerAsObject?: boolean
}

type Options = MessageInitShape<typeof EndpointOptionsSchema>

/** The largest file of headers, in bytes. */
const FILE_BYTES_MAX = 32_768

/** The help lines of options when an endpoint is added or updated. */
export const OPTION_FLAGS = `--headers-file <path>  file of custom headers, a line "name: value" for each; replaces all existing headers
  --basic-username <name>  user name of basic authentication
  --basic-password-file <path>  file of the password of basic authentication
  --oauth2-url <url>  URL of access tokens, for client credentials
  --oauth2-client <id>  client id
  --oauth2-secret-file <path>  file of the client secret
  --oauth2-scope <scope>  scope to request
  --oauth2-audience <audience>  audience to request
  --oauth2-in-body  send the credentials in the body
  --certificate-file <path>  client certificate with its chain, in PEM, for mutual TLS
  --certificate-key-file <path>  private key of the certificate, in PEM
  --rate-limit <count>  requests a second, 1 to 1000; 0: no limit
  --ordered  send each event after the one before was acknowledged`

export const OPTION_RULES = {
  headersFile: { conflicts: 'removeHeaders' },
  basicUsername: { conflicts: 'removeAuthentication' },
  oauth2Url: { conflicts: ['removeAuthentication', 'basicUsername'] },
  certificateFile: { conflicts: 'removeCertificate' },
  rateLimit: { read: numberFrom(0, 1_000) },
  ordered: { conflicts: 'unordered' },
}

export const REMOVAL_FLAGS = `--remove-legacy-signature  send no x-wiaxy-signature any more
  --payer-as-object  send data.payer as an object again
  --remove-headers  remove the custom headers
  --remove-authentication  remove the authentication
  --remove-certificate  remove the client certificate
  --unordered  send events without waiting for the one before`

export const PROFILE = '--profile <profile>  how requests look and are signed (default: standard)'

/** The help lines of the WIAXY profile when an endpoint is added or updated. */
export const FORMAT_FLAGS = `--legacy-signature <kind>  also send x-wiaxy-signature, which is weak (profile wiaxy)
  --event-name <name>  what bodies call PAYMENT_NOTIFICATION, such as PAYMENT_NOTIFIFICATION (profile wiaxy)
  --payer-as-array  send data.payer as an array of one (profile wiaxy)`

export const TEXT_SECRET =
  '--text-secret-file <path>  file of the text that signs, or - for standard input; default: one is generated (profile wiaxy)'

/** Reads the text secret. @returns an empty text if no file was given */
export async function readTextSecret({ textSecretFile: path }: FormatFlags): Promise<string> {
  return path === undefined ? '' : readSecretArgument(path, '--text-secret-file', 'Text secret')
}

/** Reads the format of requests. Absent fields are not changed. */
export function readFormat(flags: FormatFlags) {
  const { legacySignature, removeLegacySignature, eventName, payerAsArray, payerAsObject } = flags
  return {
    ...((legacySignature || removeLegacySignature) && {
      legacySignature: legacySignature ?? LegacySignature.UNSPECIFIED,
    }),
    ...(eventName !== undefined && { eventName }),
    ...((payerAsArray || payerAsObject) && { payerAsArray: payerAsArray === true }),
  }
}

/** @throws Failure if a file cannot be read, or an option requires another one */
export function readOptions(flags: OptionFlags): Options {
  const headers = readHeaders(flags)
  const authentication = readAuthentication(flags)
  const clientCertificate = readCertificate(flags)
  return {
    ...(headers && { headers: { headers } }),
    ...(authentication && { authentication }),
    ...(clientCertificate && { clientCertificate }),
    ...(flags.rateLimit !== undefined && { rateLimit: flags.rateLimit }),
    ...((flags.ordered || flags.unordered) && { ordered: flags.ordered === true }),
  }
}

function readHeaders({ headersFile, removeHeaders }: OptionFlags) {
  if (removeHeaders) return []
  if (headersFile === undefined) return undefined
  const lines = readText(headersFile)
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '')
  return lines.map((line, index) => {
    const [, name, value] = /^([^:\s]+):\s*(.*?)\s*$/.exec(line) ?? []
    // The line may contain a secret, so the error does not quote it.
    if (name === undefined || value === undefined) {
      const text = `--headers-file: line ${index + 1} of ${headersFile} is not "name: value"`
      throw new Failure(EXIT.usage, text)
    }
    return { name, value }
  })
}

function readAuthentication(flags: OptionFlags): Options['authentication'] {
  const { basicUsername: username, basicPasswordFile, removeAuthentication } = flags
  if (removeAuthentication) return { method: { case: undefined } }
  if (flags.oauth2Url !== undefined) return readOAuth2(flags.oauth2Url, flags)
  if (username === undefined && basicPasswordFile === undefined) return undefined
  if (username === undefined || basicPasswordFile === undefined) {
    throw new Failure(EXIT.usage, 'give both --basic-username and --basic-password-file')
  }
  const password = readSecretFile(basicPasswordFile, '--basic-password-file')
  return { method: { case: 'basic', value: { username, password } } }
}

function readCertificate(flags: OptionFlags): Options['clientCertificate'] {
  const { certificateFile, certificateKeyFile, removeCertificate } = flags
  if (removeCertificate) return { certificatePem: '', privateKeyPem: '' }
  if (certificateFile === undefined && certificateKeyFile === undefined) return undefined
  if (certificateFile === undefined || certificateKeyFile === undefined) {
    throw new Failure(EXIT.usage, 'give both --certificate-file and --certificate-key-file')
  }
  return { certificatePem: readText(certificateFile), privateKeyPem: readText(certificateKeyFile) }
}

function readOAuth2(tokenUrl: string, flags: OptionFlags): Options['authentication'] {
  const { oauth2Client: clientId, oauth2SecretFile } = flags
  if (clientId === undefined || oauth2SecretFile === undefined) {
    throw new Failure(EXIT.usage, 'give --oauth2-client and --oauth2-secret-file too')
  }
  const clientSecret = readSecretFile(oauth2SecretFile, '--oauth2-secret-file')
  const { oauth2Scope: scope = '', oauth2Audience: audience = '' } = flags
  const credentialsInBody = flags.oauth2InBody === true
  const value = { tokenUrl, clientId, clientSecret, scope, audience, credentialsInBody }
  return { method: { case: 'oauth2', value } }
}

function readText(path: string): string {
  try {
    if (statSync(path).size > FILE_BYTES_MAX) throw new Failure(EXIT.usage, `${path} is too large`)
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Failure) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new Failure(EXIT.usage, `a file cannot be read (${code}): ${path}`)
  }
}

/** Columns of an endpoint's options by title; they never contain secrets. */
export const optionColumns = {
  Headers: ({ options }: Endpoint) => options?.headerNames.join(', ') ?? '',
  Authentication({ options }: Endpoint) {
    const { case: method, value } = options?.authentication ?? { case: undefined }
    if (method === 'oauth2') return `OAuth 2.0, as ${value.clientId} at ${value.tokenUrl}`
    return method === undefined ? '' : `basic, as ${value}`
  },
  'Rate limit': ({ options }: Endpoint) => (options?.rateLimit ? `${options.rateLimit}/s` : ''),
  Certificate({ options }: Endpoint) {
    const shown = options?.clientCertificate
    return shown ? `${shown.subject}, until ${localTime.format(shown.expiresAt)}` : ''
  },
}
